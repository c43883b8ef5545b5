"""Finds records that stand on a grid, many at once: those of nearly all streams.

Where records are aligned to 64 bytes, each begins in a cell of the stream, is alone in that or goes
on in the next one, and has Padding behind it. Cells are compared with the layouts that are known,
all at once. What is in a cell that none fits, :func:`~spe_unicorn.spe.record.read_record` says, so
that good and bad packets are what they are to the plain reader.
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
_WORDS: Final = CELL // 8
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
    """What all records of a layout have in their one or two cells, in words of 8 bytes."""

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
        if number == known and layout.size <= 2 * CELL and len(self._shapes) < MAX_LAYOUTS:
            self._shapes.append((number, _shape(layout, data, placed.start)))
        return number

    @property
    def known(self) -> int:
        """How many shapes there are."""
        return len(self._shapes)

    def compare(
        self, words: npt.NDArray[np.uint64], numbers: Numbers, rows: Numbers, first: int
    ) -> None:
        """Put the layouts of ``rows`` into ``numbers``, by the shapes from the ``first`` on.

        ``words`` are those of cells, and of the next one if there is one.
        """
        found = numbers[rows] == _NO_RECORD
        rows = rows[found]
        columns = np.ascontiguousarray(words.T)  # of which rows are taken far faster
        for number, shape in self._shapes[first:]:
            fitting = rows
            if len(shape.masks) > _WORDS:
                fitting = rows[rows + 1 < len(words)]
            for place, (mask, value) in enumerate(zip(shape.masks, shape.values, strict=True)):
                if not mask or not len(fitting):
                    continue
                behind, word = divmod(place, _WORDS)
                same = columns[word][fitting + behind] & mask == value
                fitting = fitting[same]
            if shape.operation is not None and len(fitting):
                place, byte = divmod(shape.operation, 8)
                behind, word = divmod(place, _WORDS)
                head = columns[word][fitting + behind] >> np.uint64(8 * byte) & np.uint64(0xFF)
                fitting = fitting[head != _NO_OPERATION]
            if len(fitting):
                numbers[fitting] = number
                rows = rows[numbers[rows] == _NO_RECORD]

    def are_long(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Of cells with these layouts, whether what begins there goes on in the next one."""
        long = [layout.size > CELL for layout in self.layouts]
        return np.array([*long, False])[np.where(numbers < 0, len(long), numbers)]


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
        self._words = np.frombuffer(data, "<u8", whole * _WORDS).reshape(whole, _WORDS)
        self._begin = self._end = 0
        """The cells that were compared."""
        self._numbers = np.zeros(0, np.int64)
        self._missing = np.zeros(0, np.int64)
        self._compared = 0
        """With how many shapes they were; -1 for none, not even with none."""
        self._long = np.zeros(0, bool)
        """In which of them a record may begin that goes on in the next one."""
        self._ends = np.zeros(0, np.int64)
        """Those of the missing ones that are the rest of no record."""

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
        """Read as many cells as can be from ``cell`` on, and return how many.

        A record begins in the first of them, or it is empty.
        """
        if not self._begin <= cell < self._end:
            self._begin, self._end = cell, min(cell + _AT_ONCE, len(self._words))
            self._numbers = np.full(self._end - cell, _NO_RECORD)
            self._numbers[~self._words[cell : self._end].any(axis=1)] = _EMPTY
            self._compared = -1
            self._missing = np.arange(self._end - cell)
        if self._compared < self._reader.known:
            words = self._words[self._begin : self._end + 1]
            rows = self._missing[self._missing >= cell - self._begin]
            self._reader.compare(words, self._numbers, rows, max(0, self._compared))
            self._compared = self._reader.known
            self._missing = rows[self._numbers[rows] == _NO_RECORD]
            self._long = self._reader.are_long(self._numbers)
            before = np.append(False, self._long[:-1])
            self._ends = self._missing[~before[self._missing]]
        at = cell - self._begin
        numbers, until = self._from(at)
        if until > at:
            rows = np.flatnonzero(numbers >= 0)
            self._kinds.append(numbers[rows])
            self._waiting += len(rows)
            starts = (cell + rows) * CELL
            self._starts.append(starts)
            self._where |= int(np.bitwise_or.reduce(starts, keepdims=True)[0]) if len(starts) else 0
        return until - at

    def _from(self, at: int) -> tuple[Numbers, int]:
        """The layouts of cells from ``at`` on, and the cell to read on from.

        That is the first where something else may begin, or the end of all that were compared.
        """
        place = int(np.searchsorted(self._ends, at))
        until = int(self._ends[place]) if place < len(self._ends) else len(self._numbers)
        numbers = self._numbers[at:until]
        long = np.flatnonzero(self._long[at:until])
        if len(long):
            numbers = numbers.copy()
            # Where long records could begin in cells in a row, each other one is a rest.
            starts_row = np.diff(long, prepend=-2) > 1
            places = np.arange(len(long))
            row = np.maximum.accumulate(np.where(starts_row, places, 0))
            rest = long[(places - row) % 2 == 0] + 1
            numbers[rest[rest < len(numbers)]] = _EMPTY
            until = max(until, at + int(rest[-1]) + 1)
        missing = np.flatnonzero(numbers == _NO_RECORD)
        if len(missing):
            until = at + int(missing[0])
        return numbers[: until - at], until


def _shape(layout: Layout, data: Buffer, start: int) -> _Shape:
    size = -(-layout.size // CELL) * CELL
    masks = np.full(size, 0xFF, np.uint8)
    values = np.zeros(size, np.uint8)
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
