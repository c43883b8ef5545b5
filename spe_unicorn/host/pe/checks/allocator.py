"""The tables by which compiled code follows an allocator: its functions, and its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from spe_unicorn.bits import signed
from spe_unicorn.host.native.shadow import heap, marks


class Allocator:
    """An allocator of a board.

    ``functions`` are address, kind, the number of the register with the first argument, and bytes
    of code (0: not known), those that there is room for; without any nothing is followed.
    ``borders`` are addresses at which the program's objects begin and end.
    """

    DERIVED = ("chunks", "row", "_borders", "_functions", "_rows")

    def __init__(
        self, functions: Sequence[tuple[int, int, int, int]], borders: Iterable[int] = ()
    ) -> None:
        known = functions[: heap.FUNCTIONS]
        self.addresses = [signed(address) for address, *_ in known]
        """Of its functions, as compiled code has them."""
        self._functions = np.zeros(heap.FUNCTIONS, heap.FUNCTION)
        for n, (address, kind, argument, size) in enumerate(known):
            self._functions[n] = signed(address), kind, argument, signed(address) + size
        self.chunks = np.zeros(marks.CHUNKS if functions else 0, marks.CHUNK)
        """The table of its blocks."""
        inner = {border for border in borders if 0 < border < 1 << 63}
        self._borders = np.array([-(1 << 63), *sorted(inner), (1 << 63) - 1], np.int64)
        self._rows = np.zeros(1, marks.HEAP_ROW)
        self.row = row = self._rows[0]
        """The HEAP_ROW."""
        if functions:
            row["functions"], row["function_count"] = self._functions.ctypes.data, len(known)
            row["low"], row["high"] = min(self.addresses), max(self.addresses)
            row["chunks"] = self.chunks.ctypes.data
            row["borders"], row["border_count"] = self._borders.ctypes.data, len(self._borders)

    @property
    def rows(self) -> list[tuple[int, int]]:
        """The same, and where their rows are."""
        begin, apart = self._functions.ctypes.data, heap.FUNCTION.itemsize
        return [(address, begin + n * apart) for n, address in enumerate(self.addresses)]

    @property
    def at(self) -> int:
        """Where the HEAP_ROW is."""
        return self._rows.ctypes.data

    @property
    def full(self) -> bool:
        """Whether there were more blocks than are known."""
        return bool(self.row["used"] >= heap.MOST)
