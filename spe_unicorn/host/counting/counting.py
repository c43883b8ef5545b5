"""Counting: moves the Performance Monitors of one PE by what its engine has executed.

:meth:`Counting.count_executed` is called before anything changes that decides which counters
count. So it can give each counter the difference of its event's total since the call before. The
next possible overflow is a horizon of the runner, so an overflow happens at its very operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionRecord
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, PEAt
from spe_unicorn.arch.ports import Cracker, IRQLine
from spe_unicorn.arch.registers.pmu import PMCR_EL0, PMECR_EL1, PMU_VALUES
from spe_unicorn.host.counting.late import LateMonitors, Registers
from spe_unicorn.host.counting.modelled import AWAITED, ONLY_CLOSE
from spe_unicorn.host.counting.outside import OutsideCounts
from spe_unicorn.host.counting.taken import TakenExceptions
from spe_unicorn.host.counting.totals import AHEAD, EventTotals
from spe_unicorn.host.native.sampling.awaited import CLOSE
from spe_unicorn.host.native.state.ledger import not_retired
from spe_unicorn.host.pe.access.monitor_registers import registers
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import NEVER_HAPPENS
from spe_unicorn.plain import Bits64
from spe_unicorn.pmu.countable import MODELLED
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.pmu.exceptions import exception_events, is_call, taken_locally
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.pmu.monitors import PerformanceMonitors
from spe_unicorn.pmu.profiling_exception import (
    exception_unmasked,
    overflow_route,
    returned_ppend,
)
from spe_unicorn.pmu.shadow import Shadow
from spe_unicorn.pmu.threshold import Threshold
from spe_unicorn.pmu.views import MonitorView
from spe_unicorn.spe.enabling import profiling_stopped
from spe_unicorn.spe.lateness.window import Window
from spe_unicorn.stateful import Stateful

_LEVELS: Final = (EL0, EL1, EL2, EL3)
_NOWHERE: Final = (0,) * len(_LEVELS)
_BY_HAND: Final = frozenset({PMUEvent.CHAIN, PMUEvent.SW_INCR})
"""Events without a total: the counters themselves cause them."""


@dataclass(slots=True)
class CountingState:
    """What is saved. All else follows from registers, and starts anew from the totals."""

    last: Bits64 = 0
    """The address of the last operation that was looked at by itself."""


def monitored(
    cpu: UnicornCPU,
    counters: int,
    interrupt: IRQLine,
    exception: IRQLine,
    samples: EventJunction,
    cracker: Cracker | None = None,
) -> Counting:
    """The Performance Monitors of a PE, with ``counters`` event counters.

    ``samples`` is where the events of sampling arrive, ``cracker`` what makes micro-operations of
    instructions; other arguments are as of :class:`Counting`.
    """
    spe = Feature.FEAT_SPE in cpu.features
    shadow = Shadow.of(cpu.registers.impdef)
    monitors = PerformanceMonitors(cpu, counters, lambda: spe and profiling_stopped(cpu), shadow)
    totals = EventTotals(cpu, samples, cracker)
    counting = Counting(cpu, monitors, totals, interrupt, exception)
    events = frozenset(totals.sources) | _BY_HAND

    def registers_of(pe: PE) -> Registers:
        view = MonitorView(pe, monitors, events)
        return registers(cpu.registers, view, counters, counting.count_executed, counting.changed)

    counting.registers = registers_of(cpu)
    counting.registers_at = lambda el: registers_of(PEAt(cpu, el))
    cpu.monitors = counting
    return counting


@dataclass(slots=True, frozen=True)
class _Chosen:
    """What counts at the Exception level of now."""

    live: int = 0
    """The counters that count: a bit each."""
    by_event: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Those of them that events make count."""
    thresholds: dict[int, Threshold] = field(default_factory=dict)
    """The thresholds of the counters that count, by counter."""
    shadowed: bool = False
    """Whether each operation decides which overflows are observed."""
    seen: dict[int, int] = field(default_factory=dict)
    """The total of each event at the last :meth:`Counting.count_executed`."""


class Counting(Stateful[CountingState]):
    """Counts for ``monitors``, whose PE is ``cpu``.

    ``interrupt`` is PMUIRQ, ``exception`` says that an overflow asks for the PMU exception.
    """

    DERIVED = (
        "_asserted",
        "_chosen",
        "_due",
        "_due_beside",
        "_el",
        "_excepts",
        "_executed",
        "_generation",
        "_goals",
        "_key",
        "_quiet_at",
        "_routed_by",
        "_stale",
    )
    WIRING = ("awaits", "late", "outside", "registers", "registers_at", "taken")

    def __init__(
        self,
        cpu: UnicornCPU,
        monitors: PerformanceMonitors,
        totals: EventTotals,
        interrupt: IRQLine,
        exception: IRQLine,
    ) -> None:
        self.registers: Registers = {}
        """The registers by which software programs the counters."""
        self.registers_at: Callable[[int], Registers] = lambda _: self.registers
        """The same, as an Exception level has them."""
        self.late: LateMonitors | None = None
        """Has writes to them take effect later; None where they do so at once."""
        self.monitors = monitors
        self.totals = totals
        self.s = CountingState()
        self.outside: OutsideCounts | None = None
        """Counts from outside, which use none of the guest's counters."""
        self.taken: TakenExceptions | None = None
        """What samples exceptions."""
        self._el = 0
        """The Exception level at the last :meth:`count_executed`."""
        self._cpu = cpu
        self._interrupt = interrupt
        self._exception = exception
        self._chosen = _Chosen()
        self._due = self._due_beside = NEVER_HAPPENS
        """Before which number of executed operations no counter overflows; the same of counters
        of events that are not awaited."""
        self._goals: dict[int, int] = {}
        self.awaits: Callable[[], bool] = lambda: False
        """Whether the engine stops at an operation that makes an awaited event."""
        self._executed = 0
        """Operations executed at the last :meth:`count_executed`."""
        self._stale = False
        """Whether a state has been put back since then."""
        self._quiet_at = -1
        """``State.writes`` at a :meth:`count_executed` with nothing to count. While that is the
        same, and :meth:`_choose_counters` has not been called, there is still nothing. -1 where
        there may be."""
        self._asserted = False
        self._generation = 0
        """Counts writes of the monitors' registers."""
        self._key: tuple[object, ...] = ()
        """The values from which the last :meth:`count_executed` worked out what counts."""
        self._routed_by: tuple[int, ...] = ()
        """``State.writes`` and the generation at which :attr:`excepts` looked at the route."""
        self._excepts = False

    def before_reset(self) -> None:
        """The PE is about to be reset: nothing counts any more."""
        self.monitors.clear()
        self.changed()

    def reset(self, unknown: Callable[[], int], el: int = EL3) -> None:
        """Warm reset, and what firmware leaves for software that begins at ``el``.

        ``unknown()`` gives 64 bits for UNKNOWN fields. At EL1 the higher levels have delegated PMU
        exceptions, and have left them off.
        """
        self.monitors.reset(unknown, el)
        registers = self._cpu.registers
        for register in PMU_VALUES:
            if register in registers:
                value = register.reset_value(registers.features, unknown)
                if register is PMECR_EL1 and el < EL2:
                    value = 0
                registers.set_raw(register, value & registers.present(register))
        self.changed()

    def _derive(self) -> None:
        self._stale = True
        self._quiet_at = -1

    # Counting

    def due(self) -> int:
        """The number of executed operations before which no counter overflows."""
        return self._due_beside if self.awaits() else self._due

    @property
    def awaited(self) -> dict[int, int]:
        """The counts of the core model at which a counter overflows."""
        return self._goals

    def count_executed(self, *, raised: bool = False, before: PE | None = None) -> None:
        """Count what was executed since the last call.

        ``raised`` says that the last operation ended in an exception of its own. If the last
        operation was an exception return, ``before`` is the PE as it was before that.
        """
        if self._quiet_at == self._cpu.state.writes:
            return
        # whether anything counts at all
        monitors, totals = self.monitors, self.totals
        if self._stale:
            self.changed()
        if not self._cpu.inside:
            totals.tallies.between_runs()
        counts = self._chosen.by_event or totals.also or self._due != NEVER_HAPPENS
        if not counts and self._is_idle:
            if not self._cpu.inside:
                self._quiet_at = int(self._cpu.state.writes)
            return
        # take note of what was executed, first for counts from outside
        last = totals.note_executed()
        if self.outside is not None:
            self.outside.count(self._el)
            self._el = self._cpu.el
        if last is not None:
            self.s.last = last
        # move the guest's counters, which may overflow
        executed = totals.executed
        if executed != self._executed:
            cycles, self._executed = executed - self._executed, executed
            monitors.landed(
                self._increments(cycles),
                self._chosen.live,
                self.s.last,
                raised=raised,
                masked_by=before,
            )
            if totals.synchronized:
                totals.synchronized = False
                monitors.synchronized()
        # choose what counts from here on
        self._choose_counters()
        if not self._cpu.inside:
            totals.tallies.between_runs()

    @property
    def counts_nothing(self) -> bool:
        """Whether nothing counts while ``State.writes`` is what it was at the last call."""
        return bool(self._quiet_at == self._cpu.state.writes)

    @property
    def _is_idle(self) -> bool:
        """Whether, with the controls of now, nothing counts and no overflow is told.

        So no counter counts at any Exception level, and nothing from outside does.
        """
        told = self._asserted or self.monitors.s.pending
        return not told and self.outside is None and not self.monitors.any_enabled

    def _increments(self, cycles: int) -> dict[int, int]:
        """By how much each counter moves, as its event happened in the last ``cycles``."""
        seen = self._chosen.seen
        increments: dict[int, int] = {}
        for event, counters in self._chosen.by_event.items():
            total = self.totals.of(event)
            if total != seen[event]:
                for counter in counters:
                    increments[counter] = total - seen[event]
                seen[event] = total
        for counter, threshold in self._chosen.thresholds.items():
            events = increments.pop(counter, 0)
            if cycles <= 1:
                counted = threshold.counted(events) if cycles or events else 0
            else:
                counted = threshold.counted_of(events, cycles)
            if counted:
                increments[counter] = counted
        return increments

    def sample(self, taken: TakenExceptions) -> None:
        """Have ``taken`` told of exceptions from now on."""
        self.taken = taken
        self.keep(int(taken.event))

    def keep(self, event: int) -> None:
        """Keep the total of ``event`` from now on, whether a counter counts it or not."""
        self.totals.also |= {event}
        self.changed()

    def observe(self, outside: OutsideCounts) -> None:
        """Have ``outside`` count, too, from now on."""
        self.outside = outside
        self.changed()
        self._el = self._cpu.el
        outside.begin()

    def changed(self) -> None:
        """The counters have changed, or what decides which of them count."""
        self._generation += 1
        self._stale = False
        self._choose_counters()

    # What the runners tell

    def hosts(self, pc: int) -> None:
        """The host is about to carry out the operation at ``pc``, and counts it as executed."""
        self.count_executed()
        self.totals.note_executed()
        self.totals.host_begins()

    def hosted(self, *, raised: bool) -> None:
        """The host has carried it out. ``raised`` says that it did not retire.

        Nothing is done if an exception entry has told that already.
        """
        if self.totals.hosted:
            self.totals.hosted = 0
            if raised:
                not_retired(self._cpu.state)
            else:
                self.totals.retired_at_last_note()
                self._note_if_stepwise()

    def stepped(self, instruction: Instruction, pc: int) -> None:
        """An operation at ``pc`` has had a run of its own, and has retired."""
        self.totals.retired(instruction, pc)
        self._note_if_stepwise()

    def _note_if_stepwise(self) -> None:
        """While each operation has a run of its own, take note of this one now."""
        if self.totals.stepwise:
            last = self.totals.note_executed()
            if last is not None:
                self.s.last = last

    def goes_straight(self, operations: int) -> None:
        """``operations`` operations are about to run from the PC on, as one run of the engine."""
        self.totals.goes_straight(operations)

    def ran_straight(self) -> None:
        """All operations of :meth:`goes_straight` have run."""
        self.totals.ran_straight()

    def after_run(self, block: int, operations: int, done: int) -> None:
        """The engine has stopped; ``done`` of the ``operations`` of the block that began last ran.

        The block is at ``block``.
        """
        self.totals.after_run(block, operations, done)

    def distance(self, code: tuple[Instruction, ...]) -> int:
        """How many operations of ``code`` come before the first that needs a run of its own."""
        return self.totals.distance(code)

    def needs_stop(self, *, write: bool) -> bool:
        """Whether the engine has to stop for an access to the counters to be exact."""
        return self.late is not None or self.totals.needs_stop(write=write)

    def delay(self, most: int, window: Window) -> LateMonitors:
        """From now on, writes to the registers take effect up to ``most`` operations later."""
        self.late = late = LateMonitors(self._cpu, self.registers_at, most, window)
        self.registers = late.registers(self.registers)
        return late

    # Resets, exceptions and returns: host.ports.Monitored

    @property
    def quiet(self) -> tuple[int, ...] | None:
        """What decides whether anything counts or asks for an interrupt, beside the controls.

        None unless, with the controls of now, nothing counts, no overflow is told, and none is to
        be a PMU exception.
        """
        monitors, state = self.monitors, self.monitors.s
        if not self._is_idle or monitors.asks_for_exception:
            return None
        enabled, stopped = state.control & PMCR_EL0.E.mask, monitors.deciding[1]
        return enabled, state.enabled, state.overflowed, state.noticed, stopped

    @property
    def implemented(self) -> int:
        """The number of event counters."""
        return self.monitors.implemented

    @property
    def pending(self) -> bool:
        """PSTATE.PPEND."""
        return self.monitors.s.pending

    @property
    def excepts(self) -> bool:
        """Whether overflows are exceptions and no interrupts, or PSTATE.PPEND is set."""
        key = int(self._cpu.state.writes), self._generation
        if key != self._routed_by:
            self._routed_by = key
            self._excepts = overflow_route(self._cpu).target is not None
        return self._excepts or self.pending

    def accessed_memory(self, *, write: bool) -> None:
        """The MRS or MSR that the host carries out has accessed memory, by FEAT_NV2."""
        self.totals.accessed_memory(write=write)

    def retired(self) -> None:
        """The operation that the host carries out has retired: count it now."""
        self.hosted(raised=False)
        self.count_executed()

    def leaving(self, record: ExceptionRecord) -> None:
        """An exception is about to be entered: count what has been executed up to it."""
        raised = bool(self.totals.hosted)
        if self.taken is not None:
            self.taken.leaving(self.totals.at if raised else None)
        self.hosted(raised=True)
        self.count_executed(raised=raised or is_call(record))

    def entered(self, record: ExceptionRecord, target_el: int) -> None:
        """Count the exception that was entered. PSTATE.PPEND was saved, and is 0 from now on."""
        self.monitors.entered()
        local = taken_locally(self._cpu, target_el)
        events = exception_events(record, target_el, local=local)
        if self._cpu.notes_exceptions:
            # else compiled code enters some of them, and their totals are not needed
            self.totals.happen(events)
        if self.taken is not None:
            self.taken.entered(record, events)
        if self.outside is not None:
            self.outside.count(self._el)
        if self._chosen.by_event:
            self.monitors.landed(self._increments(0), self._chosen.live, self.s.last, raised=True)
        self.monitors.synchronized()

    def returned(self, before: PE, *, ppend: bool) -> None:
        """An exception return restored ``ppend``; ``before`` is the PE as it was until then."""
        self.hosted(raised=False)
        self.count_executed(before=before)
        self.monitors.synchronized()
        masked = not exception_unmasked(before)
        unmasked = exception_unmasked(self._cpu)
        if returned_ppend(saved=ppend, masked_before=masked, unmasked_after=unmasked):
            self.monitors.s.pending = True
            # no operation before this one decides it any more
            self._executed = self.totals.executed
            self._choose_counters()

    # What counts from here on

    def _choose_counters(self) -> None:
        """Work out what counts from here on, and what follows from overflows."""
        self._quiet_at = -1
        monitors, cpu = self.monitors, self._cpu
        key = (cpu.el, int(cpu.state.writes), self._generation, monitors.deciding)
        if key != self._key:
            self._key = key
            self._choose()
        self._due, self._due_beside = self._next_overflow()
        interrupt = monitors.interrupt
        if interrupt != self._asserted:
            self._asserted = interrupt
            self._interrupt.set_level(interrupt)
        self._exception.set_level(monitors.asks_for_exception)

    def _choose(self) -> None:
        """Work out which counters count at the current Exception level, and at the others."""
        monitors, cpu, totals = self.monitors, self._cpu, self.totals
        self._executed = totals.executed
        counted_at = _NOWHERE
        if monitors.any_enabled:
            counted_at = tuple(monitors.live(PEAt(cpu, el)) for el in _LEVELS)
        cpu.counted_at = counted_at
        anywhere = 0
        for live in counted_at:
            anywhere |= live
        wanted = {monitors.event_of(counter) for counter in _members(anywhere)}
        cpu.follows_context = self.outside is not None and self.outside.contexts is not None
        if self.outside is not None:
            wanted |= self.outside.events
            if self.outside.by_level:
                cpu.counted_at = tuple(live << 2 | el for el, live in enumerate(counted_at))
        compared = {n: t for n in _members(anywhere) if (t := monitors.threshold(n)) is not None}
        shadowed = monitors.shadow is not None and overflow_route(cpu).target is not None
        stepped = shadowed or any(totals.several(monitors.event_of(n)) for n in compared)
        synchronous = anywhere & monitors.synchronous & monitors.s.noticed
        totals.want(wanted, exceptions=bool(synchronous), stepwise=stepped)
        live = counted_at[cpu.el]
        thresholds = {n: t for n, t in compared.items() if live >> n & 1}
        by_event: dict[int, list[int]] = {}
        for counter in _members(live):
            event = monitors.event_of(counter)
            if event not in _BY_HAND or counter in thresholds:
                by_event.setdefault(event, []).append(counter)
        found = {event: tuple(counters) for event, counters in by_event.items()}
        seen = {event: totals.of(event) for event in by_event}
        self._chosen = _Chosen(live, found, thresholds, shadowed, seen)

    def _next_overflow(self) -> tuple[int, int]:
        """:attr:`_due` and :attr:`_due_beside`; and work out what is awaited."""
        monitors, totals = self.monitors, self.totals
        now = totals.executed
        asked = (
            self._chosen.by_event
            or self._chosen.shadowed
            or self.outside is not None
            or totals.also
        )
        self._goals = {}
        if totals.stepwise and asked:
            return now + 1, now + 1
        synchronous = monitors.synchronous & monitors.s.noticed & self._chosen.live
        distances: list[int] = []
        awaited: list[int] = []
        for event, counters in self._chosen.by_event.items():
            for counter in counters:
                most = totals.most(event)
                if counter in self._chosen.thresholds:
                    most = max(most, 1)
                if most:
                    count = monitors.until_overflow(counter)
                    distance = -(-count // most)
                    if distance < AHEAD and event in MODELLED:
                        distance = max(distance, totals.ahead(event, count))
                    # stop one operation before a synchronous overflow, so that it is run by itself
                    alone = synchronous >> counter & 1
                    far = event in ONLY_CLOSE and count > CLOSE
                    if far and not alone:
                        distances.append(distance)
                    elif event in AWAITED and not alone:
                        awaited.append(distance)
                        what, goal = AWAITED[event], totals.of(event) + count
                        self._goals[what] = min(goal, self._goals.get(what, goal))
                    else:
                        distances.append(distance - alone)
        waits = synchronous & monitors.s.overflowed and exception_unmasked(self._cpu)
        if monitors.s.pending or waits:
            distances.append(1)  # what the next operation does decides PSTATE.PPEND
        return _nearest(now, [*distances, *awaited]), _nearest(now, distances)


def _nearest(now: int, distances: list[int]) -> int:
    """The number of executed operations at the least of some distances."""
    return now + max(1, min(distances)) if distances else NEVER_HAPPENS


def _members(counters: int) -> list[int]:
    """The numbers of the counters in a map."""
    return [n for n in range(counters.bit_length()) if counters >> n & 1]
