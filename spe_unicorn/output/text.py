"""Records as text for people: one block a record, one line a packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spe_unicorn.output.names import (
    CONTEXTS,
    DATA_SOURCES,
    event_names,
    operation_name,
    state_name,
)
from spe_unicorn.output.scan import Found, Layout, placed_at
from spe_unicorn.output.table import Name, nameless
from spe_unicorn.spe.packets import (
    COUNTER_NAMES,
    AddressIndex,
    BadPacket,
    Buffer,
    DataAddress,
    InstructionAddress,
    Packet,
    PacketType,
    PhysicalAddress,
    canonical_address,
    is_extended,
    read_packet,
)
from spe_unicorn.spe.record import PlacedRecord
from spe_unicorn.symbols.table import printable

_BYTES_A_LINE = 10
"""No packet has more: two header bytes and eight of payload."""


def record_text(
    data: Buffer,
    placed: PlacedRecord,
    number: int,
    cpu: int = 0,
    base: int = 0,
    name: Name = nameless,
) -> str:
    """A heading and a line for each packet: offset, bytes, meaning. Ends with a newline.

    ``data`` is the stream that ``placed`` came from, and ``base`` the offset that its first byte
    has for the reader. A run of padding is one line.
    """
    size = placed.end - placed.start
    lines = [f"record {number} at {base + placed.start:#x} of cpu {cpu}, {size} bytes"]
    behind = placed.start
    for offset, packet in placed.packets:
        lines += _padding(base + behind, offset - behind)
        behind = offset + packet_size(packet, data[offset])
        said = _bytes_and_meaning(data[offset:behind].hex(" "), _named(packet, name))
        lines.append(f"  {base + offset:08x}  {said}")
    end = placed.end
    while end < len(data) and not data[end]:
        end += 1
    lines += _padding(base + placed.end, end - placed.end)
    return "\n".join(lines) + "\n"


class RecordTexts:
    """Makes the same text of many records, found by :class:`~spe_unicorn.output.scan.Scanner`.

    Packets of one stream are alike: what was said of one is said again when its bytes come again.
    ``name`` names addresses, which then stand behind them.
    """

    def __init__(self, name: Name = nameless) -> None:
        self._name = name
        self._known: dict[bytes, str] = {}
        self._templates: dict[tuple[Layout, int], str] = {}

    def text(self, data: memoryview, found: Found, number: int, cpu: int = 0, base: int = 0) -> str:
        """What :func:`record_text` says of the record."""
        layout, start, behind = found
        if layout.is_padded_inside:
            return record_text(data, placed_at(data, start), number, cpu, base, self._name)
        at = base + start
        padding = behind - start - layout.size
        template = self._templates.get((layout, padding))
        if template is None:
            template = self._template(layout, padding)
        known = self._known
        values: list[int | str] = [number, at, cpu]
        record = bytes(data[start : start + layout.size])
        for offset, end, timestamp in layout.spans:
            packet = record[offset:end]
            try:
                said = known[packet]
            except KeyError:
                said = _timestamp_text(packet) if timestamp else self._say(packet)
            values += at + offset, said
        if padding:
            values.append(at + layout.size)
        return template % tuple(values)

    def _say(self, packet: bytes) -> str:
        """Bytes and meaning of a packet, which is a good one; remembered."""
        read = read_packet(packet, 0)
        if isinstance(read, BadPacket):
            raise ValueError(f"no packet: {packet.hex(' ')}: {read.reason}")
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        said = _bytes_and_meaning(packet.hex(" "), _named(read[0], self._name))
        self._known[packet] = said
        return said

    def _template(self, layout: Layout, padding: int) -> str:
        """The text of records of a layout and with so much padding: all but offsets and packets."""
        if len(self._templates) > _MOST_TEMPLATES:
            self._templates.clear()
        template = f"record %d at %#x of cpu %d, {layout.size} bytes\n"
        template += "  %08x  %s\n" * len(layout.spans)
        if padding:
            template += f"  %08x  {_padding_text(padding)}\n"
        self._templates[layout, padding] = template
        return template


_MOST_KNOWN = 1 << 16
"""Packets whose text is kept: some 10 MiB."""
_MOST_TEMPLATES = 1 << 10


def _timestamp_text(packet: bytes) -> str:
    value = int.from_bytes(packet[1:], "little")
    return f"{packet.hex(' '):<{3 * _BYTES_A_LINE}} TIMESTAMP      {value}"


def packet_size(packet: Packet, first: int) -> int:
    """Bytes of a packet in a stream, of which ``first`` is the first one."""
    return (2 if is_extended(first) else 1) + packet.size


def packet_text(packet: Packet) -> str:
    """The meaning of one packet."""
    return f"{packet.type.name:<15}{_MEANINGS[packet.type](packet)}".rstrip()


def _named(packet: Packet, name: Name) -> str:
    """The meaning of a packet, with what is at its address."""
    text = packet_text(packet)
    if packet.type is not PacketType.ADDRESS or packet.index == AddressIndex.DATA_PA:
        return text
    found = name(canonical_address(packet.value))
    return text if found is None else f"{text} <{printable(found)}>"


def _padding(offset: int, size: int) -> Iterator[str]:
    if size:
        yield f"  {offset:08x}  {_padding_text(size)}"


def _padding_text(size: int) -> str:
    shown = "00 " * min(size, _BYTES_A_LINE)
    return _bytes_and_meaning(
        shown.rstrip(), f"{'PADDING':<15}{size} byte{'s' if size > 1 else ''}"
    )


def _bytes_and_meaning(data: str, meaning: str) -> str:
    return f"{data:<{3 * _BYTES_A_LINE}} {meaning}"


def _address(packet: Packet) -> str:
    index, value = packet.index, packet.value
    match index:
        case AddressIndex.PC | AddressIndex.BRANCH_TARGET | AddressIndex.PREVIOUS_BRANCH_TARGET:
            name = AddressIndex(index).name.lower()
            address = InstructionAddress(value)
            state = state_name(address.NS, address.NSE)
            return f"{name} {canonical_address(value):#x} EL{address.EL} {state}"
        case AddressIndex.DATA_VA:
            return f"va {canonical_address(value):#x} tag {DataAddress(value).TAG:#x}"
        case AddressIndex.DATA_PA:
            pa = PhysicalAddress(value)
            return f"pa {pa.PA:#x} {state_name(pa.NS, pa.NSE)} ch {pa.CH} pat {pa.PAT:#x}"
    return f"{index} {value:#x}"


def _data_source(packet: Packet) -> str:
    name = DATA_SOURCES.get(packet.value)
    return f"{packet.value:#x}" + (f" ({name} on Neoverse)" if name else "")


_MEANINGS: dict[PacketType, Callable[[Packet], str]] = {
    PacketType.CONTEXT: lambda p: f"{CONTEXTS[p.index]} {p.value:#x}",
    PacketType.COUNTER: lambda p: f"{COUNTER_NAMES.get(p.index, p.index)} {p.value}",
    PacketType.ADDRESS: _address,
    PacketType.DATA_SOURCE: _data_source,
    PacketType.OPERATION_TYPE: lambda p: operation_name(p.index, p.value),
    PacketType.EVENTS: lambda p: f"{p.value:#x} {' '.join(event_names(p.value))}",
    PacketType.TIMESTAMP: lambda p: str(p.value),
    PacketType.END: lambda p: "",
}
