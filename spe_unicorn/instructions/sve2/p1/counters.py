"""Predicates as counters: the numbers in their low 16 bits (Arm ARM, shared/functions/sve).

Bit 15 inverts. The lowest one of bits 3:0 says the size of elements, and the bits above it are how
many elements, from the first on, are active, or inactive with bit 15. With none of bits 3:0 no
element is active.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import Table, int64, routine
from spe_unicorn.instructions.sve2.selecting import clear_predicate

COUNTER: Final = 0xFFFF
"""The bits of a predicate register that are a counter. Where one is written the others are zero."""
_INVERTS: Final = 1 << 15
_SIZES: Final = 15
"""The bits that say the size of elements."""


@routine
def counter_of(bits: int, elements: int, count: int, inverts: int) -> int:
    """EncodePredCount(): the counter by which ``count`` of so many elements of ``bits`` are active.

    With ``inverts`` they are the last ones, else the first.
    """
    if count == 0:
        return int64(0)
    if inverts == 0 and count < elements:
        return (count << 1 | 1) * (bits >> 3)
    return _INVERTS | ((elements - count) << 1 | 1) * (bits >> 3)


@routine
def bits_of(counter: int) -> int:
    """The size of a counter's elements, 8 to 64 bits; 0 where no element is active."""
    low = counter & _SIZES
    return (low & -low) << 3


@routine
def counted(counter: int, size: int) -> int:
    """The elements from the first on that a counter counts, with vectors of ``size`` bytes.

    Its bits above those that the elements of four such vectors need are not looked at.
    """
    bits = bits_of(counter)
    if bits == 0:
        return int64(0)
    room = int64(16)
    while room < size:
        room *= 2
    return (counter & 8 * room - 1 & _INVERTS - 1) // (bits >> 2)


@routine
def is_active(counter: int, at: int, size: int) -> bool:
    """Bit ``at`` of CounterToPredicate(), with vectors of ``size`` bytes.

    A bit is that of a byte of up to four vectors. It is 0 but for the lowest byte of an element.
    """
    each = bits_of(counter) >> 3
    if each == 0 or at & each - 1:
        return False
    return (at // each < counted(counter, size)) != (counter & _INVERTS != 0)


@routine
def put_counter(p: Table, d: int, size: int, counter: int) -> None:
    """Write a counter to a predicate register, of vectors of ``size`` bytes; the rest is zero."""
    clear_predicate(p, d, size)
    p[d, 0] |= counter


def mask_of(counter: int, places: int, size: int) -> int:
    """CounterToPredicate(): a bit for each of ``places`` bytes of vectors of ``size`` bytes."""
    each = int(bits_of(counter)) >> 3
    return sum(1 << at for at in range(0, places, each or places) if is_active(counter, at, size))
