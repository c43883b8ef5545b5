"""Finds records in a stream without decoding each packet: as :func:`decode_stream`, but fast.

Most records of a stream have one of a few layouts: the same packets in the same order. A layout
that :func:`read_record` has met becomes part of a regular expression, and Python's engine for
these then finds a record in half a microsecond. Where no known layout fits, read_record decides,
so that good and bad packets are what they are to the plain reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from spe_unicorn.spe.packets import BadPacket, Buffer, PacketType, header, is_extended
from spe_unicorn.spe.record import PlacedRecord, read_record, resume_offset

MAX_LAYOUTS = 64
"""Layouts in the regular expression; records of others are read one by one."""
_REMEMBERED = 1024
"""Layouts that are told apart; a file of noise has more."""

_OPERATION_TYPES = b"[" + b"".join(header(PacketType.OPERATION_TYPE, i) for i in range(3)) + b"]"


class Field(NamedTuple):
    """A packet of a layout: its header at ``offset`` of the record, its payload after that.

    ``number`` is the index of a :class:`~spe_unicorn.spe.packets.Packet`, but 0 for an Operation
    Type, whose class changes from record to record. Sizes are in bytes.
    """

    offset: int
    kind: PacketType
    number: int
    header_size: int
    size: int

    @property
    def payload(self) -> int:
        """Offset of the payload in the record."""
        return self.offset + self.header_size

    @property
    def end(self) -> int:
        """Offset after the payload."""
        return self.payload + self.size


class Layout:
    """The packets of a record and their places. Layouts are compared by identity."""

    __slots__ = ("fields", "is_padded_inside", "pattern", "size", "spans", "timestamp")

    def __init__(self, data: Buffer, placed: PlacedRecord) -> None:
        """The layout of a record in ``data``."""
        self.size = placed.end - placed.start
        """Bytes of the record, padding after it not counted."""
        self.fields = _fields(data, placed)
        """Padding left out."""
        self.spans = tuple((f.offset, f.end, f.kind is PacketType.TIMESTAMP) for f in self.fields)
        """Of each packet the offset, that of the next byte, and whether it is a timestamp."""
        self.is_padded_inside = sum(f.end - f.offset for f in self.fields) < self.size
        """Whether Padding packets stand between its packets."""
        self.timestamp = next(
            (f.payload for f in self.fields if f.kind is PacketType.TIMESTAMP), None
        )
        """Offset of the 8 bytes of its timestamp, if it has one."""
        self.pattern = self._pattern(data, placed.start)
        """Regular expression for records of this layout."""

    def _pattern(self, data: Buffer, start: int) -> bytes:
        pattern = b""
        behind = 0
        for field in self.fields:
            pattern += rb"\0" * (field.offset - behind)
            if field.kind is PacketType.OPERATION_TYPE:
                pattern += _OPERATION_TYPES
            else:
                pattern += re.escape(bytes(data[start + field.offset : start + field.payload]))
            if field.size:
                pattern += b".{%d}" % field.size
            behind = field.end
        return pattern


def _fields(data: Buffer, placed: PlacedRecord) -> tuple[Field, ...]:
    fields = []
    for offset, packet in placed.packets:
        size = 2 if is_extended(data[offset]) else 1
        index = 0 if packet.type is PacketType.OPERATION_TYPE else packet.index
        fields.append(Field(offset - placed.start, packet.type, index, size, packet.size))
    return tuple(fields)


Found = tuple[Layout, int, int]
"""A record: its layout, where it starts, and where the padding after it ends."""


class Scanner:
    """Finds the records of streams; what it learns from one helps with the next."""

    def __init__(self) -> None:
        self._layouts: dict[bytes, Layout] = {}
        self._compiled: list[Layout] = []
        self._pattern: re.Pattern[bytes] | None = None
        self._missed = 0

    def scan(self, data: Buffer) -> Iterator[Found | BadPacket]:
        """What :func:`~spe_unicorn.spe.record.decode_stream` finds, in the same order."""
        offset = _skip_zeros(data, 0)
        starts = 0
        end = len(data)
        while offset < end:
            if self._pattern is not None:
                compiled = self._compiled
                unknown = len(compiled) + 1
                for match in self._pattern.finditer(data, offset):
                    number = match.lastindex or 0  # every match has one
                    start, behind = match.span()
                    if number == unknown:
                        offset = start
                        break
                    starts |= start
                    yield compiled[number - 1], start, behind
                else:
                    return
            found = read_record(data, offset)
            starts |= offset
            if isinstance(found, PlacedRecord):
                behind = _skip_zeros(data, found.end)
                yield self.layout(data, found), offset, behind
                offset = behind
            else:
                yield found
                offset = _skip_zeros(data, resume_offset(data, found.offset, starts))

    def layout(self, data: Buffer, placed: PlacedRecord) -> Layout:
        """The layout of a record that the regular expression did not know."""
        layout = Layout(data, placed)
        if len(self._layouts) == _REMEMBERED:
            return self._layouts.get(layout.pattern, layout)
        layout = self._layouts.setdefault(layout.pattern, layout)
        self._missed += 1
        if self._missed > len(self._compiled) < MAX_LAYOUTS:
            self._missed = 0
            self._compile()
        return layout

    def _compile(self) -> None:
        """Let the regular expression know all layouts so far, as many as it takes.

        It ends with any byte, which stands for a layout that it does not know.
        """
        self._compiled = list(self._layouts.values())[:MAX_LAYOUTS]
        alternatives = b"|".join(b"(" + layout.pattern + b")" for layout in self._compiled)
        self._pattern = re.compile(b"(?:" + alternatives + rb"|(.))\0*", re.DOTALL)


def placed_at(data: Buffer, start: int) -> PlacedRecord:
    """The record that :meth:`Scanner.scan` found at ``start``, packet by packet."""
    placed = read_record(data, start)
    if isinstance(placed, BadPacket):
        raise ValueError(f"no record starts at {start:#x}: {placed.reason}")
    return placed


def _skip_zeros(data: Buffer, offset: int) -> int:
    end = len(data)
    while offset < end and not data[offset]:
        offset += 1
    return offset
