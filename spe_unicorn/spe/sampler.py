"""What all sampling has in common, whoever asked for it: count, select, filter, record.

A :class:`Sampler` counts the population, hands out how far the next selection is, and turns the
selected operation into a record. Who controls it and where records go is its subclasses' part:
``spe.unit`` is the architecture's unit, ``spe.external`` samples from outside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from spe_unicorn.arch.features import Features
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.ports import CoreModel, Cracker, EventSink
from spe_unicorn.spe.feed import Feed, SampleEvent
from spe_unicorn.spe.filter import Filter
from spe_unicorn.spe.interval import Interval
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.operation_type import OperationType, operation_type
from spe_unicorn.spe.sample import Format, Recorder, events_of, implemented_events

RecordObserver = Callable[[bytes, Operation], None]
"""Told of each record that was written whole, padding included, and of its operation."""
ManagementObserver = Callable[[ManagementEvent, int], None]
"""Told of each management event, and of the Exception level whose PMBSR_ELx records it."""

_POP = int(SampleEvent.POP)


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


class Sampler(ABC):
    """Samples one PE.

    A host drives it, operation by operation or in leaps::

        sampler.refresh()           # after anything that may switch profiling on or off
        if sampler.enabled:
            n = sampler.until_hit() # run n members of the population, or fewer
            if sampler.advance(n):  # account them; True: the last one is sampled
                sampler.complete(operation)

    The members are operations, or where there is a ``cracker`` their micro-operations. All those of
    one operation may be accounted before the first sampled one is completed; the samples are then
    completed in their order. ``wrong_path`` is how many operations behind a mispredicted branch are
    members, too, 0 for none; it needs a ``cracker``.

    ``events`` is where PMU events are counted, None without a PMU. ``features`` are those of the
    records, the PE's own unless given.
    """

    enabled: bool
    """Whether operations at the current Exception level belong to the population."""
    armed: bool
    """Whether a change of the Exception level alone can enable or disable profiling."""

    def __init__(
        self,
        pe: PE,
        interval: Interval,
        model: CoreModel,
        events: EventSink | None = None,
        features: Features | None = None,
        cracker: Cracker | None = None,
        wrong_path: int = 0,
    ) -> None:
        features = pe.features if features is None else features
        self.enabled = False
        self.armed = False
        self.statistics = Statistics()
        self.record_observers: list[RecordObserver] = []
        self.until_hit = interval.until_hit
        self.following = interval.following
        self.cracker = cracker
        self.wrong_path = wrong_path
        self._pe = pe
        self._interval = interval
        self._model = model
        self._events = events
        self._features = features
        self._feed = Feed(features)
        self._format = Format.of(features, pe.impdef)
        self._implemented = implemented_events(features, pe.impdef)
        self._types: dict[int, OperationType] = {}
        """By word, with its part and for SVE the vector length above."""
        self._filter = Filter()
        self._recorders: dict[int, Recorder] = {}
        """By Exception level; replaced, not cleared, when registers change what is collected."""
        self._sampling: deque[tuple[dict[int, Recorder], Filter]] = deque()
        """What the registers said when each of the samples was taken that are not yet complete."""

    @property
    def records_previous_target(self) -> bool:
        """Whether records tell where the branch before their operation went."""
        return self._format.previous_target

    @abstractmethod
    def refresh(self) -> None:
        """Look again whether profiling is enabled. Cheap while nothing has changed."""

    @abstractmethod
    def reload(self) -> None:
        """Registers changed behind the register file's back, as by a reset: look at them anew."""

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
    def _keep(self, record: bytes, operation: Operation) -> None:
        """A record passed the filters."""

    def advance(self, members: int) -> bool:
        """Let ``members`` of the population go by, at most :meth:`until_hit` of them.

        True if the last one is sampled: give it to :meth:`complete` when it is done. Raises
        ValueError if a member before the last would be selected.
        """
        hit = self._interval.advance(members)
        self.statistics.population += members
        if self._events is not None:
            self._events.event(_POP, members)
        return hit and self._select()

    def _select(self) -> bool:
        """The last member is selected. False if it collides."""
        statistics = self.statistics
        statistics.selected += 1
        if self._collides():
            statistics.collisions += 1
            if self._events is not None:
                self._events.event(SampleEvent.COLLISION)
            return False
        # What the registers say now holds for this sample, whatever its operation changes.
        self._sampling.append((self._recorders, self._filter))
        return True

    def complete(self, operation: Operation) -> None:
        """The sampled operation is done, the first one if there are several: make its record.

        Raises RuntimeError without a sampled operation.
        """
        if not self._sampling:
            raise RuntimeError("no operation is being sampled")
        recorders, filter_ = self._sampling.popleft()
        timing = self._model.timing(operation)
        self._occupy(timing.total)
        instruction = operation.instruction
        kind = instruction.word
        if instruction.part or instruction.sve:
            kind |= instruction.part << 32 | operation.vector_bits << 40
        type_ = self._types.get(kind)
        if type_ is None:
            type_ = operation_type(instruction, self._features, operation.vector_bits)
            self._types[kind] = type_
        events = events_of(operation, timing, self._implemented)
        flags, total, source = type_.flags, timing.total, timing.data_source
        kept = not filter_.active or filter_.keeps(flags, events, total, source)
        if self._events is not None:
            self._events.events(self._feed.events(filter_, flags, events, total, source, kept))
        if not kept:
            self.statistics.filtered += 1
            return
        recorder = recorders.get(operation.el)
        if recorder is None:
            recorder = recorders[operation.el] = self._recorder_at(operation.el)
        self._keep(recorder.record(operation, type_, timing, events), operation)

    def _written(self, record: bytes, operation: Operation) -> None:
        statistics = self.statistics
        statistics.written += 1
        statistics.bytes += len(record)
        for observer in self.record_observers:
            observer(record, operation)
