"""The last records of each PE, for a debugger that asks while the machine stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.machine.board import Board
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream

_KEPT: Final = 1 << 18
"""Bytes of records that are kept of each PE, not counting the oldest batch."""


class RecentRecords:
    """Keeps whole batches of records as they are written; :meth:`close` ends that."""

    def __init__(self, board: Board) -> None:
        self._batches: list[list[bytes]] = [[] for _ in board.pes]
        self._sizes = [0] * len(board.pes)
        self._ends = [
            pe.unit.streamed.connect(self._adder(number)) for number, pe in enumerate(board.pes)
        ]

    def _adder(self, number: int) -> Callable[[bytes], None]:
        batches = self._batches[number]

        def add(data: bytes) -> None:
            batches.append(data)
            self._sizes[number] += len(data)
            while self._sizes[number] - len(batches[0]) > _KEPT:
                self._sizes[number] -= len(batches.pop(0))

        return add

    def last(self, pe: int, count: int) -> list[Record]:
        """The last ``count`` records of a PE, or as many as are kept."""
        found = decode_stream(b"".join(self._batches[pe]))
        records = [item.record for item in found if isinstance(item, PlacedRecord)]
        return records[-count:] if count else []

    def close(self) -> None:
        """Keep no more."""
        for end in self._ends:
            end()
