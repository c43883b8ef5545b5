"""Records as NumPy arrays, one for each thing that a record can say: for millions of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.grid import GridReader, Numbers
from spe_unicorn.output.reader import Stream
from spe_unicorn.output.scan import Layout
from spe_unicorn.spe.packets import (
    VA_MASK,
    AddressIndex,
    BadPacket,
    ContextIndex,
    CounterIndex,
    DataAddress,
    InstructionAddress,
    PacketType,
    PhysicalAddress,
)
from spe_unicorn.spe.record import Record

Array = npt.NDArray[Any]


class Has(IntFlag):
    """The packets of a record that have an array of their own."""

    CONTEXT_EL1 = 1 << 0
    CONTEXT_EL2 = 1 << 1
    TOTAL = 1 << 2
    ISSUE = 1 << 3
    TRANSLATION = 1 << 4
    ALTERNATE_ISSUE = 1 << 5
    PC = 1 << 6
    TARGET = 1 << 7
    VA = 1 << 8
    PA = 1 << 9
    PREVIOUS_TARGET = 1 << 10
    DATA_SOURCE = 1 << 11
    OPERATION = 1 << 12
    TIMESTAMP = 1 << 13


_PLACES: dict[tuple[PacketType, int], tuple[str, Has]] = {
    (PacketType.CONTEXT, ContextIndex.CONTEXTIDR_EL1): ("context_el1", Has.CONTEXT_EL1),
    (PacketType.CONTEXT, ContextIndex.CONTEXTIDR_EL2): ("context_el2", Has.CONTEXT_EL2),
    (PacketType.COUNTER, CounterIndex.TOTAL): ("total", Has.TOTAL),
    (PacketType.COUNTER, CounterIndex.ISSUE): ("issue", Has.ISSUE),
    (PacketType.COUNTER, CounterIndex.TRANSLATION): ("translation", Has.TRANSLATION),
    (PacketType.COUNTER, CounterIndex.ALTERNATE_ISSUE): ("alternate_issue", Has.ALTERNATE_ISSUE),
    (PacketType.ADDRESS, AddressIndex.PC): ("pc", Has.PC),
    (PacketType.ADDRESS, AddressIndex.BRANCH_TARGET): ("target", Has.TARGET),
    (PacketType.ADDRESS, AddressIndex.DATA_VA): ("va", Has.VA),
    (PacketType.ADDRESS, AddressIndex.DATA_PA): ("pa", Has.PA),
    (PacketType.ADDRESS, AddressIndex.PREVIOUS_BRANCH_TARGET): (
        "previous_target",
        Has.PREVIOUS_TARGET,
    ),
    (PacketType.DATA_SOURCE, 0): ("data_source", Has.DATA_SOURCE),
    (PacketType.EVENTS, 0): ("events", Has(0)),
    (PacketType.TIMESTAMP, 0): ("timestamp", Has.TIMESTAMP),
}
"""The array that a packet's payload goes to, and the bit that says so; all records have events."""

_DTYPES = {
    **dict.fromkeys(("context_el1", "context_el2"), np.uint32),
    **dict.fromkeys(("total", "issue", "translation", "alternate_issue", "data_source"), np.uint16),
    **dict.fromkeys(("pc", "target", "va", "pa", "previous_target"), np.uint64),
    **dict.fromkeys(("events", "timestamp"), np.uint64),
}

Rare = dict[tuple[PacketType, int], tuple[Array, Array]]
"""Packets of other indexes: rows, and their payloads."""


@dataclass(frozen=True)
class RecordArrays:
    """Records by columns; every array has an element for each record.

    ``cpu`` and ``offset`` are the place in the stream of that PE, ``has`` a combination of
    :class:`Has`: where a bit is missing, the element of that array is 0 and means nothing.
    Addresses are payloads as :mod:`spe_unicorn.spe.packets` describes them, with Exception level,
    state and tags; :func:`canonical` gives plain ones. ``total``, ``issue``, ``translation`` and
    ``alternate_issue`` are cycles, ``timestamp`` is in ticks of the system counter, ``events_size``
    and ``data_source_size`` are payload sizes in bytes. ``rare`` holds the packets of
    IMPLEMENTATION DEFINED indexes.
    """

    cpu: Array
    offset: Array
    has: Array
    context_el1: Array
    context_el2: Array
    total: Array
    issue: Array
    translation: Array
    alternate_issue: Array
    pc: Array
    target: Array
    va: Array
    pa: Array
    previous_target: Array
    data_source: Array
    op_class: Array
    op_payload: Array
    events: Array
    timestamp: Array
    events_size: Array
    data_source_size: Array
    rare: Rare = field(default_factory=dict)
    _where: dict[Has, Array] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What :meth:`where` has said."""

    def __len__(self) -> int:
        return len(self.has)

    def where(self, packet: Has) -> Array:
        """Which records have a packet: True or False for each."""
        if packet not in self._where:
            there: Array = (self.has & int(packet)) != 0
            there.flags.writeable = False
            self._where[packet] = there
        return self._where[packet]

    def take(self, rows: Array) -> RecordArrays:
        """The records of some rows, which are given by number or by True and False."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        new_row = np.full(len(self), -1, np.int64)
        new_row[rows] = np.arange(len(rows))
        rare: Rare = {}
        for key, (places, values) in self.rare.items():
            kept = new_row[places] >= 0
            if kept.any():
                rare[key] = new_row[places[kept]], values[kept]
        return RecordArrays(**{name: getattr(self, name)[rows] for name in _COLUMNS}, rare=rare)

    def head(self, count: int) -> RecordArrays:
        """The first records."""
        return self.take(np.arange(count))

    def record(self, row: int) -> Record:
        """One record as an object. Slow for many: it is here to look at a few."""
        values = {name: int(getattr(self, name)[row]) for name in _COLUMNS}
        has = Has(values["has"])
        counters = [
            (index, values[name])
            for (kind, index), (name, bit) in _PLACES.items()
            if kind is PacketType.COUNTER and bit in has
        ]
        addresses: list[tuple[int, int]] = []
        for (kind, index), (rows, payloads) in self.rare.items():
            others = counters if kind is PacketType.COUNTER else addresses
            others += [(index, int(payload)) for payload in payloads[rows == row]]

        def of(name: str, bit: Has) -> int | None:
            return values[name] if bit in has else None

        def address(name: str, bit: Has, kind: type[Any]) -> Any:
            return kind(values[name]) if bit in has else None

        return Record(
            events=values["events"],
            events_size=values["events_size"],
            op_class=of("op_class", Has.OPERATION),
            op_payload=values["op_payload"],
            pc=address("pc", Has.PC, InstructionAddress),
            target=address("target", Has.TARGET, InstructionAddress),
            va=address("va", Has.VA, DataAddress),
            pa=address("pa", Has.PA, PhysicalAddress),
            previous_target=address("previous_target", Has.PREVIOUS_TARGET, InstructionAddress),
            addresses=tuple(sorted(addresses)),
            context_el1=of("context_el1", Has.CONTEXT_EL1),
            context_el2=of("context_el2", Has.CONTEXT_EL2),
            counters=tuple(sorted(counters)),
            data_source=of("data_source", Has.DATA_SOURCE),
            data_source_size=values["data_source_size"] or 1,
            timestamp=of("timestamp", Has.TIMESTAMP),
        )


_COLUMNS = tuple(f.name for f in fields(RecordArrays) if f.name not in ("rare", "_where"))


def canonical(payloads: Array) -> Array:
    """The 64-bit virtual addresses of payloads, as ``packets.canonical_address`` has one."""
    low = payloads & np.uint64(VA_MASK)
    top: Array = np.where(payloads >> np.uint64(55) & np.uint64(1), np.uint64(0xFF << 56), 0)
    result: Array = low | top.astype(np.uint64)
    return result


def read_arrays(streams: Iterable[Stream]) -> tuple[RecordArrays, list[tuple[Stream, BadPacket]]]:
    """The records of streams in their order, and the bad packets, each with its stream.

    They are those that :func:`~spe_unicorn.spe.record.decode_stream` finds, some thirty times
    faster.
    """
    bad: list[tuple[Stream, BadPacket]] = []
    parts = []
    for part, wrong in _parts(streams):
        parts.append(part)
        bad += wrong
    return joined(parts), bad


def read_pieces(
    streams: Iterable[Stream], most: int
) -> Iterator[tuple[RecordArrays, list[tuple[Stream, BadPacket]]]]:
    """As :func:`read_arrays`, in pieces of some ``most`` records, never of many more.

    There is one piece at least.
    """
    bad: list[tuple[Stream, BadPacket]] = []
    parts: list[RecordArrays] = []
    for part, wrong in _parts(streams):
        if parts and sum(map(len, parts)) + len(part) > most:
            yield joined(parts), bad
            parts, bad = [], []
        parts.append(part)
        bad += wrong
    yield joined(parts), bad


def _parts(
    streams: Iterable[Stream],
) -> Iterator[tuple[RecordArrays, list[tuple[Stream, BadPacket]]]]:
    reader = GridReader()
    for stream in streams:
        for kinds, starts, wrong in reader.read(stream.data):
            bad = [(stream, each) for each in wrong]
            yield _columns(stream, reader.layouts, kinds, starts), bad


def _columns(
    stream: Stream, layouts: Sequence[Layout], kinds: Numbers, starts: Numbers
) -> RecordArrays:
    """The records of one stream: where they start, and the number of the layout of each."""
    count = len(starts)
    place = starts
    columns: dict[str, Array] = {
        "cpu": np.full(count, stream.cpu, np.uint32),
        "offset": (place + stream.offset).astype(np.uint64),
        "has": np.zeros(count, np.uint16),
        **{name: np.zeros(count, dtype) for name, dtype in _DTYPES.items()},
        **{
            name: np.zeros(count, np.uint8)
            for name in ("op_class", "op_payload", "events_size", "data_source_size")
        },
    }
    rare: Rare = {}
    if count:
        data = np.frombuffer(stream.data, np.uint8)
        for number in np.flatnonzero(np.bincount(kinds)).tolist():
            rows = np.flatnonzero(kinds == number)
            _fill(columns, rare, data, layouts[number], rows, place[rows])
    return RecordArrays(**columns, rare=rare)


def _fill(
    columns: dict[str, Array],
    rare: Rare,
    data: npt.NDArray[np.uint8],
    layout: Layout,
    rows: Array,
    starts: Array,
) -> None:
    """Fill in the records of one layout, which are in ``rows`` and start at ``starts``."""
    has = Has(0)
    places = np.ndarray((len(data) - layout.size + 1,), f"V{layout.size}", data, 0, (1,))
    records = places[starts]
    for packet in layout.fields:
        if packet.kind is PacketType.END:
            continue
        if packet.kind is PacketType.OPERATION_TYPE:
            columns["op_class"][rows] = _numbers(records, packet.offset, 1) & 3
            columns["op_payload"][rows] = _numbers(records, packet.payload, 1)
            has |= Has.OPERATION
            continue
        payloads = _numbers(records, packet.payload, packet.size)
        place = _PLACES.get((packet.kind, packet.number))
        if place is None:
            key = packet.kind, packet.number
            old_rows, old = rare.get(key, (np.zeros(0, np.int64), np.zeros(0, np.uint64)))
            rare[key] = np.append(old_rows, rows), np.append(old, payloads.astype(np.uint64))
            continue
        name, bit = place
        columns[name][rows] = payloads
        has |= bit
        if name in ("events", "data_source"):
            columns[f"{name}_size"][rows] = packet.size
    columns["has"][rows] = int(has)


def _numbers(records: Array, offset: int, size: int) -> Array:
    """The numbers of ``size`` bytes that stand at an offset in records of one length."""
    result: Array = np.ndarray((len(records),), f"<u{size}", records, offset, records.strides)
    return result


def joined(parts: Sequence[RecordArrays]) -> RecordArrays:
    """The records of several streams, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        nothing = np.zeros(0, np.int64)
        return _columns(Stream(0, 0, 0, memoryview(b"")), (), nothing, nothing)
    rare: Rare = {}
    behind = 0
    for part in parts:
        for key, (rows, values) in part.rare.items():
            old_rows, old = rare.get(key, (rows[:0], values[:0]))
            rare[key] = np.append(old_rows, rows + behind), np.append(old, values)
        behind += len(part)
    columns = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _COLUMNS}
    return RecordArrays(**columns, rare=rare)
