"""Loads from records that are not certain to be in memory yet."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spe_unicorn.host.native.reads import Load, NoticedLoads
from spe_unicorn.host.run.horizons import Horizon
from spe_unicorn.spe.record import PlacedRecord, decode_stream
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_OFFSET: Final = 0xFFF
"""Bits of an address that no translation changes."""
_MOST: Final = 1 << 16
"""The most records that are remembered, the last ones: no guest grows its host."""


class _Piece(NamedTuple):
    """Where bytes of records lie in physical memory, and which of the bytes ``begin`` is."""

    begin: int
    end: int
    offset: int


@dataclass
class _Written:
    """Records that were written together: their bytes, the members whose they are, and when.

    ``after`` is how many operations had been executed when each was sampled.
    """

    data: bytes
    members: Sequence[int]
    after: Sequence[int]
    pieces: Sequence[_Piece]
    gone: int = 0
    """How many of the first are in memory for certain, or are not remembered."""
    _begins: list[int] = field(default_factory=list)

    def member(self, load: Load) -> int | None:
        """The member in whose record a load was made; None if in none that is on its way."""
        for piece in self.pieces:
            begin, end = max(load.address, piece.begin), min(load.address + load.size, piece.end)
            if begin < end:
                moved = piece.offset - piece.begin
                for number in self._records(begin + moved, end + moved):
                    if number >= self.gone and self.after[number] <= load.executed:
                        return self.members[number]
        return None

    def _records(self, begin: int, end: int) -> range:
        """The numbers of the records that have bytes from ``begin`` to ``end``."""
        if not self._begins:
            self._begins = [0]
            if len(self.members) > 1:
                placed = decode_stream(self.data)
                self._begins = [p.start for p in placed if isinstance(p, PlacedRecord)]
        first = bisect_right(self._begins, begin) - 1
        return range(first, bisect_right(self._begins, end - 1))


class RecordsOnTheirWay:
    """The records of one unit that a load is not certain to find: no DSB has ordered them yet.

    ``look`` is called where many loads were noted since :meth:`loaded`.
    """

    def __init__(
        self, unit: StatisticalProfilingUnit, loads: NoticedLoads, look: Callable[[], None]
    ) -> None:
        self._unit = unit
        self._loads = loads
        self._records: deque[_Written] = deque()
        """In the order in which they were written."""
        self._count = 0
        """How many there are that are on their way."""
        self._ranges: list[tuple[int, int]] = []
        """Physical addresses of all of them."""
        self._expected: Sequence[tuple[int, int]] = ()
        """Physical addresses of those that the present run may add."""
        self.horizon = Horizon(loads.due, self._arrive)
        """Ends a run of the engine where there are many loads to look at."""
        self._look = look

    @property
    def pending(self) -> bool:
        """Whether there are any."""
        return bool(self._records)

    def loaded_before(self, executed: int) -> bool:
        """Whether the loads since the last :meth:`loaded` came before ``executed`` operations."""
        return self._loads.earliest < executed

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        """More records may be written to these physical addresses before :meth:`made` tells."""
        if ranges != self._expected:
            self._expected = ranges
            self._notice()

    def made(self, data: bytes, members: Sequence[int], after: Sequence[int]) -> None:
        """Remember records that the unit has written up to its pointer: whose, and when."""
        address = self._unit.buffer.pointer.value - len(data)
        pieces, offset = [], 0
        while offset < len(data):
            size = min(len(data) - offset, _OFFSET + 1 - (address + offset & _OFFSET))
            physical = self._unit.physical(address + offset)
            if physical is not None:
                pieces.append(_Piece(physical, physical + size, offset))
            offset += size
        self._records.append(_Written(data, members, after, pieces))
        self._count += len(members)
        if self._count > _MOST:
            self._forget_first(self._count - _MOST)
        for piece in pieces:
            _extend(self._ranges, piece.begin, piece.end)
        self._notice()

    def _forget_first(self, records: int) -> None:
        """The first ``records`` of them are on their way no longer, or not remembered."""
        self._count -= records
        while records:
            first = self._records[0]
            left = len(first.members) - first.gone
            if left > records:
                first.gone += records
                return
            records -= left
            self._records.popleft()

    def are_written(self, members: int) -> None:
        """Forget the records of the first ``members`` members: they are in memory for certain."""
        before = self._count
        while self._records:
            first = self._records[0]
            written = bisect_right(first.members, members, first.gone) - first.gone
            if not written:
                break
            self._forget_first(written)
        if self._count != before:
            self._ranges = []
            for records in self._records:
                for piece in records.pieces:
                    _extend(self._ranges, piece.begin, piece.end)
            self._expected = ()
            self._notice()

    def forget(self) -> None:
        """Forget all records."""
        self._records.clear()
        self._count = 0
        self._ranges, self._expected = [], ()
        self._notice()

    def loaded(self, written: int) -> Iterator[tuple[Load, str]]:
        """Each load from one of them since the last call, with a sentence about it.

        ``written`` is the number of members whose records are in memory for certain.
        """
        for load in self._loads.take():
            for records in self._records:
                member = records.member(load)
                if member is not None:
                    yield (
                        load,
                        f"a load from physical address {load.address:#x}, in the record of"
                        f" profiled operation {member}; synchronized are {written}",
                    )
                    break

    def _arrive(self) -> None:
        """There are many loads to look at, or the hook has had nothing to do for long."""
        if self._loads.many:
            self._look()
        else:
            self._loads.remove_hook()

    def _notice(self) -> None:
        ranges = list(self._ranges)
        for begin, end in self._expected:
            _extend(ranges, begin, end)
        self._loads.notice(ranges)


def _extend(ranges: list[tuple[int, int]], begin: int, end: int) -> None:
    """Add a range to others. One that begins where the last one ends, or within it, extends it."""
    if ranges and ranges[-1][0] <= begin <= ranges[-1][1]:
        ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
    else:
        ranges.append((begin, end))
