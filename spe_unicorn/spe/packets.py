"""Packets of a sample record: headers, payloads and their fields, both directions.

Arm ARM D18. A packet is a header byte and a little-endian payload of 0, 1, 2, 4 or 8 bytes.
Addresses and counters with an index above 7 have a second header byte (extended header).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from spe_unicorn.bits import Field, Register, Res0

Buffer = bytes | bytearray | memoryview


class PacketType(IntEnum):
    """The packets of Format 0, numbered in the order in which a record holds them."""

    CONTEXT = 0
    COUNTER = 1
    ADDRESS = 2
    DATA_SOURCE = 3
    OPERATION_TYPE = 4
    EVENTS = 5
    TIMESTAMP = 6
    END = 7
    PADDING = 8


class AddressIndex(IntEnum):
    """Index of an Address packet; 6, 7 and 16 to 31 are IMPLEMENTATION DEFINED."""

    PC = 0
    BRANCH_TARGET = 1
    DATA_VA = 2
    DATA_PA = 3
    PREVIOUS_BRANCH_TARGET = 4


class CounterIndex(IntEnum):
    """Index of a Counter packet; 6, 7 and 16 to 31 are IMPLEMENTATION DEFINED."""

    TOTAL = 0
    ISSUE = 1
    TRANSLATION = 2
    ALTERNATE_ISSUE = 4


COUNTER_NAMES: Final[Mapping[int, str]] = {int(each): each.name.lower() for each in CounterIndex}
"""How users read counters: ``total``, ``issue`` and so on, by index."""


class ContextIndex(IntEnum):
    """Index of a Context packet: which CONTEXTIDR it holds."""

    CONTEXTIDR_EL1 = 0
    CONTEXTIDR_EL2 = 1


class OperationClass(IntEnum):
    """Class of an Operation Type packet, the low bits of its header."""

    OTHER = 0
    LOAD_STORE = 1
    BRANCH = 2


class Event(IntFlag):
    """Bits of the Events packet (D18.2.6)."""

    EXCEPTION = 1 << 0
    """Completed with a synchronous exception."""
    RETIRED = 1 << 1
    """Architecturally retired."""
    L1D_ACCESS = 1 << 2
    L1D_MISS = 1 << 3
    """Level 1 data cache refill before SPEv1p4, miss from SPEv1p4 on."""
    TLB_ACCESS = 1 << 4
    TLB_WALK = 1 << 5
    NOT_TAKEN = 1 << 6
    """A conditional operation whose condition failed."""
    MISPREDICTED = 1 << 7
    """A branch that corrected the predicted program flow."""
    LLC_ACCESS = 1 << 8
    LLC_MISS = 1 << 9
    REMOTE_ACCESS = 1 << 10
    """Access to another socket."""
    MISALIGNED = 1 << 11
    """Extra latency because of the alignment."""
    SVE_PARTIAL = 1 << 17
    """At least one governing predicate element is false."""
    SVE_EMPTY = 1 << 18
    """Every governing predicate element is false."""
    L2D_ACCESS = 1 << 19
    L2D_MISS = 1 << 20
    MODIFIED_HIT = 1 << 21
    """The load hit modified data."""
    RECENTLY_FETCHED = 1 << 22
    """The load hit a line that was fetched recently."""
    SNOOPED = 1 << 23
    """The load snooped data from outside this PE's hierarchy."""
    STREAMING = 1 << 24
    """Executed in Streaming SVE mode."""
    SMCU = 1 << 25
    """Executed on an SMCU or another external coprocessor."""


VA_MASK = (1 << 56) - 1
"""The bits of an address that an Address packet holds."""


class InstructionAddress(Register):
    """Payload of the PC, branch target and previous branch target packets."""

    NS = Field(63, doc="With NSE, the Security state: 0b00 Secure, 0b01 Non-secure, 0b11 Realm.")
    EL = Field(62, 61, doc="Exception level.")
    NSE = Field(60)
    RES0 = Res0(59, 56)
    VA = Field(55, 0)


class DataAddress(Register):
    """Payload of the Data VA packet."""

    TAG = Field(63, 56, doc="Tag if address tagging applies, else VA[63:56] or zero.")
    VA = Field(55, 0)


class PhysicalAddress(Register):
    """Payload of the Data PA packet."""

    NS = Field(63, doc="With NSE, the physical address space, as in InstructionAddress.")
    CH = Field(62, doc="The access was checked against an Allocation Tag.")
    RES0 = Res0(61)
    NSE = Field(60)
    PAT = Field(59, 56, doc="Logical Address Tag of a checked access.")
    PA = Field(55, 0)


def canonical_address(payload: int) -> int:
    """The 64-bit virtual address of a payload: bit 55 says what the top byte was, tags aside."""
    return payload & VA_MASK | (0xFF << 56 if payload >> 55 & 1 else 0)


def saturated(cycles: int, count_size: int) -> int:
    """``cycles`` as a Counter packet holds them under PMSIDR_EL1.CountSize (2 or 3)."""
    return min(cycles, 0xFFF if count_size == 2 else 0xFFFF)


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet: ``index`` is also an Operation Type's class, ``size`` counts payload bytes."""

    type: PacketType
    index: int
    value: int
    size: int

    def encode(self) -> bytes:
        """The packet's bytes.

        Raises ValueError for an index or a payload size that the packet does not have, and for a
        value that does not fit.
        """
        if self.value >> 8 * self.size:  # negative values stay negative, so they are caught too
            raise ValueError(
                f"{self.type.name} packet takes {self.size} bytes, got {self.value:#x}"
            )
        return header(self.type, self.index, self.size) + self.value.to_bytes(self.size, "little")


@dataclass(frozen=True, slots=True)
class BadPacket:
    """Bytes at ``offset`` that are no packet; ``reason`` is half a sentence."""

    offset: int
    data: bytes
    reason: str


_EXTENDED_INDEXES = 32
_BASE_AND_SIZE = {
    # header at index 0, how many indexes there are, payload sizes
    PacketType.PADDING: (0x00, 1, (0,)),
    PacketType.END: (0x01, 1, (0,)),
    PacketType.EVENTS: (0x42, 1, (1, 2, 4, 8)),
    PacketType.DATA_SOURCE: (0x43, 1, (1, 2)),
    PacketType.OPERATION_TYPE: (0x48, 3, (1,)),
    PacketType.CONTEXT: (0x64, 2, (4,)),
    PacketType.TIMESTAMP: (0x71, 1, (8,)),
    PacketType.COUNTER: (0x98, _EXTENDED_INDEXES, (2,)),
    PacketType.ADDRESS: (0xB0, _EXTENDED_INDEXES, (8,)),
}
_SIZED = (PacketType.EVENTS, PacketType.DATA_SOURCE)  # SZ in the header varies


def header(kind: PacketType, index: int = 0, size: int | None = None) -> bytes:
    """The one or two header bytes of a packet; ``size`` may be left out where only one exists.

    Raises ValueError for an index or a payload size that the packet does not have.
    """
    base, indexes, sizes = _BASE_AND_SIZE[kind]
    if not 0 <= index < indexes:
        raise ValueError(f"{kind.name} packet has indexes 0 to {indexes - 1}, got {index}")
    if size is None:
        size = sizes[0]
    if size not in sizes:
        allowed = ", ".join(map(str, sizes))
        raise ValueError(f"{kind.name} packet has a payload of {allowed} bytes, got {size}")
    if kind in _SIZED:
        return bytes((base | (size.bit_length() - 1) << 4,))
    if index > 7:
        return bytes((0x20 | index >> 3, base | index & 7))
    return bytes((base | index,))


def payload_size(header_byte: int) -> int:
    """Payload bytes after a header byte, also one without a meaning (D18.1).

    For an extended header the byte that counts is the second one.
    """
    return 1 << (header_byte >> 4 & 3) if header_byte >= 0x40 else 0


_Meaning = tuple[PacketType, int, int]


def _meanings() -> dict[int, _Meaning]:
    """What each header means. Extended headers are keyed by both bytes, little-endian."""
    result: dict[int, _Meaning] = {}
    for kind, (_, indexes, sizes) in _BASE_AND_SIZE.items():
        for index in range(indexes):
            for size in sizes:
                key = int.from_bytes(header(kind, index, size), "little")
                result[key] = (kind, index, size)
            if indexes == _EXTENDED_INDEXES and index < 8:
                # The long form of a short header is read as well; nobody writes it.
                result[0x20 | key << 8] = (kind, index, size)
    return result


_MEANINGS = _meanings()


def is_extended(header_byte: int) -> bool:
    """Whether a second header byte follows. 0x24 to 0x3F have no meaning yet."""
    return 0x20 <= header_byte < 0x40


def read_packet(data: Buffer, offset: int) -> tuple[Packet, int] | BadPacket:
    """The packet at ``offset`` and the offset after it. Raises IndexError at the end of data."""
    key = data[offset]
    start = offset + 1
    if is_extended(key):
        if start == len(data):
            return _truncated(data, offset)
        key |= data[start] << 8
        start += 1
    meaning = _MEANINGS.get(key)
    if meaning is None:
        name = bytes(data[offset:start]).hex(" ")
        return BadPacket(offset, bytes(data[offset:start]), f"unknown packet header {name}")
    kind, index, size = meaning
    end = start + size
    if end > len(data):
        return _truncated(data, offset)
    return Packet(kind, index, int.from_bytes(data[start:end], "little"), size), end


def _truncated(data: Buffer, offset: int) -> BadPacket:
    return BadPacket(offset, bytes(data[offset:]), "the data ends inside the packet")


def skip_packet(data: Buffer, offset: int) -> int:
    """The offset after whatever packet is at ``offset``, known or not, by the rule for sizes."""
    first = data[offset]
    if not is_extended(first):
        return offset + 1 + payload_size(first)
    second = data[offset + 1] if offset + 1 < len(data) else 0
    return offset + 2 + payload_size(second)
