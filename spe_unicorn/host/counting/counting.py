"""Counting: moves the Performance Monitors of one PE by what its engine has executed.

Between two looks nothing that decides what counts has changed: whatever can change it has us look
first. So a look takes how far the total of each event has come, and gives that to the counters that
counted it. The next possible overflow is a horizon of the runner, so that it lands on its
operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionRecord
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, PEAt
from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.registers.pmu import PMU_VALUES
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.counting.totals import EventTotals
from spe_unicorn.host.pe.access.monitor_registers import registers
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import NEVER_HAPPENS, DeviceRegister
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.pmu.monitors import MonitorState, PerformanceMonitors
from spe_unicorn.pmu.profiling_exception import exception_unmasked, returned_ppend
from spe_unicorn.pmu.views import MonitorView
from spe_unicorn.spe.enabling import profiling_stopped
from spe_unicorn.stateful import Stateful

_LEVELS: Final = (EL0, EL1, EL2, EL3)


@dataclass(slots=True)
class CountingState:
    """What is saved: how far totals had come at the last look, by event."""

    seen: dict[int, int] = field(default_factory=dict)
    executed: int = 0


def monitored(
    cpu: UnicornCPU,
    counters: int,
    interrupt: IRQLine,
    exception: IRQLine,
    samples: EventJunction,
) -> Counting:
    """The Performance Monitors of a PE, with ``counters`` event counters.

    ``samples`` is where the events of sampling arrive; other arguments are as of :class:`Counting`.
    """
    spe = Feature.FEAT_SPE in cpu.features
    monitors = PerformanceMonitors(cpu, counters, lambda: spe and profiling_stopped(cpu))
    totals = EventTotals(cpu, samples)
    counting = Counting(cpu, monitors, totals, interrupt, exception)
    view = MonitorView(cpu, monitors, frozenset(totals.sources) | {PMUEvent.CHAIN})
    counting.registers = registers(cpu.registers, view, counting.settle, counting.changed)
    cpu.monitors = counting
    return counting


class Counting(Stateful[CountingState]):
    """Counts for ``monitors``, whose PE is ``cpu``.

    ``interrupt`` is PMUIRQ, ``exception`` says that an overflow asks for the PMU exception.
    """

    DERIVED = ("_asserted", "_by_event", "_due", "_key", "_live", "_generation")
    TRANSIT = ("last",)
    WIRING = ("registers",)

    def __init__(
        self,
        cpu: UnicornCPU,
        monitors: PerformanceMonitors,
        totals: EventTotals,
        interrupt: IRQLine,
        exception: IRQLine,
    ) -> None:
        self.registers: dict[type[SysReg], DeviceRegister] = {}
        """The registers by which software programs the counters."""
        self.monitors = monitors
        self.totals = totals
        self.last = 0
        """The address of the last operation that was executed."""
        self.s = CountingState()
        self._cpu = cpu
        self._interrupt = interrupt
        self._exception = exception
        self._live = 0
        self._by_event: dict[int, tuple[int, ...]] = {}
        self._due = NEVER_HAPPENS
        self._asserted = False
        self._generation = 0
        """Counts writes of the monitors' registers."""
        self._key: tuple[object, ...] = ()
        """What the last look found that decides what counts."""

    def before_reset(self) -> None:
        """The PE is about to be reset: nothing counts any more."""
        self.monitors.s = MonitorState()
        self._look_anew()

    def reset(self, unknown: Callable[[], int]) -> None:
        """Warm reset; ``unknown()`` gives 64 bits for UNKNOWN fields."""
        self.monitors.reset(unknown)
        registers = self._cpu.registers
        for register in PMU_VALUES:
            if register in registers:
                value = register.reset_value(registers.features, unknown)
                registers.set_raw(register, value & registers.present(register))
        self.changed()

    def _derive(self) -> None:
        self._look_anew()

    # The horizon

    def due(self) -> int:
        """The number of executed operations before which no counter overflows."""
        return self._due

    def settle(self, *, raised: bool = False, before: PE | None = None) -> None:
        """Count what has been executed since the last look.

        ``raised``: the last operation ended in an exception of its own. ``before`` is the PE as it
        was before that operation, if it was an exception return.
        """
        state = self.monitors.s
        if not state.enabled and not state.pending:
            return
        executed = self._cpu.executed - self.totals.hosted
        if executed != self.s.executed:
            self.s.executed = executed
            seen = self.s.seen
            increments: dict[int, int] = {}
            for event, counters in self._by_event.items():
                total = self.totals.of(event)
                if total != seen[event]:
                    for counter in counters:
                        increments[counter] = total - seen[event]
                    seen[event] = total
            self.monitors.landed(increments, self._live, self.last, raised=raised, masked_by=before)
        self._look_anew()

    def changed(self) -> None:
        """What decides what counts has changed, or the counters have; :meth:`settle` came first."""
        self._generation += 1
        self._look_anew()

    # What the host executes

    def hosts(self, pc: int) -> None:
        """The host is about to carry out the operation at ``pc``, which has been counted."""
        self.settle()
        self.last = pc
        self.totals.hosted = 1

    def hosted(self, *, raised: bool) -> None:
        """It has; ``raised``: it did not retire. A no-op where that is known already."""
        if self.totals.hosted:
            self.totals.hosted = 0
            self._cpu.state.unretired += raised

    # Exceptions and returns: host.ports.Monitored

    @property
    def implemented(self) -> int:
        """The number of event counters."""
        return self.monitors.implemented

    @property
    def pending(self) -> bool:
        """PSTATE.PPEND."""
        return self.monitors.s.pending

    def leaving(self) -> None:
        """An exception is about to be entered: count what has been executed up to it."""
        raised = bool(self.totals.hosted)
        self.hosted(raised=True)
        self.settle(raised=raised)

    def entered(self, record: ExceptionRecord) -> None:
        """PSTATE.PPEND has been saved: it is 0 from now on, and the exception counts."""
        self.monitors.entered()

    def returned(self, before: PE, ppend: bool) -> None:
        """An exception return restored ``ppend``; ``before`` is the PE as it was until then."""
        self.hosted(raised=False)
        self.settle(before=before)
        masked = not exception_unmasked(before)
        if returned_ppend(
            ppend, masked_before=masked, unmasked_after=exception_unmasked(self._cpu)
        ):
            self.monitors.s.pending = True
            self._look_anew()

    def _look_anew(self) -> None:
        """Work out what counts from here on, and what overflows come to."""
        monitors, cpu = self.monitors, self._cpu
        key = (cpu.el, int(cpu.state.writes), self._generation, monitors.deciding)
        if key != self._key:
            self._key = key
            self._choose()
        self._due = self._next_overflow()
        interrupt = monitors.interrupt
        if interrupt != self._asserted:
            self._asserted = interrupt
            self._interrupt.set_level(interrupt)
        self._exception.set_level(monitors.asks_for_exception)

    def _choose(self) -> None:
        """Which counters count at the current Exception level, and at others."""
        monitors, cpu = self.monitors, self._cpu
        self.s.executed = cpu.executed - self.totals.hosted
        self._live = live = monitors.live()
        by_event: dict[int, list[int]] = {}
        for counter in range(live.bit_length()):
            if live >> counter & 1:
                by_event.setdefault(monitors.event_of(counter), []).append(counter)
        self._by_event = {event: tuple(found) for event, found in by_event.items()}
        self.s.seen = {event: self.totals.of(event) for event in by_event}
        cpu.counted_at = self._counted_at() if monitors.s.enabled else (0,) * len(_LEVELS)

    def _counted_at(self) -> tuple[int, ...]:
        """The counters that count at each Exception level."""
        return tuple(self.monitors.live(PEAt(self._cpu, el)) for el in _LEVELS)

    def _next_overflow(self) -> int:
        monitors, totals = self.monitors, self.totals
        now = self._cpu.executed - totals.hosted
        distances = [
            monitors.until_overflow(counter) // most
            for event, counters in self._by_event.items()
            if (most := totals.most(event))
            for counter in counters
        ]
        synchronous = monitors.synchronous & monitors.s.noticed & monitors.s.overflowed & self._live
        if monitors.s.pending or (synchronous and exception_unmasked(self._cpu)):
            distances.append(1)  # what the next operation does decides PSTATE.PPEND
        return now + max(1, min(distances)) if distances else NEVER_HAPPENS
