"""Loads from records that are not certain to be in memory yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spe_unicorn.host.native.reads import Load, NoticedLoads
from spe_unicorn.host.run.horizons import Horizon
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_OFFSET: Final = 0xFFF
"""Bits of an address that no translation changes."""
_MOST: Final = 1 << 16
"""The most records that are remembered, the last ones: no guest grows its host."""


@dataclass(frozen=True)
class _WrittenRecord:
    """The record of the ``member``-th member of the population.

    ``ranges`` are the physical addresses of its bytes: each range has a first address and an end.
    """

    member: int
    ranges: tuple[tuple[int, int], ...]


class RecordsOnTheirWay:
    """The records of one unit that a load is not certain to find: no DSB has ordered them yet."""

    def __init__(self, unit: StatisticalProfilingUnit, loads: NoticedLoads) -> None:
        self._unit = unit
        self._loads = loads
        self._records: deque[_WrittenRecord] = deque(maxlen=_MOST)
        """In the order in which they were written."""
        self._span: tuple[int, int] | None = None
        """Physical addresses between which all of them lie; None without records."""
        self.horizon = Horizon(loads.due, loads.remove_hook)
        """Ends a run of the engine while there is no room to note loads."""

    @property
    def pending(self) -> bool:
        """Whether there are any."""
        return bool(self._records)

    def loaded_before(self, executed: int) -> bool:
        """Whether the loads since the last :meth:`loaded` came before ``executed`` operations."""
        return self._loads.earliest < executed

    def recorded(self, record: bytes, member: int) -> None:
        """Remember that the unit has written the record of the ``member``-th member."""
        end = self._unit.buffer.pointer.value
        ranges = []
        address = end - len(record)
        while address < end:
            piece = min(end, (address | _OFFSET) + 1)
            physical = self._unit.physical(address)
            if physical is not None:
                ranges.append((physical, physical + piece - address))
            address = piece
        self._records.append(_WrittenRecord(member, tuple(ranges)))
        self._notice(_span([*ranges, self._span] if self._span else ranges))

    def are_written(self, members: int) -> None:
        """Forget the records of the first ``members`` members: they are in memory for certain."""
        before = len(self._records)
        while self._records and self._records[0].member <= members:
            self._records.popleft()
        if len(self._records) != before:
            self._notice(_span([r for record in self._records for r in record.ranges]))

    def forget(self) -> None:
        """Forget all records."""
        self._records.clear()
        self._notice(None)

    def loaded(self, written: int) -> Iterator[tuple[Load, str]]:
        """Each load from one of them since the last call, with a sentence about it.

        ``written`` is the number of members whose records are in memory for certain.
        """
        for load in self._loads.take():
            end = load.address + load.size
            for record in self._records:
                if any(begin < end and load.address < last for begin, last in record.ranges):
                    yield (
                        load,
                        f"a load from physical address {load.address:#x}, in the record of"
                        f" profiled operation {record.member}; synchronized are {written}",
                    )
                    break

    def _notice(self, span: tuple[int, int] | None) -> None:
        if span != self._span:
            self._span = span
            self._loads.notice([] if span is None else [span])


def _span(ranges: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The first address and the end of several ranges together; None for no range."""
    if not ranges:
        return None
    return min(begin for begin, _ in ranges), max(end for _, end in ranges)
