"""Loads from records that are not certain to be in memory yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spe_unicorn.host.native.reads import Load, NoticedLoads
from spe_unicorn.host.run.horizons import Horizon
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_OFFSET: Final = 0xFFF
"""Bits of an address that no translation changes."""


@dataclass(frozen=True)
class _WrittenRecord:
    """A record of the ``member``-th member, and the bytes of it: ranges of physical addresses."""

    member: int
    ranges: tuple[tuple[int, int], ...]


class RecordsOnTheirWay:
    """The records of one unit that a load is not certain to find, oldest first."""

    def __init__(self, unit: StatisticalProfilingUnit, loads: NoticedLoads) -> None:
        self._unit = unit
        self._loads = loads
        self._records: deque[_WrittenRecord] = deque()
        self.horizon = Horizon(loads.due, loads.rest)
        """Ends a run of the engine while there is no room to note loads."""

    @property
    def pending(self) -> bool:
        """Whether there are any."""
        return bool(self._records)

    def recorded(self, record: bytes, member: int) -> None:
        """The unit has written the record of the ``member``-th member of the population."""
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
        self._look_out()

    def are_written(self, members: int) -> None:
        """Those of the first so many members are in memory for certain now."""
        while self._records and self._records[0].member <= members:
            self._records.popleft()
        self._look_out()

    def forget(self) -> None:
        """Nothing that came before matters any more."""
        self._records.clear()
        self._look_out()

    def loaded(self, written: int) -> Iterator[tuple[Load, str]]:
        """Each load from them since this was last asked, with what there is to say of it.

        ``written``: of so many members the records are in memory.
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

    def _look_out(self) -> None:
        self._loads.look_out([r for record in self._records for r in record.ranges])
