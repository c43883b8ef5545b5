"""Totals: how often each PMU event has happened on one PE.

A total only grows. Totals that follow from the number of executed operations cost nothing. Others
are kept only while a counter or a sampler wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.ports import Cracker
from spe_unicorn.decode import decode
from spe_unicorn.host.counting.modelled import AWAITED, goes_on, modelled, most_at_once, most_of
from spe_unicorn.host.counting.tallies import Tallies
from spe_unicorn.host.native.marks import is_whole
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber
from spe_unicorn.plain import Bits16, Count
from spe_unicorn.pmu.countable import MODELLED, RETIRED, STALLS, STEPPED
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.exceptions import EXCEPTION_EVENTS
from spe_unicorn.pmu.junction import EventJunction, Told, count_in
from spe_unicorn.pmu.shadow import synchronizes
from spe_unicorn.pmu.words import (
    JUMP_EVENTS,
    LOAD_EVENTS,
    PART_EVENTS,
    STORE_EVENTS,
    STORED_EVENTS,
    WORD_EVENTS,
    may_fail,
    may_jump,
)
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.stateful import Stateful

_MASK: Final = (1 << 64) - 1
_MOST_PARTS: Final = 1 << 8
"""The most micro-operations that an instruction has."""
AHEAD: Final = 1 << 6
"""The most operations that :meth:`EventTotals.ahead` looks at."""
_PAGE: Final = 1 << 12
_ZERO: Final = 31
"""The number of XZR."""
_SAMPLING: Final = frozenset(SampleEvent)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a total comes from, and the most by which one operation moves it."""

    total: Callable[[], int]
    most: int = 1


@dataclass(slots=True)
class TotalsState:
    """What is saved: the totals that are kept one by one, by event."""

    happened: dict[Bits16, Count] = field(default_factory=dict)


class _Noted(NamedTuple):
    """What the last :meth:`EventTotals.note_executed` found."""

    pc: int = 0
    executed: int = 0
    """Operations executed by then."""
    unretired: int = 0
    """Those of them that ended in an exception of their own."""


class EventTotals(Stateful[TotalsState]):
    """The totals of one PE, exact while its engine stands, and where a hook has asked Python.

    CPU_CYCLES and CNT_CYCLES stand still while the PE waits in a WFI, as its clock does.
    """

    TRANSIT = (
        "hosted",
        "stepwise",
        "_noted",
        "_next",
        "synchronized",
        "_unaligned",
        "_unaligned_wanted",
        "_told_before",
    )
    DERIVED = ("_samples_wanted",)
    WIRING = ("also", "aside", "sampling")

    def __init__(
        self, cpu: UnicornCPU, samples: EventJunction, cracker: Cracker | None = None
    ) -> None:
        self.s = TotalsState()
        self.tallies = Tallies(cpu.state, cpu.hooks.blocks, cracker)
        self.hosted = 0
        """1 while the host carries out an operation that is counted as executed already, else 0."""
        self._told_before: Told | None = None
        """While the host carries out an operation: SPE's events before it, if they may move."""
        self.stepwise = False
        """Whether each operation has to be looked at by itself."""
        self.synchronized = False
        """Whether the last operation that was looked at by itself synchronises."""
        self.aside: Callable[[], int] | None = None
        """Operations of runs that another program made. They count only as cycles."""
        self.also: frozenset[int] = frozenset()
        """Events whose totals are always kept, as operations are sampled by them."""
        self.sampling: Callable[[], bool] = lambda: False
        """Whether operations are counted as members of SPE's population now."""
        self._samples = samples
        self._samples_wanted = False
        self._cracked = cracker is not None
        self._cpu = cpu
        self._state = cpu.state
        self._noted = _Noted()
        self._describer = OperationDescriber(cpu)
        self._unaligned_wanted = self._unaligned = False
        """Whether misaligned accesses are counted; whether the next operation makes one."""
        self._next: Instruction | None = None
        """The operation at that PC, while each is looked at."""
        sources: dict[int, Source] = {
            E.CPU_CYCLES: Source(self._cycles),
            E.CNT_CYCLES: Source(
                lambda: cpu.rate.ticks(self._cycles()), -(-cpu.rate.ticks_of // cpu.rate.cycles_of)
            ),
            **dict.fromkeys(RETIRED, Source(self._retired)),
        }
        for event in WORD_EVENTS | JUMP_EVENTS:
            sources[event] = self._of_words(event)
        for event in PART_EVENTS:
            cracked = Source(self._of_words(event).total, _MOST_PARTS)
            sources[event] = cracked if cracker is not None else Source(self._retired)
        for event in STALLS:
            sources[event] = Source(lambda: 0, 0)
        for event in EXCEPTION_EVENTS | STEPPED:
            sources[event] = self._kept(event)
        for sampling in SampleEvent:
            sources[sampling] = self._of_sampling(sampling)
        if cpu.model is not None:
            for number, known in modelled(cpu.model.model).items():
                sources[number] = Source(known, most_at_once(number))
        self.sources: Final[dict[int, Source]] = sources
        """By the number of the event."""

    def of(self, event: int) -> int:
        """The total of an event, 0 for one that is not counted here."""
        source = self.sources.get(event)
        return 0 if source is None else source.total()

    def most(self, event: int) -> int:
        """The most by which one operation moves a total; 0 for a total that cannot move."""
        source = self.sources.get(event)
        return 0 if source is None else source.most

    def ahead(self, event: int, count: int) -> int:
        """How many operations can run from the PC on before an event happens ``count`` times.

        It looks at the words up to the next one that may branch. It returns at least 1: the last of
        that many operations may be the one. The caller must ask again after an exception.
        """
        pc = self._cpu.pc
        words = self._cpu.virtual.code(pc, max(1, min(AHEAD, (_PAGE - pc % _PAGE) // 4)))
        made = operations = 0
        for instruction in map(decode, words or ()):
            operations += 1
            made += most_of(event, instruction)
            if made >= count or not goes_on(instruction):
                break
        return max(operations, 1)

    def several(self, event: int) -> bool:
        """Whether one operation may make an event several times, or only looking at it tells."""
        return self.most(event) > 1 or event in MODELLED or event in _SAMPLING

    def want(
        self, events: Iterable[int], *, exceptions: bool = False, stepwise: bool = False
    ) -> None:
        """Keep the totals of these events from now on, as far as they have to be kept.

        ``exceptions`` says that each entry of an exception has to be told, whatever the events.
        ``stepwise`` says that each operation has to be looked at by itself, whatever the events.
        """
        events = frozenset(events)
        tallies, cpu = self.tallies, self._cpu
        events |= self.also
        self._samples_wanted = bool(events & _SAMPLING)
        tallied = WORD_EVENTS | JUMP_EVENTS
        if self._cracked:
            tallied |= PART_EVENTS
        tallies.want(int(event) for event in events & tallied)
        self._unaligned_wanted = bool(events & STEPPED)
        self._unaligned = False
        self.stepwise = stepwise or tallies.stepwise or self._unaligned_wanted
        cpu.tally = tallies.number
        cpu.awaits = cpu.model is not None and not events.isdisjoint(AWAITED)
        cpu.judges_stores = tallies.native and not events.isdisjoint(STORED_EVENTS)
        counted = tallies.s.wanted or self.stepwise or events & EXCEPTION_EVENTS
        cpu.notes_exceptions = exceptions or bool(counted)
        self.note_executed()

    def needs_stop(self, *, write: bool) -> bool:
        """Whether the engine has to stop for an access to the counters to be exact.

        SPE's events are told at a stop. So a stop is needed where an event of SPE is wanted, and
        where a write may begin to want one.
        """
        return self._samples_wanted or (write and self.sampling())

    def happen(self, events: Iterable[int]) -> None:
        """Each of ``events`` has happened once."""
        happened = self.s.happened
        for event in events:
            happened[int(event)] = happened.get(int(event), 0) + 1

    def host_begins(self) -> None:
        """The host is about to carry out an operation: until it is done, no event of it counts."""
        moves = self._samples_wanted or self.sampling()
        self._told_before = self._samples.told() if moves else None
        self.hosted = 1

    @property
    def executed(self) -> int:
        """Operations executed, less one that the host is about to carry out."""
        return self._cpu.executed - self.hosted

    @property
    def at(self) -> int:
        """Where the PE stood at the last :meth:`note_executed`."""
        return self._noted.pc

    # What was executed

    def note_executed(self) -> int | None:
        """Take note of what was executed. The PE stands, and all has been counted.

        Return the address of the operation since the last call, None unless it was just one.
        """
        executed = self.executed
        one = executed == self._noted.executed + 1
        last = self._noted.pc if one else None
        pc = self._cpu.pc
        if self.stepwise:
            if one and self._state.unretired == self._noted.unretired and self._next is not None:
                self._stepped(self._next, pc)
            words = self._cpu.virtual.code(pc, 1)
            self._next = decode(words[0]) if words else None
            if self._unaligned_wanted and self._next is not None:
                self._unaligned = self._describer.unaligned(self._next, pc)
        self._noted = _Noted(pc, executed, self._state.unretired)
        return last

    def _stepped(self, instruction: Instruction, pc: int) -> None:
        """Count an operation that had a run of its own and has retired. The PE stands at ``pc``."""
        self.synchronized = synchronizes(instruction)
        if self._unaligned:
            self.happen(STEPPED)
        if self.tallies.stepwise:
            self._add(instruction, self._noted.pc)

    def retired(self, instruction: Instruction, pc: int) -> None:
        """Count an operation at ``pc`` that has retired and that the hooks have not added up."""
        if self.tallies.native:
            self._add(instruction, pc)

    def _add(self, instruction: Instruction, pc: int) -> None:
        self.tallies.add((instruction.word,))
        if may_jump(instruction) and self._cpu.pc != pc + 4 & _MASK:
            self.tallies.jumped()
        if may_fail(instruction) and self._failed(instruction):
            self.tallies.failed()

    def _failed(self, instruction: Instruction) -> bool:
        """Whether the store-exclusive that was executed last did not store.

        One that drops its status counts as one that stores.
        """
        status = instruction.word >> 16 & 31
        return status != _ZERO and bool(self._cpu.engine.x(status) & 1)

    def accessed_memory(self, *, write: bool) -> None:
        """FEAT_NV2 has made an access to memory of the MRS or MSR that is being carried out."""
        self.tallies.count(STORE_EVENTS if write else LOAD_EVENTS)

    def distance(self, code: tuple[Instruction, ...]) -> int:
        """How many operations of ``code`` come before the first that needs a run of its own."""
        alone = [is_whole] if self._cpu.awaits else []
        if self._cpu.judges_stores:
            alone.append(may_fail)
        return next((k for k, i in enumerate(code) if any(one(i) for one in alone)), len(code))

    def retired_at_last_note(self) -> None:
        """Count the operation at the PC of the last note: the host has executed it."""
        words = self._cpu.virtual.code(self._noted.pc, 1) if self.tallies.native else None
        if words:
            self._add(decode(words[0]), self._noted.pc)

    def goes_straight(self, operations: int) -> None:
        """``operations`` operations are about to run from the PC on; the hooks do not add them."""
        if self.tallies.native:
            self.tallies.straight = self._cpu.virtual.code(self._cpu.pc, operations) or ()
            self.tallies.straight_from = self._cpu.executed
            self.tallies.straight_at = self._cpu.pc

    def after_run(self, block: int, operations: int, done: int) -> None:
        """The engine has stopped; ``done`` of the ``operations`` of the block that began last ran.

        The block is at ``block``.
        """
        tallies, state = self.tallies, self._state
        if state.falls_to:
            tallies.after_block(executed=done == operations, pc=self._cpu.pc)
        if tallies.straight:
            self.ran_straight()
        elif state.tally and done < operations:
            words = self._cpu.virtual.code(block + 4 * done & _MASK, operations - done)
            tallies.add(words or (), -1)

    def ran_straight(self) -> None:
        """Add the operations of :meth:`goes_straight`, as far as they have run."""
        tallies = self.tallies
        ran = tallies.straight[: self._cpu.executed - tallies.straight_from]
        tallies.add(ran)
        if ran and may_jump(decode(ran[-1])):
            last = tallies.straight_at + 4 * len(ran) & _MASK
            if self._cpu.pc != last:
                tallies.jumped()
        tallies.straight = ()

    # Sources

    def _cycles(self) -> int:
        cycles = self.executed
        return cycles if self.aside is None else cycles + int(self._state.skipped)

    def _retired(self) -> int:
        aside = 0 if self.aside is None else self.aside()
        return self.executed - int(self._state.unretired) - aside

    def _kept(self, event: int) -> Source:
        return Source(lambda: self.s.happened.get(event, 0))

    def _of_words(self, event: int) -> Source:
        def total() -> int:
            cpu, tallies = self._cpu, self.tallies
            ahead: tuple[int, ...] = ()
            behind: tuple[int, ...] = ()
            if cpu.inside and self._state.tally:
                ahead = cpu.virtual.code(cpu.pc, cpu.inside) or ()
            elif cpu.inside and tallies.straight:
                behind = tuple(tallies.straight[: cpu.executed - tallies.straight_from])
            return tallies.of(event, ahead, behind)

        return Source(total)

    def _of_sampling(self, event: SampleEvent) -> Source:
        """SPE tells its events of an operation before the host carries the operation out."""

        def total() -> int:
            if self.hosted and self._told_before is not None:
                return count_in(self._told_before, event)
            return self._samples.count_of(event)

        return Source(total)
