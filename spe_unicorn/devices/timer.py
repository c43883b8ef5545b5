"""The generic timer's comparators, one set a PE.

Time is the system counter (``arch.counter``), and is handed in: nothing here knows another clock. A
comparator looks at the counter less an offset; the offsets' registers are the PE's, and so arrive
as callables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.counter import NEVER
from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.registers import timer as registers
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.timer import TimerCompareValue, TimerControl
from spe_unicorn.devices import timer_cells as c
from spe_unicorn.plain import Bits64
from spe_unicorn.stateful import Stateful

_COUNTS = 1 << 64

TIMER_OF: Final = {register: n // 3 for n, register in enumerate(registers.COMPARATORS)}
"""The number of the timer that a register is of, as ``timer_cells`` counts them."""
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

    It is number ``n`` of ``words``, which are as ``timer_cells`` has them. What the output is
    depends on the time as well: a state that is restored needs :meth:`update`.
    """

    DERIVED = ("_w",)

    def __init__(
        self,
        line: IRQLine,
        offset: Offset = _none,
        words: NDArray[np.int64] | None = None,
        n: int = 0,
    ) -> None:
        self._line = line
        self._offset = offset
        self._w = (np.zeros(c.WORDS, np.int64) if words is None else words).data
        self._n = n

    @property
    def s(self) -> ComparatorState:
        """What is saved."""
        control = self._w[c.CONTROL + self._n]
        compare = self._w[c.COMPARE + self._n] % _COUNTS
        return ComparatorState(bool(control & c.ENABLE), bool(control & c.IMASK), compare)

    @s.setter
    def s(self, state: ComparatorState) -> None:
        control = c.ENABLE * state.enable | c.IMASK * state.imask
        c.write_control(self._w, self._n, control)
        c.write_compare(self._w, self._n, state.cval)

    def reset(self) -> None:
        """Warm reset: disabled, the output low."""
        self.s = ComparatorState()
        self._line.set_level(False)

    def level(self, now: int) -> bool:
        """The output."""
        return c.output(self._w, self._n, self._view(now))

    def update(self, now: int) -> None:
        """Drive the output as it must be at ``now``, after time or an offset has changed."""
        self._line.set_level(self.level(now))

    def deadline(self, now: int) -> int | None:
        """The next count after ``now`` at which the output changes by itself, None for never.

        A change that no machine comes to is never.
        """
        change = c.next_change(self._w, self._n, self._view(now), now)
        return None if change == NEVER else change

    def ctl(self, now: int) -> int:
        """CTL."""
        return c.read_control(self._w, self._n, self._view(now))

    def set_ctl(self, value: int, now: int) -> None:
        """Write CTL."""
        c.write_control(self._w, self._n, value)
        self.update(now)

    def set_cval(self, value: int, now: int) -> None:
        """Write CVAL."""
        c.write_compare(self._w, self._n, value)
        self.update(now)

    def tval(self, view: int) -> int:
        """TVAL, seen by software whose own view of the counter is ``view``."""
        return c.read_value(self._w, self._n, view)

    def set_tval(self, value: int, view: int, now: int) -> None:
        """Write TVAL: the compare value lies that many ticks, signed, after ``view``."""
        c.write_value(self._w, self._n, value, view)
        self.update(now)

    def _view(self, now: int) -> int:
        return now - self._offset()


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

    DERIVED = ("words",)

    def __init__(
        self, lines: TimerLines, *, cntvoff: Offset = _none, cntpoff: Offset = _none
    ) -> None:
        self._cntvoff = cntvoff
        self._cntpoff = cntpoff
        self.words = words = np.zeros(c.WORDS, np.int64)
        """What the timers hold, as ``timer_cells`` has it."""
        self.physical = Comparator(lines.physical, cntpoff, words, c.PHYSICAL)
        self.virtual = Comparator(lines.virtual, cntvoff, words, c.VIRTUAL)
        self.el2_physical = Comparator(lines.el2_physical, _none, words, c.EL2_PHYSICAL)
        self.el2_virtual = Comparator(lines.el2_virtual, _none, words, c.EL2_VIRTUAL)
        self.secure_physical = Comparator(lines.secure_physical, _none, words, c.SECURE_PHYSICAL)
        owners = (
            self.physical,
            self.virtual,
            self.el2_physical,
            self.el2_virtual,
            self.secure_physical,
        )
        self._all = owners

    def reset(self) -> None:
        """Warm reset of every timer."""
        for comparator in self._all:
            comparator.reset()

    def read(self, register: type[SysReg], now: int, el: int) -> int:
        """What software at ``el`` reads. Raises KeyError for a register that is no timer's."""
        n = TIMER_OF[register]
        comparator = self._all[n]
        if issubclass(register, TimerControl):
            return comparator.ctl(now)
        if issubclass(register, TimerCompareValue):
            return comparator.s.cval
        return comparator.tval(self._own_view(n, now, el))

    def write(self, register: type[SysReg], value: int, now: int, el: int) -> None:
        """What software at ``el`` writes. Raises KeyError for a register that is no timer's."""
        n = TIMER_OF[register]
        comparator = self._all[n]
        if issubclass(register, TimerControl):
            comparator.set_ctl(value, now)
        elif issubclass(register, TimerCompareValue):
            comparator.set_cval(value, now)
        else:
            comparator.set_tval(value, self._own_view(n, now, el), now)

    def update(self, now: int) -> None:
        """Drive every output as it must be at ``now``."""
        for comparator in self._all:
            comparator.update(now)

    def virtual_offset(self) -> int:
        """What the virtual counter is behind the system counter, in ticks."""
        return self._cntvoff()

    def next_deadline(self, now: int) -> int | None:
        """The next count after ``now`` at which an output changes by itself, None for never."""
        first = c.first_change(self.words.data, now, self._cntvoff(), self._cntpoff())
        return None if first == NEVER else first

    def _own_view(self, n: int, now: int, el: int) -> int:
        """The counter against which the TVAL of a timer is reckoned for software at ``el``."""
        return now - c.own_offset(n, el, self._cntvoff(), self._cntpoff())


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
