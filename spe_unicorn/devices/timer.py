"""The generic timer's comparators, one set a PE.

Time is the system counter (``arch.counter``), and is handed in: nothing here knows another clock. A
comparator looks at the counter less an offset; the offsets' registers are the PE's, and so arrive
as callables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.registers import timer as registers
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.timer import (
    TimerCompareValue,
    TimerControl,
    TimerValue,
)
from spe_unicorn.plain import Bits64
from spe_unicorn.stateful import Stateful

_COUNTS = 1 << 64
_WORD = 0xFFFF_FFFF

Offset = Callable[[], int]
"""Gives the value that a comparator takes from the system counter, in ticks."""


def _none() -> int:
    return 0


@dataclass(slots=True)
class ComparatorState:
    """What is saved of one timer."""

    enable: bool = False
    imask: bool = False
    cval: Bits64 = 0


class Comparator(Stateful[ComparatorState]):
    """One timer: its enable, its mask, its compare value and its level-sensitive output.

    What the output is depends on the time as well: a state that is restored needs :meth:`update`.
    """

    def __init__(self, line: IRQLine, offset: Offset = _none) -> None:
        self._line = line
        self._offset = offset
        self.s = ComparatorState()

    def reset(self) -> None:
        """Warm reset: disabled, the output low."""
        self.s = ComparatorState()
        self._line.set_level(False)

    def istatus(self, now: int) -> bool:
        """Whether the timer is enabled and its condition met; both sides 64-bit unsigned."""
        return self.s.enable and self._view(now) >= self.s.cval

    def level(self, now: int) -> bool:
        """The output."""
        return self.istatus(now) and not self.s.imask

    def update(self, now: int) -> None:
        """Drive the output as it must be at ``now``, after time or an offset has changed."""
        self._line.set_level(self.level(now))

    def deadline(self, now: int) -> int | None:
        """The next count after ``now`` at which the output changes by itself, None for never.

        A change on the far side of the counter's own 64 bits is never.
        """
        if not self.s.enable or self.s.imask:
            return None
        view = self._view(now)
        if view < self.s.cval:
            change = now + self.s.cval - view
        elif self.s.cval:
            change = now + _COUNTS - view  # the view wraps: the counter catches up with its offset
        else:
            return None
        return change if change < _COUNTS else None

    def ctl(self, now: int) -> int:
        """CTL. ISTATUS is UNKNOWN while ENABLE is 0; ours is zero then."""
        return self.istatus(now) << 2 | self.s.imask << 1 | self.s.enable

    def set_ctl(self, value: int, now: int) -> None:
        """Write CTL."""
        self.s.enable = bool(value & 1)
        self.s.imask = bool(value & 2)
        self.update(now)

    def set_cval(self, value: int, now: int) -> None:
        """Write CVAL."""
        self.s.cval = value
        self.update(now)

    def tval(self, view: int) -> int:
        """TVAL, seen by software whose own view of the counter is ``view``.

        It is UNKNOWN while ENABLE is 0; ours goes on counting then.
        """
        return (self.s.cval - view) & _WORD

    def set_tval(self, value: int, view: int, now: int) -> None:
        """Write TVAL: the compare value lies that many ticks, signed, after ``view``."""
        ticks = ((value & _WORD) ^ 1 << 31) - (1 << 31)
        self.set_cval((view + ticks) % _COUNTS, now)

    def _view(self, now: int) -> int:
        return (now - self._offset()) % _COUNTS


class TimerLines(NamedTuple):
    """What each of the five timers drives: a PPI."""

    physical: IRQLine
    virtual: IRQLine
    el2_physical: IRQLine
    el2_virtual: IRQLine
    secure_physical: IRQLine


class GenericTimer:
    """The five timers of a PE and the registers through which software reaches them.

    ``cntvoff`` is the virtual offset; ``cntpoff`` the
    physical one in force at EL1 and EL0, so zero unless FEAT_ECV_POFF, CNTHCTL_EL2.ECV and
    SCR_EL3.ECVEn say otherwise. The Secure EL2 timers (FEAT_SEL2) are not there.
    """

    def __init__(
        self, lines: TimerLines, *, cntvoff: Offset = _none, cntpoff: Offset = _none
    ) -> None:
        self._cntvoff = cntvoff
        self._cntpoff = cntpoff
        self.physical = Comparator(lines.physical, cntpoff)
        self.virtual = Comparator(lines.virtual, cntvoff)
        self.el2_physical = Comparator(lines.el2_physical)
        self.el2_virtual = Comparator(lines.el2_virtual)
        self.secure_physical = Comparator(lines.secure_physical)
        owners = (
            self.physical,
            self.virtual,
            self.el2_physical,
            self.el2_virtual,
            self.secure_physical,
        )
        self._all = owners
        self._of = {
            register: owners[number // 3] for number, register in enumerate(registers.COMPARATORS)
        }

    def reset(self) -> None:
        """Warm reset of every timer."""
        for comparator in self._all:
            comparator.reset()

    def read(self, register: type[SysReg], now: int, el: int) -> int:
        """What software at ``el`` reads. Raises KeyError for a register that is no timer's."""
        comparator = self._of[register]
        if issubclass(register, TimerControl):
            return comparator.ctl(now)
        if issubclass(register, TimerCompareValue):
            return comparator.s.cval
        return comparator.tval(self._counter(register, now, el))

    def write(self, register: type[SysReg], value: int, now: int, el: int) -> None:
        """What software at ``el`` writes. Raises KeyError for a register that is no timer's."""
        comparator = self._of[register]
        if issubclass(register, TimerControl):
            comparator.set_ctl(value, now)
        elif issubclass(register, TimerCompareValue):
            comparator.set_cval(value, now)
        else:
            comparator.set_tval(value, self._counter(register, now, el), now)

    def update(self, now: int) -> None:
        """Drive every output as it must be at ``now``."""
        for comparator in self._all:
            comparator.update(now)

    def virtual_offset(self) -> int:
        """What the virtual counter is behind the system counter, in ticks."""
        return self._cntvoff()

    def next_deadline(self, now: int) -> int | None:
        """The next count after ``now`` at which an output changes by itself, None for never."""
        deadlines = (comparator.deadline(now) for comparator in self._all)
        return min((d for d in deadlines if d is not None), default=None)

    def _counter(self, register: type[TimerValue] | type[SysReg], now: int, el: int) -> int:
        """The counter against which a TVAL is reckoned for software at ``el``.

        EL2 and EL3 set the physical timer by the physical count itself; its condition is offset
        all the same (the register's own pseudocode).
        """
        if register is registers.CNTV_TVAL_EL0:
            return (now - self._cntvoff()) % _COUNTS
        if register is registers.CNTP_TVAL_EL0 and el < EL2:
            return (now - self._cntpoff()) % _COUNTS
        return now


def next_event(evnti: int, count: int, *, evnten: bool, evntdir: bool, evntis: bool) -> int | None:
    """How many ticks until the event stream sends its next event, None when it is off.

    The arguments are the fields of CNTKCTL_EL1 (with the virtual count) or CNTHCTL_EL2 (with the
    physical one). The event is bit EVNTI of the count, 8 places higher with EVNTIS, going from 0
    to 1, or from 1 to 0 with EVNTDIR.
    """
    if not evnten:
        return None
    half = 1 << evnti + (8 if evntis else 0)
    period = 2 * half
    edge = 0 if evntdir else half
    return (edge - count - 1) % period + 1
