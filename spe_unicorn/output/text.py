"""Records as text for people: one block a record, one line a packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spe_unicorn.output.names import (
    CONTEXTS,
    COUNTERS,
    DATA_SOURCES,
    event_names,
    operation_name,
    state_name,
)
from spe_unicorn.spe.packets import (
    AddressIndex,
    Buffer,
    DataAddress,
    InstructionAddress,
    Packet,
    PacketType,
    PhysicalAddress,
    canonical_address,
    is_extended,
)
from spe_unicorn.spe.record import PlacedRecord

_BYTES_A_LINE = 10
"""No packet has more: two header bytes and eight of payload."""


def record_text(
    data: Buffer, placed: PlacedRecord, number: int, cpu: int = 0, base: int = 0
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
        lines.append(_line(base + offset, data[offset:behind].hex(" "), packet_text(packet)))
    end = placed.end
    while end < len(data) and not data[end]:
        end += 1
    lines += _padding(base + placed.end, end - placed.end)
    return "\n".join(lines) + "\n"


def packet_size(packet: Packet, first: int) -> int:
    """Bytes of a packet in a stream, of which ``first`` is the first one."""
    return (2 if is_extended(first) else 1) + packet.size


def packet_text(packet: Packet) -> str:
    """The meaning of one packet."""
    return f"{packet.type.name:<15}{_MEANINGS[packet.type](packet)}".rstrip()


def _padding(offset: int, size: int) -> Iterator[str]:
    if size:
        shown = "00 " * min(size, _BYTES_A_LINE)
        yield _line(offset, shown.rstrip(), f"{'PADDING':<15}{size} byte{'s' if size > 1 else ''}")


def _line(offset: int, data: str, meaning: str) -> str:
    return f"  {offset:08x}  {data:<{3 * _BYTES_A_LINE}} {meaning}"


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
    PacketType.COUNTER: lambda p: f"{COUNTERS.get(p.index, p.index)} {p.value}",
    PacketType.ADDRESS: _address,
    PacketType.DATA_SOURCE: _data_source,
    PacketType.OPERATION_TYPE: lambda p: operation_name(p.index, p.value),
    PacketType.EVENTS: lambda p: f"{p.value:#x} {' '.join(event_names(p.value))}",
    PacketType.TIMESTAMP: lambda p: str(p.value),
    PacketType.END: lambda p: "",
}
