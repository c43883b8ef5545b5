"""What all sampling has in common, whoever asked for it: count, select, filter, record.

A :class:`Sampler` counts the population, hands out how far the next selection is, and turns the
selected operation into a record. Who controls it and where records go is its subclasses' part:
``spe.unit`` is the architecture's unit, ``spe.external`` samples from outside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.features import Features
from spe_unicorn.arch.operation import Calls, Operation
from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.ports import CoreModel, Cracker, EventSink
from spe_unicorn.plain import Bits64, Count
from spe_unicorn.signals import Signal
from spe_unicorn.spe.batch import (
    KIND,
    MISSPECULATED,
    PC,
    SELECTED_AT,
    WAY,
    Batch,
    Kind,
    Looked,
    Written,
)
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.spe.filter import Filter
from spe_unicorn.spe.interval import BiasedInterval, Interval
from spe_unicorn.spe.judge import Judge
from spe_unicorn.spe.sample import Recorder
from spe_unicorn.spe.tally import Tally
from spe_unicorn.stateful import Stateful

NOWHERE = (False,) * 4
"""Profiling is disabled at every Exception level."""
_POP = int(SampleEvent.POP)
_MASK = (1 << 64) - 1


@dataclass
class Statistics:
    """What sampling came to so far. ``bytes`` counts those of whole records."""

    population: int = 0
    selected: int = 0
    collisions: int = 0
    filtered: int = 0
    discarded: int = 0
    """Passed the filters in discard mode."""
    written: int = 0
    bytes: int = 0
    lost: int = 0
    """Passed the filters, but an event or a stop kept the record from being written whole."""
    management_events: dict[str, int] = field(default_factory=dict)
    """By :attr:`~spe_unicorn.spe.management.ManagementEvent.kind`."""

    def __add__(self, other: Statistics) -> Statistics:
        """What both came to."""
        result = Statistics()
        for each in (self, other):
            for name, value in vars(each).items():
                if isinstance(value, int):
                    setattr(result, name, getattr(result, name) + value)
            for kind, number in each.management_events.items():
                events = result.management_events
                events[kind] = events.get(kind, 0) + number
        return result


@dataclass
class SamplerState:
    """What is saved of a sampler, beside its interval."""

    statistics: Statistics = field(default_factory=Statistics)
    busy: list[Count] = field(default_factory=list)
    """Cycles at which the sampled operations in flight complete."""
    unwritten: dict[str, Bits64] = field(default_factory=dict)
    """What registers held at reset that nobody has written since, where that matters."""


class Goal(NamedTuple):
    """An event of the Performance Monitors, and how often it will have happened."""

    event: int
    total: int


class Moving(NamedTuple):
    """Registers that move with each sample, and what it takes to say where they will be."""

    pointer: int
    """PMBPTR_EL1, which each record that is kept moves by its size."""
    status: int
    """PMBSR_EL1, which stays as it is while no sample collides with another."""
    left: int
    """PMSICR_EL1, which each member counts down; 0 if it does more than that."""
    busy_until: int
    """The cycle up to which a sample that is selected collides."""
    tables: tuple[int, int, int]
    """``Batch.tables``."""


@dataclass(frozen=True)
class SampledCore:
    """The core whose operations are sampled, and what its samples are counted by."""

    model: CoreModel
    """What its operations take."""
    cracker: Cracker | None = None
    """What members of the population an instruction is. Without it, it is one."""
    wrong_path: int = 0
    """How many operations after a mispredicted branch are members, too. It needs a ``cracker``."""
    events: EventSink | None = None
    """Where PMU events are counted, None without a PMU."""
    features: Features | None = None
    """The features of the records, the PE's own unless given."""


class Sampler(Stateful[SamplerState], ABC):
    """Samples one PE.

    A host drives it, operation by operation or in leaps::

        sampler.refresh()           # after anything that may switch profiling on or off
        if sampler.enabled:
            n = sampler.until_hit() # run n members of the population, or fewer
            if sampler.advance(n):  # account them; True: the last one is sampled
                sampler.complete(operation)

    The members are operations, or where the ``core`` has a cracker their micro-operations. All
    those of one operation may be accounted before the first sampled one is completed; the samples
    are then completed in their order.
    """

    DERIVED: ClassVar[tuple[str, ...]] = (
        "enabled",
        "enabled_at",
        "armed",
        "_filter",
        "_recorders",
    )
    TRANSIT: ClassVar[tuple[str, ...]] = ("_sampling", "waits")

    enabled: bool
    """Whether operations at the current Exception level belong to the population."""
    enabled_at: tuple[bool, ...]
    """The same for each Exception level."""
    armed: bool
    """Whether a change of the Exception level alone can enable or disable profiling."""

    retired_only: bool = False
    """Whether an operation that does not retire is no member: see :meth:`take_back`."""

    def __init__(self, pe: PE, interval: Interval, core: SampledCore) -> None:
        features = pe.features if core.features is None else core.features
        self.enabled = False
        self.enabled_at = NOWHERE
        self.armed = False
        self.waits = False
        """Whether the engine stops at the chosen operation, by the event that it makes."""
        self.s = SamplerState()
        self.tally = Tally()
        """Which operations were sampled."""
        self.recorded: Signal[[bytes, Operation]] = Signal()
        """Told of each record that was written whole, padding included, and of its operation."""
        self.streamed: Signal[[bytes]] = Signal()
        """Told of one or more records that were written whole, padding included; far cheaper."""
        self.made: Signal[[bytes, Sequence[int], Sequence[int] | None]] = Signal()
        """As ``streamed``, with the member of the population whose each record is, by number, and
        the operations executed with it; None if it is the last one that the PE has counted."""
        self.led: Signal[[bytes, Sequence[Calls]]] = Signal()
        """As ``streamed``, with the calls that led to each record, or none where they are not kept.
        """
        self.collided: Signal[[]] = Signal()
        """Told of each operation that was chosen while another sample was on its way."""
        self.until_hit = interval.until_hit
        self.following = interval.following
        self.cracker = core.cracker
        self.wrong_path = core.wrong_path
        self._pe = pe
        self._interval = interval
        self._bias = interval if isinstance(interval, BiasedInterval) else None
        self._events = core.events
        self._judge = Judge(core.model, features, pe.impdef)
        self._filter = self._judge.filter
        self._batch = Batch(self._judge.outcome, self._judge.format.max_count)
        self._recorders: dict[int, Recorder] = {}
        """By Exception level; replaced, not cleared, when registers change what is collected."""
        self._sampling: deque[tuple[dict[int, Recorder], Filter]] = deque()
        """For each sample that is not complete: recorders and filter at its selection, in order."""

    @property
    def statistics(self) -> Statistics:
        """What sampling came to so far."""
        return self.s.statistics

    @property
    def counts_tests(self) -> bool:
        """Whether there are PMU events for the tests of the filters."""
        return self._judge.counts_tests

    @property
    def follows_branches(self) -> bool:
        """Whether it has to be known where the branch before an operation went."""
        return self._judge.format.previous_target or self._bias is not None

    @abstractmethod
    def refresh(self) -> None:
        """Look again whether profiling is enabled. Cheap while nothing has changed."""

    @abstractmethod
    def reload(self) -> None:
        """Registers changed behind the register file's back, as by a reset: look at them anew."""

    def _derive(self) -> None:
        self.reload()

    def reset(self) -> None:
        """The PE was reset: as :meth:`reload`, where no register holds what software wrote."""
        self.reload()

    def recollect(self) -> None:
        """As :meth:`reload`, for registers that change nothing but what stands in records."""
        self.reload()

    @abstractmethod
    def forget_translations(self) -> None:
        """Addresses may translate differently now: TLB maintenance, or a change of tables."""

    @abstractmethod
    def profiles(self, el: int) -> bool:
        """Whether operations at an Exception level would belong to the population now."""

    @abstractmethod
    def quiet_records(self) -> int:
        """How many records can surely be made without a management event, whatever they hold."""

    @abstractmethod
    def _recorder_at(self, el: int) -> Recorder:
        """What makes the records of operations at an Exception level."""

    @abstractmethod
    def _collides(self) -> bool:
        """Whether the operation selected now collides with sampled ones in flight."""

    @abstractmethod
    def _occupy(self, cycles: int) -> None:
        """The sampled operation takes ``cycles`` from its selection to its completion."""

    @abstractmethod
    def _at_once(self, samples: NDArray[np.int64], looked: Looked) -> dict[int, Recorder] | None:
        """The recorders of the samples of a batch, by Exception level; ``looked`` tells of them.

        None if the samples have to be completed one by one.
        """

    @abstractmethod
    def _keep_all(
        self,
        samples: NDArray[np.int64],
        looked: Looked,
        written: Written,
        calls: Sequence[Calls],
    ) -> None:
        """Keep the records that were ``written`` of the ``samples`` of a batch."""

    @abstractmethod
    def _keep(self, record: bytes, operation: Operation) -> None:
        """Keep a record that passed the filters."""

    def advance(self, members: int) -> bool:
        """Let ``members`` of the population go by, at most :meth:`until_hit` of them.

        True if the last one is sampled: give it to :meth:`complete` when it is done. Raises
        ValueError if a member before the last would be selected.
        """
        hit = self._interval.advance(members)
        self.s.statistics.population += members
        if self._events is not None:
            self._events.event(_POP, members)
        return hit and self._select()

    def awaited(self) -> Goal | None:
        """By which event it chooses, where the operation that makes it may be the next one."""
        return None

    @property
    def owes(self) -> bool:
        """Whether the chosen event has happened, and its operation is not yet sampled."""
        return False

    def choose_last(self) -> None:
        """The last member that has gone by is sampled: it made the event that is owed."""
        raise NotImplementedError

    def pass_by(self, members: int) -> bool:
        """Let ``members`` go by that the engine has executed; as :meth:`advance`.

        With :attr:`waits` none of them is chosen.
        """
        return self.advance(members)

    def take_back(self, members: int, selected: int) -> None:
        """Take back the last ``members``, ``selected`` of them sampled: they did not retire."""
        raise NotImplementedError

    def told(self) -> None:
        """All executed operations have been reported, and the engine stands."""

    def _select(self) -> bool:
        """The last member is selected. False if it collides."""
        if self._bias is not None and self._bias.s.moving:
            return self._select_moved(self._bias)
        self.statistics.selected += 1
        if self._collides():
            self._collide()
            return False
        # What the registers say now holds for this sample, whatever its operation changes.
        self._sampling.append((self._recorders, self._filter))
        return True

    def _select_moved(self, bias: BiasedInterval) -> bool:
        """A selection before this one is moving. One of the interval itself collides with it."""
        if bias.again:
            self.statistics.selected += 1
            self._collide()
        if self._sampling:  # another member of the same operation
            return False
        self._sampling.append((self._recorders, self._filter))
        return True

    def _collide(self) -> None:
        """The operation selected now collides."""
        self.statistics.collisions += 1
        self.collided()
        if self._events is not None:
            self._events.event(SampleEvent.COLLISION)

    def complete(self, operation: Operation, did: int | None = None) -> None:
        """The sampled operation is done, the first one if there are several: make its record.

        ``did`` is what the core model noted of it, as ``CoreModel.timing`` takes it. Raises
        RuntimeError without a sampled operation.
        """
        if not self._sampling:
            raise RuntimeError(f"no operation is being sampled: PC {operation.pc:#x}")
        recorders, filter_ = self._sampling.popleft()
        if self._bias is not None and self._bias.moves(operation):
            return
        if not operation.misspeculated:
            self.tally.one(operation.pc, operation.instruction.word)
        timing = self._judge.timing(operation, did)
        self._occupy(timing.total)
        type_, events, kept, pmu = self._judge.judged(operation, timing, filter_)
        if self._events is not None:
            self._events.events(pmu)
        if not kept:
            self.statistics.filtered += 1
            return
        recorder = self._recorder(recorders, operation.el)
        self._keep(recorder.record(operation, type_, timing, events), operation)

    def complete_all(
        self,
        samples: NDArray[np.int64],
        kinds: Sequence[Kind],
        members: int,
        calls: Sequence[Calls] = (),
    ) -> bool:
        """Let ``members`` go by, the last of them sampled, and complete all the samples among them.

        ``samples`` is an array of :data:`~spe_unicorn.spe.batch.COLUMNS`, in the order of their
        selection, ``kinds`` are those by number, ``calls`` led to each, if those are kept. False,
        and nothing is done, if they have to be completed one by one. Raises RuntimeError if others
        than these would be selected.
        """
        if self._sampling or self.recorded:
            return False
        self._judge_by_filter()
        batch = self._batch
        looked = batch.look_up(samples, kinds)
        recorders = self._at_once(samples, looked)
        if recorders is None:
            return False
        numbers = self._numbers(len(samples)) if self.made else None
        passed = self._interval.pass_hits(len(samples))
        if passed != members:
            raise RuntimeError(
                f"{len(samples)} samples end with member {members}; the interval selects {passed}"
            )
        written = batch.write(samples, recorders)
        misspeculated = samples[:, WAY] == MISSPECULATED
        executed = samples[~misspeculated] if misspeculated.any() else samples
        counted = [executed[part] for part in self.tally.counted(len(executed))]
        self.tally.several(len(executed), self._places(counted, kinds))
        statistics = self.statistics
        statistics.population += members
        statistics.selected += len(samples)
        statistics.filtered += len(samples) - written.records
        if self._events is not None:
            self._events.event(_POP, members)
            for events, count in written.pmu.items():
                self._events.events(events, count)
        if calls:
            kept = self._batch.kept(samples)
            calls = [each for each, is_kept in zip(calls, kept, strict=True) if is_kept]
        before = statistics.written
        self._keep_all(samples, looked, written, calls)
        if numbers is not None and statistics.written != before:
            rows = np.array(self._batch.kept(samples))
            after = samples[rows, SELECTED_AT].tolist()
            self.made(written.data, numbers[rows].tolist(), after)
        return True

    def _numbers(self, samples: int) -> NDArray[np.int64]:
        """Which members of the population the next samples are of."""
        steps = np.concatenate(([self.until_hit()], self.following(samples)[: samples - 1]))
        return self.statistics.population + np.cumsum(steps)

    def _judge_by_filter(self) -> None:
        """Have the batch judge samples by the filter that there is now."""
        if self._filter is not self._judge.filter:
            self._judge.filter = self._filter
            self._batch.forget()

    def foresee(self, kinds: Sequence[Kind], most: int) -> None:
        """Work out ahead what becomes of samples of the next ``most`` of ``kinds``."""
        self._judge_by_filter()
        self._batch.foresee(kinds, most)

    def moving(self, kinds: int) -> Moving | None:
        """What registers hold that samples move, while ``kinds`` kinds of samples are known.

        None if what they will hold cannot be told before samples are complete.
        """
        return None

    @staticmethod
    def _places(
        parts: list[NDArray[np.int64]], kinds: Sequence[Kind]
    ) -> Iterator[tuple[int, int, int]]:
        """Addresses and instruction words of samples, each with how many samples have them."""
        places: Counter[tuple[int, int]] = Counter()
        for part in parts:
            places.update(zip(part[:, PC].tolist(), part[:, KIND].tolist(), strict=True))
        for (pc, number), times in places.items():
            yield pc & _MASK, kinds[number].instruction.word, times

    def _recorders_of(self, looked: Looked) -> dict[int, Recorder]:
        return {el: self._recorder(self._recorders, el) for el in looked.levels}

    def _recorder(self, recorders: dict[int, Recorder], el: int) -> Recorder:
        recorder = recorders.get(el)
        if recorder is None:
            recorder = recorders[el] = self._recorder_at(el)
        return recorder

    def _written(self, record: bytes, operation: Operation) -> None:
        self._stream(record, 1, (operation.calls,))
        self.made(record, (self.statistics.population,), None)
        self.recorded(record, operation)

    def _stream(self, data: bytes, records: int, calls: Sequence[Calls]) -> None:
        """Count whole records that were written, and tell observers."""
        statistics = self.statistics
        statistics.written += records
        statistics.bytes += len(data)
        self.streamed(data)
        self.led(data, calls)
