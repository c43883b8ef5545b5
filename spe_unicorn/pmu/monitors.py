"""The Performance Monitors of one PE: counters that count events as the registers say.

Pure: whoever executes operations reports what they did, in the order in which it happened: the
events of an operation by :meth:`PerformanceMonitors.event` and its kin, then its end by
:meth:`PerformanceMonitors.completed`. Only there do counters move, so that all events of an
operation find the overflows and freezes of the operations before it, and its own land on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL3, PE
from spe_unicorn.arch.registers.pmu import (
    CYCLE_COUNTER,
    INSTRUCTION_COUNTER,
    MOST_COUNTERS,
    PMCCFILTR_EL0,
    PMCNTENSET_EL0,
    PMCR_EL0,
    PMEVTYPERS,
    PMICFILTR_EL0,
    PMINTENSET_EL1,
    PMOVSSET_EL0,
)
from spe_unicorn.arch.registers.system import MDCR_EL2
from spe_unicorn.plain import Bits64
from spe_unicorn.pmu.configured import Configured
from spe_unicorn.pmu.counting import (
    Standstill,
    asks_to_freeze,
    cycles_disabled,
    filtered,
    frozen_by_overflow,
    frozen_by_spe,
    of_el2,
    prohibited,
)
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.pmu.profiling_exception import exception_unmasked, overflow_route
from spe_unicorn.pmu.shadow import Shadow
from spe_unicorn.pmu.threshold import Threshold
from spe_unicorn.signals import Signal
from spe_unicorn.stateful import Stateful, expect

_COUNTERS: Final = MOST_COUNTERS + 2
_E: Final = PMCR_EL0.E.mask
_HPME: Final = MDCR_EL2.HPME.mask
_WIDE: Final = 64
_NARROW: Final = 32
_MASK: Final = (1 << _WIDE) - 1


@dataclass(slots=True)
class MonitorState:
    """All that the Performance Monitors remember. Lists and maps go by the counters' numbers.

    ``types`` are the values of PMEVTYPER<n>_EL0, PMCCFILTR_EL0 and PMICFILTR_EL0. ``control`` is
    PMCR_EL0 without what it reads as, ``address`` PMIAR_EL1, ``pending`` PSTATE.PPEND.
    """

    values: list[Bits64] = field(default_factory=lambda: [0] * _COUNTERS)
    types: list[Bits64] = field(default_factory=lambda: [0] * _COUNTERS)
    control: Bits64 = 0
    enabled: Bits64 = 0
    overflowed: Bits64 = 0
    noticed: Bits64 = 0
    """PMINTENSET_EL1."""
    address: Bits64 = 0
    pending: bool = False


class PerformanceMonitors(Stateful[MonitorState]):
    """Counts for ``pe``, whose registers hold the controls of EL2 and EL3.

    ``implemented`` is the number of event counters. ``spe_stopped`` says whether profiling by SPE
    has stopped, for the freeze by it. With a ``shadow`` each operation has to be told of by itself,
    and what synchronises, too. Raises ValueError for more event counters than there are
    registers for.
    """

    DERIVED = ("_configured",)
    TRANSIT = ("_increments",)

    def __init__(
        self,
        pe: PE,
        implemented: int,
        spe_stopped: Callable[[], bool] = lambda: False,
        shadow: Shadow | None = None,
    ) -> None:
        if not 0 <= implemented <= MOST_COUNTERS:
            raise ValueError(f"a PE has at most {MOST_COUNTERS} event counters, got {implemented}")
        self.s = MonitorState()
        self.implemented = implemented
        self.overflew: Signal[[int, int]] = Signal()
        """Told of each counter that overflows, by its number, and of the event that it counts."""
        self._pe = pe
        self._spe_stopped = spe_stopped
        self.shadow = shadow
        self._increments: dict[int, int] = {}
        """What counters have counted of the operation that is under way."""
        self._configured: Configured
        """What their registers say; written by :meth:`_derive` and :meth:`configure`."""
        self._derive()

    def check(self, state: MonitorState) -> None:
        """Raise StateError for another number of counters."""
        expect(len(state.values) == len(state.types) == _COUNTERS, "the number of counters")
        maps = state.enabled | state.overflowed | state.noticed
        expect(not maps >> _COUNTERS, "a counter")

    def _derive(self) -> None:
        self._configured = Configured.of(self.s.types, self.implemented, self._pe.features)

    def configure(self, counter: int, value: int) -> None:
        """Write PMEVTYPER<n>_EL0, PMCCFILTR_EL0 or PMICFILTR_EL0; the value is legal."""
        self.s.types[counter] = value
        self._derive()

    def clear(self) -> None:
        """Every counter is off, and nothing is pending."""
        self.s = MonitorState()
        self._derive()

    def reset(self, unknown: Callable[[], int], el: int = EL3) -> None:
        """Warm reset, and what firmware leaves for software that begins at ``el``.

        ``unknown()`` gives 64 bits for UNKNOWN fields. Below EL3 PMCR_EL0 is as firmware hands it
        over to software that knows no newer Performance Monitors: no event freezes counters (FZO,
        FZS), the cycle counter counts wherever it is enabled (DP), and event counters overflow at
        32 bits (LP).
        """
        state = self.s = MonitorState()
        features = self._pe.features
        counters = (1 << self.implemented) - 1 | 1 << CYCLE_COUNTER
        if self._has(INSTRUCTION_COUNTER):
            counters |= 1 << INSTRUCTION_COUNTER
        for n in range(_COUNTERS):
            if counters >> n & 1:
                filter_ = {CYCLE_COUNTER: PMCCFILTR_EL0, INSTRUCTION_COUNTER: PMICFILTR_EL0}
                register = filter_.get(n, PMEVTYPERS[0])
                state.types[n] = register.reset_value(features, unknown)
                wide = n >= CYCLE_COUNTER or Feature.FEAT_PMUv3p5 in features
                state.values[n] = unknown() & (_MASK if wide else (1 << _NARROW) - 1)
        actions = PMCR_EL0.C.mask | PMCR_EL0.P.mask
        writable = PMCR_EL0.writable_mask(features) & ~actions
        control = PMCR_EL0.reset_value(features, unknown) & writable
        state.control = control if el == EL3 else 0
        state.enabled, state.overflowed, state.noticed = (
            register.reset_value(features, unknown) & counters
            for register in (PMCNTENSET_EL0, PMOVSSET_EL0, PMINTENSET_EL1)
        )
        self._derive()

    # What was executed

    def event(self, number: int, count: int = 1) -> None:
        """Event ``number`` happened ``count`` times at the current Exception level."""
        for counter in range(self.implemented):
            if self._configured.events[counter] == number:
                self._count(counter, count)

    def cycles(self, count: int) -> None:
        """So many cycles went by."""
        self._count(CYCLE_COUNTER, count)
        self.event(PMUEvent.CPU_CYCLES, count)

    def retired(self, count: int = 1) -> None:
        """So many instructions have retired."""
        if self._has(INSTRUCTION_COUNTER):
            self._count(INSTRUCTION_COUNTER, count)
        self.event(PMUEvent.INST_RETIRED, count)

    def software_increment(self, counters: int) -> None:
        """A write to PMSWINC_EL0: SW_INCR, for those counters of ``counters`` that count it."""
        for counter in range(self.implemented):
            counts_it = self._configured.events[counter] == PMUEvent.SW_INCR
            if counters >> counter & 1 and counts_it:
                threshold = self.threshold(counter)
                # the cycle of the write itself counts as one without the event
                more = 1 if threshold is None else threshold.counted(1) - threshold.counted(0)
                self._count(counter, more)

    def completed(self, address: int, *, raised: bool = False, restored: bool = False) -> None:
        """The operation at ``address`` is over, and all that it did has been reported.

        ``raised``: it ended in an exception, so it makes nothing pending. ``restored``: it was an
        exception return that has brought PSTATE.PPEND back.
        """
        increments, self._increments = self._increments, {}
        self.landed(increments, self.live(), address, raised=raised, restored=restored)

    def landed(
        self,
        increments: Mapping[int, int],
        live: int,
        address: int,
        *,
        raised: bool = False,
        restored: bool = False,
        masked_by: PE | None = None,
    ) -> None:
        """Move counters all at once. The last operation that moves them is the one at ``address``.

        ``live`` is what :meth:`live` said while all of it happened. No counter may have overflowed
        before the last of these operations. What :meth:`software_increment` has counted lands with
        it. ``masked_by`` is the PE by which that one's exception
        is masked or not: for a return the PE as it was before. Other arguments are as of
        :meth:`completed`.
        """
        state = self.s
        if self._increments:
            pending, self._increments = self._increments, {}
            increments = {
                n: increments.get(n, 0) + pending.get(n, 0) for n in {*increments, *pending}
            }
        moved = sum(1 << counter for counter, count in increments.items() if count)
        counted = self.synchronous & moved
        chains = {n for n in range(1, self.implemented, 2) if live >> n & 1 and self._chains(n)}
        for counter in sorted(increments):
            self._add(counter, increments[counter], chains)
        if self.shadow is not None:
            counted = self.shadow.observing(counted)
            if not exception_unmasked(self._pe):
                self.shadow.masked()
        if raised:
            return
        unmasked = exception_unmasked(masked_by or self._pe)
        if counted & state.noticed & state.overflowed and unmasked:
            state.pending = True
            state.address = address
        elif not restored:
            state.pending = False

    def synchronized(self) -> None:
        """A context synchronisation event or an MSR that writes PSTATE.PM is complete."""
        if self.shadow is not None and exception_unmasked(self._pe):
            state = self.s
            self.shadow.synchronized(state.values, self._configured.events, state.overflowed)

    def entered(self) -> bool:
        """An exception is entered: PSTATE.PPEND for SPSR_ELx, and 0 from now on."""
        saved, self.s.pending = self.s.pending, False
        return saved

    # What that comes to

    @property
    def interrupt(self) -> bool:
        """The level of PMUIRQ."""
        return overflow_route(self._pe).interrupt and bool(self._noticed_overflows())

    @property
    def exception(self) -> int | None:
        """Where a PMU Profiling exception goes that is to be taken now; None for none.

        Whether it is synchronous is :attr:`MonitorState.pending`.
        """
        asynchronous = self._noticed_overflows() & ~self._configured.marked
        if not self.s.pending and not asynchronous:
            return None
        return overflow_route(self._pe).target if exception_unmasked(self._pe) else None

    @property
    def asks_for_exception(self) -> bool:
        """Whether an overflow is to be a PMU Profiling exception, masked or not."""
        if overflow_route(self._pe).target is None:
            return False
        asynchronous = self._noticed_overflows() & ~self._configured.marked
        return self.s.pending or bool(asynchronous)

    # What counts

    def live(self, pe: PE | None = None) -> int:
        """The map of the counters that count at the Exception level of ``pe``, by default now."""
        enabled = self.s.enabled
        registers = self._pe.registers
        hypervisors = MDCR_EL2 in registers and registers.read(MDCR_EL2).HPME
        if not hypervisors and not PMCR_EL0(self.s.control).E:
            return 0  # after a reset `enabled` is UNKNOWN, and most software never asks for it
        return sum(1 << n for n in range(_COUNTERS) if enabled >> n & 1 and self.counts(n, pe))

    def event_of(self, counter: int) -> int:
        """The number of the event that a counter counts."""
        return self._configured.events[counter]

    def threshold(self, counter: int) -> Threshold | None:
        """What a counter compares the events of each cycle with; None for nothing."""
        if Feature.FEAT_PMUv3_TH not in self._pe.features or counter >= CYCLE_COUNTER:
            return None
        chains = self._configured.events[counter] == PMUEvent.CHAIN
        return None if chains else Threshold.of(self.s.types[counter])

    def until_overflow(self, counter: int) -> int:
        """By how much a counter has to move for its overflow."""
        return (1 << (width := self._overflow_width(counter))) - (
            self.s.values[counter] & (1 << width) - 1
        )

    @property
    def any_enabled(self) -> bool:
        """Whether any counter may count at some Exception level."""
        state = self.s
        if not state.enabled:
            return False
        if state.control & _E:
            return True
        registers = self._pe.registers
        return MDCR_EL2 in registers and bool(registers.raw(MDCR_EL2) & _HPME)

    @property
    def deciding(self) -> tuple[int, bool]:
        """What can decide what counts, beside controls: overflows, and whether SPE freezes."""
        return self.s.overflowed, self._spe_stopped() and asks_to_freeze(self._pe)

    @property
    def synchronous(self) -> int:
        """The map of the counters in synchronous mode."""
        return self._configured.synchronous

    def counts(self, counter: int, pe: PE | None = None) -> bool:
        """CountPMUEvents(): whether a counter counts its events at the Exception level of ``pe``.

        By default that is the current one.
        """
        return self.standstill(counter, pe) is None

    def standstill(self, counter: int, pe: PE | None = None) -> Standstill | None:
        """Why a counter does not count at the Exception level of ``pe``; None where it does."""
        pe, state = pe or self._pe, self.s
        if pe.halted:
            return Standstill.HALTED
        if not self._has(counter):
            return Standstill.ABSENT
        if not state.enabled >> counter & 1:
            return Standstill.DISABLED
        if not self._globally_enabled(counter):
            return Standstill.STOPPED
        configured = self._configured
        if (configured.marked & ~configured.synchronous) >> counter & 1:
            return Standstill.NOT_SYNCHRONOUS
        el = pe.el
        if filtered(pe, el, state.types[counter]):
            return Standstill.FILTERED
        control = PMCR_EL0(state.control)
        el2s = of_el2(pe, counter, self.implemented)
        cycles = counter == CYCLE_COUNTER
        if cycles and cycles_disabled(pe, el):
            return Standstill.CYCLES_DISABLED
        if cycles and not control.DP:
            return None
        if prohibited(pe, el, el2s=el2s):
            return Standstill.PROHIBITED
        overflows = state.overflowed & ~configured.marked
        if frozen_by_overflow(pe, control, overflows, self.implemented, el2s=el2s):
            return Standstill.FROZEN_BY_OVERFLOW
        if cycles and Feature.FEAT_SPE_DPFZS not in pe.features:
            return None
        stopped = self._spe_stopped()
        frozen = frozen_by_spe(pe, control, el2s=el2s, stopped=stopped)
        return Standstill.FROZEN_BY_SPE if frozen else None

    def _has(self, counter: int) -> bool:
        if counter == INSTRUCTION_COUNTER:
            return Feature.FEAT_PMUv3_ICNTR in self._pe.features
        return counter < self.implemented or counter == CYCLE_COUNTER

    def _globally_enabled(self, counter: int) -> bool:
        if of_el2(self._pe, counter, self.implemented):
            return bool(self._pe.registers.read(MDCR_EL2).HPME)
        return bool(PMCR_EL0(self.s.control).E)

    def _noticed_overflows(self) -> int:
        """Counters that have overflowed, and whose overflow is to be noticed."""
        found = self.s.overflowed & self.s.noticed
        return sum(1 << n for n in range(_COUNTERS) if found >> n & 1 and self._globally_enabled(n))

    # Counting

    def _count(self, counter: int, count: int) -> None:
        if self.counts(counter):
            self._increments[counter] = self._increments.get(counter, 0) + count

    def _add(self, counter: int, count: int, chains: set[int]) -> None:
        """Move a counter; one of ``chains`` counts the overflows of the counter below it."""
        state = self.s
        width = self._overflow_width(counter)
        old = state.values[counter]
        carries = (old & (1 << width) - 1) + count >> width
        has_p5 = Feature.FEAT_PMUv3p5 in self._pe.features or counter >= CYCLE_COUNTER
        state.values[counter] = old + count & (_MASK if has_p5 else (1 << _NARROW) - 1)
        if not carries:
            return
        if self.shadow is not None and not state.overflowed >> counter & 1:
            self.shadow.overflowed(counter, self.event_of(counter))
        state.overflowed |= 1 << counter
        self.overflew(counter, self.event_of(counter))
        if width == _NARROW and counter + 1 in chains:
            self._add(counter + 1, carries, chains)

    def _chains(self, counter: int) -> bool:
        """Whether an odd counter counts overflows of the one below it, which is of its range."""
        pe, implemented = self._pe, self.implemented
        if of_el2(pe, counter, implemented) != of_el2(pe, counter - 1, implemented):
            return False
        return self._configured.events[counter] == PMUEvent.CHAIN

    def _overflow_width(self, counter: int) -> int:
        pe = self._pe
        if counter >= CYCLE_COUNTER or overflow_route(pe).target is not None:
            return _WIDE
        if Feature.FEAT_PMUv3p5 not in pe.features:
            return _NARROW
        if of_el2(pe, counter, self.implemented):
            long = pe.registers.read(MDCR_EL2).HLP
        else:
            long = PMCR_EL0(self.s.control).LP
        return _WIDE if long else _NARROW
