"""What a PE's timers hold, as an array, and the rules on it that need nothing else.

Compiled code answers the timers' registers by the very functions that answer here: so they use
numbers and arrays alone. A count is any number whose low 64 bits are the count. An array keeps it
as a number with a sign. Sums of compiled code must not leave 64 bits, so counts are subtracted by
halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spe_unicorn.arch.counter import NEVER
from spe_unicorn.arch.pe import EL2

if TYPE_CHECKING:
    from spe_unicorn.compiled import Words

PHYSICAL, VIRTUAL, EL2_PHYSICAL, EL2_VIRTUAL, SECURE_PHYSICAL = range(5)
TIMERS: Final = 5

CONTROL: Final = 0
"""ENABLE and IMASK of CTL: a word a timer."""
COMPARE: Final = TIMERS
"""CVAL: a word a timer."""
WORDS: Final = 2 * TIMERS

ENABLE, IMASK, ISTATUS = 1, 2, 4
_WORD: Final = 0xFFFF_FFFF
_SIGN: Final = 1 << 31


def minus(count: int, other: int) -> int:
    """What lies between two counts: 64 bits, as a number with a sign."""
    low = (count & _WORD) - (other & _WORD)
    high = (count >> 32 & _WORD) - (other >> 32 & _WORD) + (low >> 32)
    return (high & _SIGN - 1) - (high & _SIGN) << 32 | low & _WORD


def is_below(count: int, other: int) -> bool:
    """Whether a count is less than another: 64 bits each, without a sign."""
    high, other_high = count >> 32 & _WORD, other >> 32 & _WORD
    return high < other_high or (high == other_high and count & _WORD < other & _WORD)


def offset_of(n: int, virtual: int, physical: int) -> int:
    """What a timer takes from the system counter, by the offsets of EL1's two counters."""
    if n == VIRTUAL:
        return virtual
    return physical if n == PHYSICAL else 0


def own_offset(n: int, el: int, virtual: int, physical: int) -> int:
    """What is taken from the system counter where software at ``el`` accesses a TVAL.

    EL2 and EL3 set the physical timer by the physical count itself; its condition is offset all the
    same (the register's own pseudocode).
    """
    return offset_of(n, virtual, 0 if el >= EL2 else physical)


def is_met(w: Words, n: int, view: int) -> bool:
    """Whether a timer is enabled and its condition met, where its count is ``view``."""
    return w[CONTROL + n] & ENABLE != 0 and not is_below(view, w[COMPARE + n])


def output(w: Words, n: int, view: int) -> bool:
    """The output of a timer whose count is ``view``."""
    return w[CONTROL + n] & IMASK == 0 and is_met(w, n, view)


def next_change(w: Words, n: int, view: int, now: int) -> int:
    """The next count of the system counter, after ``now``, at which a timer's output changes.

    That is by itself. ``arch.counter.NEVER`` if it is not before that.
    """
    if w[CONTROL + n] & (ENABLE | IMASK) != ENABLE:
        return NEVER
    if is_below(view, w[COMPARE + n]):
        left = minus(w[COMPARE + n], view)
    elif w[COMPARE + n] != 0:
        left = minus(0, view)  # the view wraps: the counter catches up with its offset
    else:
        return NEVER
    return now + left if 0 < left < NEVER - now else NEVER


def first_change(w: Words, now: int, virtual: int, physical: int) -> int:
    """The next count, after ``now``, at which the output of any timer changes by itself."""
    first = NEVER
    for n in range(TIMERS):
        first = min(first, next_change(w, n, minus(now, offset_of(n, virtual, physical)), now))
    return first


def read_control(w: Words, n: int, view: int) -> int:
    """CTL. ISTATUS is UNKNOWN while ENABLE is 0; ours is zero then."""
    control: int = w[CONTROL + n]
    return control | ISTATUS if is_met(w, n, view) else control


def read_value(w: Words, n: int, view: int) -> int:
    """TVAL, seen by software whose own view of the counter is ``view``.

    It is UNKNOWN while ENABLE is 0; ours goes on counting then.
    """
    return minus(w[COMPARE + n], view) & _WORD


def write_control(w: Words, n: int, value: int) -> None:
    """Write CTL."""
    w[CONTROL + n] = value & (ENABLE | IMASK)


def write_compare(w: Words, n: int, value: int) -> None:
    """Write CVAL."""
    w[COMPARE + n] = minus(value, 0)


def write_value(w: Words, n: int, value: int, view: int) -> None:
    """Write TVAL: the compare value lies that many ticks, signed, after ``view``."""
    w[COMPARE + n] = minus(view, (value & _SIGN) - (value & _SIGN - 1))
