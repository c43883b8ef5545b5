"""From a sampled operation to its record: what it did, what the core model adds, what is collected.

Most of a record depends on the instruction word or on the registers alone. So a :class:`Recorder`
stands for one state of the registers and keeps a layout for each shape of record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.operation import Active, Operation, Timing
from spe_unicorn.arch.pe import SecurityState
from spe_unicorn.arch.registers.spe import event_filter_mask
from spe_unicorn.arch.rules.tagging import allocation_tag_from_address
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.spe.enabling import Collection
from spe_unicorn.spe.operation_type import OperationType
from spe_unicorn.spe.packets import (
    VA_MASK,
    AddressIndex,
    ContextIndex,
    CounterIndex,
    Event,
    OperationClass,
    PhysicalAddress,
    saturated,
)
from spe_unicorn.spe.record import RecordLayout, layout_for

_EXCEPTION: Final = int(Event.EXCEPTION)
_RETIRED: Final = int(Event.RETIRED)
_NOT_TAKEN: Final = int(Event.NOT_TAKEN)
_MISALIGNED: Final = int(Event.MISALIGNED)
_PARTIAL: Final = int(Event.SVE_PARTIAL)
_EMPTY: Final = int(Event.SVE_EMPTY)

_U64: Final = (1 << 64) - 1
EL_SHIFT: Final = 61
"""Where the Exception level stands in PC and branch targets."""
_DATA_SOURCE_SIZE: Final = 1

HAS_VA: Final = 1
HAS_PA: Final = 2
HAS_TARGET: Final = 4
HAS_DATA_SOURCE: Final = 8
HAS_PREVIOUS_TARGET: Final = 16
SHAPES: Final = 32
"""How many shapes there are. A shape is the HAS bits of the packets that a record has."""


def implemented_events(features: Features, impdef: ImpDef) -> int:
    """The bits that Events packets of a core can have."""
    # Exceptions are no filter; retirement and failed conditions are with some features only.
    return event_filter_mask(features, impdef) | _EXCEPTION | _RETIRED | _NOT_TAKEN


def events_of(operation: Operation, timing: Timing, implemented: int) -> int:
    """The Events of an operation, of those that are ``implemented``.

    An operation that ends in a synchronous exception has retired for this purpose, as the packet's
    definition says.
    """
    events = timing.events
    if not operation.misspeculated:
        events |= _RETIRED
    if operation.exception:
        events |= _EXCEPTION
    if operation.condition_failed:
        events |= _NOT_TAKEN
    if operation.misaligned:
        events |= _MISALIGNED
    if operation.active:
        events |= _PARTIAL if operation.active is Active.SOME else _PARTIAL | _EMPTY
    return events & implemented


def events_size(features: Features) -> int:
    """The payload of Events packets in bytes, one for each core."""
    sve = Feature.FEAT_SPEv1p1 in features and Feature.FEAT_SVE in features
    wide = sve or Feature.FEAT_SPEv1p4 in features or Feature.FEAT_SPE_SME in features
    return 4 if wide else 2


@dataclass(frozen=True)
class Format:
    """What all records of a core have in common."""

    events_size: int
    align: int
    max_count: int
    data_source: bool
    previous_target: bool
    slots: bool = False
    order: int = 0
    not_taken_target: bool = False
    previous_target_of_branches: bool = False
    bare_exceptions: bool = False
    untagged_addresses: bool = False

    @classmethod
    def of(cls, features: Features, impdef: ImpDef) -> Format:
        """The format of a core's records."""
        return cls(
            events_size(features),
            impdef.align,
            saturated(1 << 64, impdef.count_size),
            data_source=Feature.FEAT_SPE_LDS in features,
            previous_target=Feature.FEAT_SPE_PBT in features,
            slots=impdef.record_slots,
            order=impdef.packet_order,
            not_taken_target=impdef.not_taken_target,
            previous_target_of_branches=impdef.previous_target_of_branches,
            bare_exceptions=impdef.bare_exceptions,
            untagged_addresses=impdef.untagged_addresses,
        )


def _top_byte(state: SecurityState | PASpace) -> int:
    """NS and NSE as they stand in PC, branch targets and physical addresses."""
    return (state & 1) << 63 | (state >> 1) << 60


class Common(NamedTuple):
    """What all records of one :class:`Recorder` have in common.

    The contexts and the offset are None where records have no such packet. ``shapes`` are the HAS
    bits of packets that records can have. ``state`` is the Security state as addresses hold it.
    """

    context1: int | None
    context2: int | None
    timestamp_offset: int | None
    shapes: int
    state: int


def code_address(address: int, el: int, state: int) -> int:
    """The payload of an Address packet of an instruction: PC, branch target, previous target.

    ``state`` is the Security state as its top byte. Numbers alone: compiled code calls it, too.
    """
    return address & VA_MASK | el << EL_SHIFT | state


def physical_address(address: int, space: int) -> int:
    """The payload of a Data physical address packet; ``space`` is the address space as top byte.

    Numbers alone: compiled code calls it, too.
    """
    return address & VA_MASK | space


def _checked(operation: Operation, va: int) -> int:
    """What a Data physical address packet says of a tag check: CH, and PAT with the tag."""
    if not operation.checked:
        return 0
    return PhysicalAddress.of(CH=1, PAT=allocation_tag_from_address(va)).value


class Recorder:
    """Makes the records of operations in one Security state, of what ``collection`` lets through.

    ``space`` gives the PA space of an operation's data; without it, that of the Security state.
    ``tagged`` says whether the top byte of its address is a tag: it is asked where that matters.
    """

    DERIVED = ("_layouts",)

    def __init__(
        self,
        format_: Format,
        collection: Collection,
        state: SecurityState,
        space: Callable[[Operation], PASpace] | None = None,
        tagged: Callable[[Operation], bool] = lambda _: True,
    ) -> None:
        self._format = format_
        self._collection = collection
        self._state = _top_byte(state)
        self._space = space
        self._tagged = tagged if format_.untagged_addresses else None
        self.looks_further = space is not None or self._tagged is not None
        """Whether a record needs more than its sample and :attr:`common`: a table walk, or TBI."""
        self._contexts = [
            value for value in (collection.context1, collection.context2) if value is not None
        ]
        self._layouts: dict[int, RecordLayout] = {}
        extra = HAS_PREVIOUS_TARGET if format_.previous_target else 0
        extra |= HAS_DATA_SOURCE if format_.data_source else 0
        self.common = Common(
            collection.context1,
            collection.context2,
            collection.timestamp_offset,
            extra | HAS_VA | HAS_TARGET | (HAS_PA if collection.pa else 0),
            self._state,
        )
        self.largest = max(
            self.layout(shape | extra).size for shape in (0, HAS_VA | HAS_PA, HAS_TARGET)
        )
        """The size of the largest record, padded, in bytes."""

    def record(
        self, operation: Operation, type_: OperationType, timing: Timing, events: int
    ) -> bytes:
        """The record of ``operation``, padded."""
        format_ = self._format
        collection = self._collection
        if format_.bare_exceptions and operation.exception:
            return self._bare(operation, events)
        state = self._state
        largest = format_.max_count
        total = timing.total
        issue = timing.issue
        values = self._contexts.copy()
        values.append(total if total < largest else largest)
        values.append(issue if issue < largest else largest)
        shape = 0
        pc = code_address(operation.pc, operation.el, state)
        va = operation.va
        if type_.memory and va is not None:
            shape = HAS_VA
            translation = timing.translation
            values.append(translation if translation < largest else largest)
            values.append(pc)
            tagged = self._tagged is None or self._tagged(operation)
            values.append(va if tagged else va & VA_MASK)
            pa = operation.pa
            if pa is not None and collection.pa:
                shape = HAS_VA | HAS_PA
                space = state if self._space is None else _top_byte(self._space(operation))
                values.append(physical_address(pa, space) | _checked(operation, va))
        else:
            values.append(pc)
            target, el = operation.target, operation.target_el
            if operation.condition_failed and format_.not_taken_target:
                target, el = operation.pc + 4, operation.el
            if target is not None and type_.op_class is OperationClass.BRANCH:
                shape = HAS_TARGET
                values.append(code_address(target, el, state))
        taken = type_.op_class is OperationClass.BRANCH and not operation.condition_failed
        wanted = format_.previous_target and (taken or not format_.previous_target_of_branches)
        if wanted and operation.previous_target is not None:
            shape |= HAS_PREVIOUS_TARGET
            previous = code_address(operation.previous_target, operation.previous_target_el, state)
            values.append(previous)
        if format_.data_source and timing.data_source is not None:
            shape |= HAS_DATA_SOURCE
            values.append(timing.data_source)
        values.append(type_.packet)
        values.append(events)
        offset = collection.timestamp_offset
        if offset is not None:
            values.append(operation.time - offset & _U64)
        layout = self._layouts.get(shape)
        if layout is None:
            layout = self._layouts[shape] = self.layout(shape)
        return layout.pack(*values)

    def _bare(self, operation: Operation, events: int) -> bytes:
        """A record of the Events and what ends it."""
        format_, offset = self._format, self._collection.timestamp_offset
        layout = layout_for(
            operation=False,
            events=format_.events_size,
            timestamp=offset is not None,
            align=format_.align,
            slots=format_.slots,
        )
        time = [] if offset is None else [operation.time - offset & _U64]
        return layout.pack(events, *time)

    def layout(self, shape: int) -> RecordLayout:
        """The layout of records of a shape."""
        collection = self._collection
        contexts = []
        if collection.context1 is not None:
            contexts.append(ContextIndex.CONTEXTIDR_EL1)
        if collection.context2 is not None:
            contexts.append(ContextIndex.CONTEXTIDR_EL2)
        counters = [CounterIndex.TOTAL, CounterIndex.ISSUE]
        addresses = [AddressIndex.PC]
        if shape & HAS_VA and self._format.slots:
            shape &= ~HAS_TARGET  # no operation has both; they have one place
        if shape & HAS_TARGET:
            addresses.append(AddressIndex.BRANCH_TARGET)
        if shape & HAS_VA:
            counters.append(CounterIndex.TRANSLATION)
            addresses.append(AddressIndex.DATA_VA)
        if shape & HAS_PA:
            addresses.append(AddressIndex.DATA_PA)
        if shape & HAS_PREVIOUS_TARGET and not self._format.slots:
            addresses.append(AddressIndex.PREVIOUS_BRANCH_TARGET)
        return layout_for(
            contexts=tuple(contexts),
            counters=tuple(counters),
            addresses=tuple(addresses),
            data_source=_DATA_SOURCE_SIZE if shape & HAS_DATA_SOURCE else 0,
            events=self._format.events_size,
            timestamp=collection.timestamp_offset is not None,
            align=self._format.align,
            slots=self._format.slots,
            order=self._format.order,
        )
