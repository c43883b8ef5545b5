"""Finds records that stand on a grid, many at once: those of nearly all streams.

Where records are aligned to 64 bytes, and as long at most, each is alone in a cell of the stream,
with Padding behind it. Cells are compared with the layouts that are known, all at once. What is in
a cell that none fits, :func:`~spe_unicorn.spe.record.read_record` says, so that good and bad
packets are what they are to the plain reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.scan import MAX_LAYOUTS, Layout, Scanner
from spe_unicorn.spe.packets import BadPacket, Buffer, PacketType
from spe_unicorn.spe.record import PlacedRecord, read_record, resume_offset

CELL: Final = 64
"""Bytes of a cell."""
MOST: Final = 1 << 17
"""Records, or bad packets, that are given at once; those of a stretch of cells are together."""
_AT_ONCE: Final = 1 << 14
"""Cells that are compared at once."""
_PROBED: Final = 64
"""Records of a stream by which it is told whether it is on the grid."""
_NO_RECORD: Final = -1
_EMPTY: Final = -2
_OPERATION: Final = 0x48
_NO_OPERATION: Final = 0x4B

Numbers = npt.NDArray[np.int64]


class Read(NamedTuple):
    """The records of a stream: the number of the layout of each, and where it starts."""

    kinds: Numbers
    starts: Numbers
    bad: list[BadPacket]


class _Shape(NamedTuple):
    """What all records of a layout have in their cell, in words of 8 bytes."""

    masks: npt.NDArray[np.uint64]
    values: npt.NDArray[np.uint64]
    operation: int | None
    """The offset of the header of an Operation Type packet."""


class GridReader:
    """Reads streams; what it learns from one helps with the next."""

    def __init__(self) -> None:
        self.layouts: list[Layout] = []
        """Those of all records so far, by number."""
        self._numbers: dict[Layout, int] = {}
        self._shapes: list[tuple[int, _Shape]] = []
        self._scanner = Scanner()

    def read(self, data: Buffer) -> Iterator[Read]:
        """The records of a stream, as :meth:`Scanner.scan` finds them, some at a time."""
        if self._is_on_grid(data):
            return _Reading(self, data).all()
        return self._scanned(data)

    def _is_on_grid(self, data: Buffer) -> bool:
        """Whether the first records of a stream all stand at the beginnings of cells."""
        first = list(islice(self._scanner.scan(data), _PROBED))
        return bool(first) and all(
            not isinstance(found, BadPacket) and found[1] % CELL == 0 for found in first
        )

    def _scanned(self, data: Buffer) -> Iterator[Read]:
        scanned = self._scanner.scan(data)
        while some := list(islice(scanned, MOST)):
            kinds: list[int] = []
            starts: list[int] = []
            bad: list[BadPacket] = []
            for found in some:
                if isinstance(found, BadPacket):
                    bad.append(found)
                else:
                    layout, start, _ = found
                    kinds.append(self.number(layout))
                    starts.append(start)
            yield Read(np.array(kinds, np.int64), np.array(starts, np.int64), bad)

    def number(self, layout: Layout) -> int:
        """The number of a layout."""
        number = self._numbers.get(layout)
        if number is None:
            number = self._numbers[layout] = len(self.layouts)
            self.layouts.append(layout)
        return number

    def learn(self, data: Buffer, placed: PlacedRecord) -> int:
        """The number of the layout of a record that no shape fitted."""
        known = len(self.layouts)
        number = self.number(self._scanner.layout(data, placed))
        layout = self.layouts[number]
        if number == known and layout.size <= CELL and len(self._shapes) < MAX_LAYOUTS:
            self._shapes.append((number, _shape(layout, data, placed.start)))
        return number

    @property
    def known(self) -> int:
        """How many shapes there are."""
        return len(self._shapes)

    def compare(
        self, words: npt.NDArray[np.uint64], numbers: Numbers, rows: Numbers, first: int
    ) -> None:
        """Put the layouts of ``rows`` into ``numbers``, by the shapes from the ``first`` on."""
        found = numbers[rows] == _NO_RECORD
        rows = rows[found]
        columns = np.ascontiguousarray(words.T)  # of which rows are taken far faster
        for number, shape in self._shapes[first:]:
            fitting = rows
            for word in range(CELL // 8):
                if not shape.masks[word] or not len(fitting):
                    continue
                same = columns[word][fitting] & shape.masks[word] == shape.values[word]
                fitting = fitting[same]
            if shape.operation is not None and len(fitting):
                word, byte = divmod(shape.operation, 8)
                head = columns[word][fitting] >> np.uint64(8 * byte) & np.uint64(0xFF)
                fitting = fitting[head != _NO_OPERATION]
            if len(fitting):
                numbers[fitting] = number
                rows = rows[numbers[rows] == _NO_RECORD]


class _Reading:
    """The reading of one stream."""

    def __init__(self, reader: GridReader, data: Buffer) -> None:
        self._reader = reader
        self._data = data
        self._kinds: list[Numbers] = []
        self._starts: list[Numbers] = []
        self._bad: list[BadPacket] = []
        self._waiting = 0
        """Records and bad packets that were found and not given yet."""
        self._where = 0
        """The bits of all offsets at which records have started."""
        whole = len(data) // CELL
        self._words = np.frombuffer(data, "<u8", whole * (CELL // 8)).reshape(whole, CELL // 8)
        self._begin = self._end = 0
        """The cells that were compared."""
        self._numbers = np.zeros(0, np.int64)
        self._missing = np.zeros(0, np.int64)
        self._compared = 0
        """With how many shapes they were."""

    def all(self) -> Iterator[Read]:
        """Read all of it."""
        data, end = self._data, len(self._data)
        offset = 0
        while offset < end:
            if self._waiting >= MOST:
                yield self._found()
            if offset % CELL == 0 and offset // CELL < len(self._words):
                cells = self._cells(offset // CELL)
                if cells:
                    offset += cells * CELL
                    continue
            while offset < end and not data[offset]:
                offset += 1
            if offset == end:
                break
            found = read_record(data, offset)
            self._where |= offset
            self._waiting += 1
            if isinstance(found, PlacedRecord):
                self._kinds.append(np.array([self._reader.learn(data, found)], np.int64))
                self._starts.append(np.array([offset], np.int64))
                offset = found.end
                while offset < end and not data[offset] and offset % CELL:
                    offset += 1
            else:
                self._bad.append(found)
                offset = resume_offset(data, found.offset, self._where)
        yield self._found()

    def _found(self) -> Read:
        """What was found since this was asked."""
        nothing = np.zeros(0, np.int64)
        kinds = np.concatenate([nothing, *self._kinds])
        found = Read(kinds, np.concatenate([nothing, *self._starts]), self._bad)
        self._kinds, self._starts, self._bad, self._waiting = [], [], [], 0
        return found

    def _cells(self, cell: int) -> int:
        """Read as many cells as can be from ``cell`` on, and return how many."""
        if not self._begin <= cell < self._end:
            self._begin, self._end = cell, min(cell + _AT_ONCE, len(self._words))
            self._numbers = np.full(self._end - cell, _NO_RECORD)
            self._numbers[~self._words[cell : self._end].any(axis=1)] = _EMPTY
            self._compared = 0
            self._missing = np.arange(self._end - cell)
        if self._compared < self._reader.known:
            words = self._words[self._begin : self._end]
            rows = self._missing[self._missing >= cell - self._begin]
            self._reader.compare(words, self._numbers, rows, self._compared)
            self._compared = self._reader.known
            self._missing = rows[self._numbers[rows] == _NO_RECORD]
        at = cell - self._begin
        place = int(np.searchsorted(self._missing, at))
        until = int(self._missing[place]) if place < len(self._missing) else len(self._numbers)
        if until > at:
            rows = np.flatnonzero(self._numbers[at:until] >= 0)
            self._kinds.append(self._numbers[at:until][rows])
            self._waiting += len(rows)
            starts = (cell + rows) * CELL
            self._starts.append(starts)
            self._where |= int(np.bitwise_or.reduce(starts, keepdims=True)[0]) if len(starts) else 0
        return until - at


def _shape(layout: Layout, data: Buffer, start: int) -> _Shape:
    masks = np.full(CELL, 0xFF, np.uint8)
    values = np.zeros(CELL, np.uint8)
    operation = None
    for packet in layout.fields:
        masks[packet.payload : packet.end] = 0
        heads = range(packet.offset, packet.payload)
        values[heads.start : heads.stop] = np.frombuffer(
            bytes(data[start + heads.start : start + heads.stop]), np.uint8
        )
        if packet.kind is PacketType.OPERATION_TYPE:
            operation = packet.offset
            masks[operation], values[operation] = 0xFC, _OPERATION
    return _Shape(masks.view("<u8"), values.view("<u8"), operation)
