"""Sample records: packets in order, a terminator, padding; both directions.

Arm ARM D18.1. Records are written in the order of the architecture's own pseudocode (contexts,
counters, addresses, data source, operation type, events, then Timestamp or End), or as the core
chooses with a place for each packet (:func:`slot_of`). They are read in any order.
Padding stands behind the terminator, up to a multiple of ``1 << PMBIDR_EL1.Align`` bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.bits import Register
from spe_unicorn.spe.packets import (
    COUNTER_NAMES,
    AddressIndex,
    BadPacket,
    Buffer,
    ContextIndex,
    CounterIndex,
    DataAddress,
    InstructionAddress,
    Packet,
    PacketType,
    PhysicalAddress,
    header,
    read_packet,
    skip_packet,
)

Indexed = tuple[tuple[int, int], ...]
"""Values by packet index, in ascending order of the index, each index once."""


@dataclass(frozen=True, slots=True)
class Record:
    """What one sample record says; None and empty stand for packets that it does not have.

    ``events`` is a combination of :class:`~spe_unicorn.spe.packets.Event`, ``events_size`` and
    ``data_source_size`` are payload sizes in bytes. ``counters`` are cycles by
    :class:`~spe_unicorn.spe.packets.CounterIndex`. ``addresses`` are payloads by index, for those
    without a field of their own. ``timestamp`` is in ticks of the system counter.
    """

    events: int
    events_size: int = 2
    op_class: int | None = None
    op_payload: int = 0
    pc: InstructionAddress | None = None
    target: InstructionAddress | None = None
    va: DataAddress | None = None
    pa: PhysicalAddress | None = None
    previous_target: InstructionAddress | None = None
    addresses: Indexed = ()
    context_el1: int | None = None
    context_el2: int | None = None
    counters: Indexed = ()
    data_source: int | None = None
    data_source_size: int = 1
    timestamp: int | None = None

    @property
    def cycles(self) -> dict[str, int]:
        """The counters by name, as JSON, arrays and tables have them; by index without a name."""
        return {COUNTER_NAMES.get(index, str(index)): value for index, value in self.counters}

    def counter(self, index: int) -> int | None:
        """The counter with ``index``, in cycles."""
        return dict(self.counters).get(index)


_CONTEXT_FIELDS = {
    int(ContextIndex.CONTEXTIDR_EL1): "context_el1",
    int(ContextIndex.CONTEXTIDR_EL2): "context_el2",
}
_ADDRESS_FIELDS = {
    int(AddressIndex.PC): "pc",
    int(AddressIndex.BRANCH_TARGET): "target",
    int(AddressIndex.DATA_VA): "va",
    int(AddressIndex.DATA_PA): "pa",
    int(AddressIndex.PREVIOUS_BRANCH_TARGET): "previous_target",
}
_ADDRESS_PAYLOADS: Mapping[int, type[Register]] = {
    AddressIndex.PC: InstructionAddress,
    AddressIndex.BRANCH_TARGET: InstructionAddress,
    AddressIndex.DATA_VA: DataAddress,
    AddressIndex.DATA_PA: PhysicalAddress,
    AddressIndex.PREVIOUS_BRANCH_TARGET: InstructionAddress,
}
_FORMAT = {1: "B", 2: "H", 4: "I", 8: "Q"}


def padded_size(size: int, align: int) -> int:
    """``size`` bytes rounded up to a multiple of ``1 << align``."""
    return -(-size >> align) << align


def slot_of(kind: PacketType, index: int, events: int) -> int:
    """The offset of a packet in records of 64 bytes that have a fixed place for each packet.

    ``events`` is the payload of the Events packet. Read off captures of Neoverse N1: the PC, two
    contexts, the operation, its events, the latencies, the address that it went to, and so on up to
    the timestamp in the last nine bytes. Raises ValueError for a packet that has no place.
    """
    slots = {
        (PacketType.ADDRESS, AddressIndex.PC): 0,
        (PacketType.CONTEXT, ContextIndex.CONTEXTIDR_EL1): 9,
        (PacketType.CONTEXT, ContextIndex.CONTEXTIDR_EL2): 14,
        (PacketType.OPERATION_TYPE, 0): 19,
        (PacketType.EVENTS, 0): 21,
    }
    behind = 22 + events
    slots |= {
        (PacketType.COUNTER, CounterIndex.ISSUE): behind,
        (PacketType.COUNTER, CounterIndex.TOTAL): behind + 3,
        (PacketType.ADDRESS, AddressIndex.BRANCH_TARGET): behind + 6,
        (PacketType.ADDRESS, AddressIndex.DATA_VA): behind + 6,
        (PacketType.COUNTER, CounterIndex.TRANSLATION): behind + 15,
        (PacketType.ADDRESS, AddressIndex.DATA_PA): behind + 18,
        (PacketType.DATA_SOURCE, 0): behind + 27,
        (PacketType.TIMESTAMP, 0): 55,
        (PacketType.END, 0): 55,
    }
    if (kind, index) not in slots:
        raise ValueError(f"{kind.name} packet {index} has no place in a record of 64 bytes")
    return slots[kind, index]


def in_order(packets: int, order: int) -> list[int]:
    """The numbers of packets in one of their orders, in which the last one stays the last.

    ``order`` 0 is that of the architecture's pseudocode. Each other number is one of the orders;
    several numbers may be the same one (Arm ARM D18.1 leaves the order to the implementation).
    """
    sequence = list(range(packets))
    if order:
        random = RandomStream(order)
        for left in range(packets - 1, 1, -1):
            chosen = random.bits64() % left
            sequence[chosen], sequence[left - 1] = sequence[left - 1], sequence[chosen]
    return sequence


class RecordLayout:
    """The packets of a record and their places: one home for their order, and fast to fill.

    ``size`` is the record's size in bytes with its padding, ``end`` its size without.
    """

    __slots__ = ("_offsets", "_order", "_packets", "_struct", "_template", "end", "size")

    def __init__(
        self,
        packets: Iterable[tuple[PacketType, int, int]],
        align: int,
        *,
        slots: bool = False,
        order: int = 0,
    ) -> None:
        """Lay out ``packets``, each a type, an index and a payload size, and the padding.

        With ``slots`` each has the place that :func:`slot_of` says, else one comes after the other,
        by ``order`` (:func:`in_order`). Raises ValueError for a packet
        that does not exist, is there twice or has no place.
        """
        # PacketType is numbered in the order of records.
        self._packets = sorted(packets)
        previous = None
        for kind, index, _ in self._packets:
            if (kind, index) == previous:
                raise ValueError(f"a record has one {kind.name} packet with index {index}")
            previous = kind, index
        sizes = [len(header(*packet)) + packet[2] for packet in self._packets]
        self._offsets = [0] * len(sizes)
        sequence = in_order(len(sizes), order)
        ends = accumulate(sizes[number] for number in sequence)
        for number, end in zip(sequence, ends, strict=True):
            self._offsets[number] = end - sizes[number]
        if slots:
            events = next(size for kind, _, size in self._packets if kind is PacketType.EVENTS)
            self._offsets = [slot_of(kind, index, events) for kind, index, _ in self._packets]
        placed = sorted(zip(self._offsets, sizes, self._packets, strict=True))
        template = b""
        form = "<"
        for offset, _, (kind, index, size) in placed:
            if offset < len(template):
                raise ValueError(f"{kind.name} packet {index} has its place taken by another")
            form += f"{offset - len(template)}x"
            template = template.ljust(offset, b"\0")
            head = header(kind, index, size)
            if kind is PacketType.OPERATION_TYPE:
                # The class in the header changes with the operation, so it is filled in with it.
                template += bytes(2)
                form += "H"
            else:
                template += head + bytes(size)
                form += f"{len(head)}x{_FORMAT.get(size, '')}"
        taking = [packet for packet in self._packets if packet[0] is not PacketType.END]
        places = [taking.index(packet) for _, _, packet in placed if packet in taking]
        self._order = places if places != sorted(places) else None
        """Which value stands where, None where they are in the order of the architecture."""
        self._struct = struct.Struct(form)
        self._template = int.from_bytes(template, "little")
        self.end = len(template)
        self.size = padded_size(self.end, align)

    @property
    def template(self) -> bytes:
        """The record without padding, with payloads of 0: all the headers."""
        return self._template.to_bytes(self.end, "little")

    @property
    def places(self) -> list[tuple[PacketType, int, int, int]]:
        """The place of each payload: type and index of its packet, offset, size in bytes.

        The Operation Type begins with its header (:func:`operation_type_value`).
        """
        places: list[tuple[PacketType, int, int, int]] = []
        for (kind, index, size), offset in zip(self._packets, self._offsets, strict=True):
            head = len(header(kind, index, size))
            if kind is PacketType.OPERATION_TYPE:
                places.append((kind, index, offset, head + size))
            elif size:
                places.append((kind, index, offset + head, size))
        return places

    def pack(self, *values: int) -> bytes:
        """The record with ``values`` as payloads, one a packet in the architecture's order.

        The Operation Type takes :func:`operation_type_value`, End takes none. Raises ValueError
        for a value that does not fit.
        """
        try:
            payloads = self._struct.pack(*self._in_place(values))
        except struct.error:
            raise ValueError(self._complaint(values)) from None
        # The headers are constant: one OR puts them all in, far cheaper than packing each.
        filled = int.from_bytes(payloads, "little") | self._template
        return filled.to_bytes(self.size, "little")

    def _in_place(self, values: tuple[int, ...]) -> Iterable[int]:
        if self._order is None or len(values) != len(self._order):
            return values
        return (values[n] for n in self._order)

    def _complaint(self, values: tuple[int, ...]) -> str:
        taking = [p for p in self._packets if p[0] is not PacketType.END]
        if len(taking) != len(values):
            return f"the record takes {len(taking)} values, got {len(values)}"
        for (kind, index, size), value in zip(taking, values, strict=True):
            room = 2 if kind is PacketType.OPERATION_TYPE else size
            if not 0 <= value < 1 << 8 * room:
                return f"{kind.name} packet {index} takes {size} bytes, got {value:#x}"
        return "the record takes whole numbers"


def operation_type_value(op_class: int, payload: int) -> int:
    """Class and payload of an Operation Type as :meth:`RecordLayout.pack` takes them."""
    return header(PacketType.OPERATION_TYPE, op_class)[0] | payload << 8


@lru_cache(maxsize=1024)
def layout_for(
    *,
    contexts: tuple[int, ...] = (),
    counters: tuple[int, ...] = (),
    addresses: tuple[int, ...] = (),
    data_source: int = 0,
    operation: bool = True,
    events: int = 2,
    timestamp: bool = False,
    align: int = 6,
    slots: bool = False,
    order: int = 0,
) -> RecordLayout:
    """The layout of records with these packets, in this order, or with a place for each.

    ``order`` is another order (:func:`in_order`), 0 for this one.

    ``contexts``, ``counters`` and ``addresses`` are the indexes present, ``data_source`` (0 for
    none) and ``events`` payload sizes in bytes. Without a timestamp the record ends with End.
    Raises ValueError for a packet that does not exist or is there twice.
    """
    packets = [(PacketType.CONTEXT, index, 4) for index in contexts]
    packets += [(PacketType.COUNTER, index, 2) for index in counters]
    packets += [(PacketType.ADDRESS, index, 8) for index in addresses]
    if data_source:
        packets.append((PacketType.DATA_SOURCE, 0, data_source))
    if operation:
        packets.append((PacketType.OPERATION_TYPE, 0, 1))
    packets.append((PacketType.EVENTS, 0, events))
    packets.append((PacketType.TIMESTAMP, 0, 8) if timestamp else (PacketType.END, 0, 0))
    return RecordLayout(packets, align, slots=slots, order=order)


def encode(record: Record, align: int, *, slots: bool = False) -> bytes:
    """The bytes of ``record``, padded to a multiple of ``1 << align``; ``slots`` as for a layout.

    Raises ValueError for a value that does not fit its packet, for an index that does not exist
    or comes twice, and for one among ``addresses`` that has a field of its own.
    """
    contexts = _present(record, _CONTEXT_FIELDS)
    counters = sorted(record.counters)
    for index, _ in record.addresses:
        if index in _ADDRESS_FIELDS:
            raise ValueError(f"address {index} belongs into the field {_ADDRESS_FIELDS[index]}")
    addresses = sorted([*_present(record, _ADDRESS_FIELDS), *record.addresses])
    layout = layout_for(
        contexts=tuple(index for index, _ in contexts),
        counters=tuple(index for index, _ in counters),
        addresses=tuple(index for index, _ in addresses),
        data_source=0 if record.data_source is None else record.data_source_size,
        operation=record.op_class is not None,
        events=record.events_size,
        timestamp=record.timestamp is not None,
        align=align,
        slots=slots,
    )
    values = [value for _, value in (*contexts, *counters, *addresses)]
    if record.data_source is not None:
        values.append(record.data_source)
    if record.op_class is not None:
        values.append(operation_type_value(record.op_class, record.op_payload))
    values.append(record.events)
    if record.timestamp is not None:
        values.append(record.timestamp)
    return layout.pack(*values)


def _present(record: Record, fields: Mapping[int, str]) -> list[tuple[int, int]]:
    values = ((index, getattr(record, name)) for index, name in fields.items())
    return [(index, int(value)) for index, value in values if value is not None]


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A record found in a stream: bytes ``start`` to ``end``, padding after it not counted.

    ``packets`` are all its packets but Padding, each with its offset in the stream.
    """

    start: int
    end: int
    packets: tuple[tuple[int, Packet], ...]
    record: Record


def decode_stream(data: Buffer, offset: int = 0) -> Iterator[PlacedRecord | BadPacket]:
    """The records of a stream from ``offset`` on, and what is wrong with it, in order.

    A record with a bad packet is left out. Reading goes on after the next terminator, found by
    the sizes that all headers have, if that is a place where records of this stream start: a
    multiple of the largest power of two that divides the offsets of all records so far.
    """
    end = len(data)
    starts = 0
    while True:
        while offset < end and not data[offset]:
            offset += 1
        if offset == end:
            return
        found = read_record(data, offset)
        starts |= offset
        yield found
        if isinstance(found, PlacedRecord):
            offset = found.end
        else:
            offset = resume_offset(data, found.offset, starts)


def resume_offset(data: Buffer, bad: int, starts: int) -> int:
    """Where reading goes on after the bad packet at ``bad``: the end, or where a record may start.

    ``starts`` is the bitwise OR of the offsets at which records have started so far.
    """
    # As long as no offset but 0 was seen, the stream's own size tells its alignment.
    places = starts or len(data) | _COMMON_ALIGNMENT
    return _next_start(data, bad, places & -places)


def _next_start(data: Buffer, offset: int, grid: int) -> int:
    """The first offset after the bad packet at ``offset`` where a record may start."""
    end = len(data)
    while offset < end:
        terminator = data[offset] in _TERMINATORS
        offset = skip_packet(data, offset)
        if terminator:
            start = offset
            while start < end and not data[start]:
                start += 1
            if start % grid == 0:
                return min(start, end)
    return end


_COMMON_ALIGNMENT = 64
_TERMINATORS = (header(PacketType.END)[0], header(PacketType.TIMESTAMP)[0])


def read_record(data: Buffer, offset: int) -> PlacedRecord | BadPacket:
    """The record that starts at ``offset``, or the first thing in it that is wrong."""
    start = offset
    end = len(data)
    packets: list[tuple[int, Packet]] = []
    seen: set[tuple[PacketType, int]] = set()
    while offset < end:
        read = read_packet(data, offset)
        if isinstance(read, BadPacket):
            return read
        packet, behind = read
        kind = packet.type
        if kind is not PacketType.PADDING:
            packets.append((offset, packet))
            key = kind, 0 if kind is PacketType.OPERATION_TYPE else packet.index
            if key in seen:
                again = f"a second {kind.name} packet in the record at {start:#x}"
                return BadPacket(offset, bytes(data[offset:behind]), again)
            seen.add(key)
        if kind is PacketType.END or kind is PacketType.TIMESTAMP:
            if (PacketType.EVENTS, 0) not in seen:
                missing = f"the record at {start:#x} ends without an EVENTS packet"
                return BadPacket(offset, bytes(data[offset:behind]), missing)
            return PlacedRecord(start, behind, tuple(packets), record_of(p for _, p in packets))
        offset = behind
    return BadPacket(start, bytes(data[start:]), "the data ends inside the record")


def record_of(packets: Iterable[Packet]) -> Record:
    """What ``packets``, each there once, say together."""
    fields: dict[str, Any] = {}
    counters = []
    addresses = []
    for packet in packets:
        index, value = packet.index, packet.value
        match packet.type:
            case PacketType.CONTEXT:
                fields[_CONTEXT_FIELDS[index]] = value
            case PacketType.COUNTER:
                counters.append((index, value))
            case PacketType.ADDRESS if index in _ADDRESS_FIELDS:
                fields[_ADDRESS_FIELDS[index]] = _ADDRESS_PAYLOADS[index](value)
            case PacketType.ADDRESS:
                addresses.append((index, value))
            case PacketType.DATA_SOURCE:
                fields.update(data_source=value, data_source_size=packet.size)
            case PacketType.OPERATION_TYPE:
                fields.update(op_class=index, op_payload=value)
            case PacketType.EVENTS:
                fields.update(events=value, events_size=packet.size)
            case PacketType.TIMESTAMP:
                fields["timestamp"] = value
    return Record(counters=tuple(sorted(counters)), addresses=tuple(sorted(addresses)), **fields)
