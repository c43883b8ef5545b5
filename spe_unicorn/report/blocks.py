"""Blocks of memory that a program got from its allocator: which of them a data address was in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array
from spe_unicorn.output.perf_format import BLOCK, GIVEN_BACK

_NEVER = np.uint64((1 << 64) - 1)
_ROW = np.dtype([(name, "<u8") for name in ("ticks", "address", "size", "place", "cpu")])
_BELOW = 64
"""Different addresses of blocks below a data address that are looked at."""


class Blocks:
    """The blocks that a file tells of, each from when the program got it until it gave it back."""

    def __init__(self, data: bytes) -> None:
        rows = np.frombuffer(data, _ROW, len(data) // BLOCK.size)
        # Those of one address follow each other in the order of the file.
        order = np.argsort(rows["address"], kind="stable")
        rows = rows[order]
        got = np.flatnonzero(rows["size"] != GIVEN_BACK)
        end = np.full(len(rows), _NEVER)
        if len(rows):
            same = rows["address"][1:] == rows["address"][:-1]
            end[:-1][same] = rows["ticks"][1:][same]
        self.address: Array = rows["address"][got]
        self.size: Array = rows["size"][got]
        self.place: Array = rows["place"][got]
        """To where the call returned that got it."""
        self._begin: Array = rows["ticks"][got]
        self._end: Array = end[got]
        self._starts, self._first = np.unique(self.address, return_index=True)

    def __len__(self) -> int:
        return len(self.address)

    def at(self, addresses: Array, ticks: Array) -> npt.NDArray[np.int64]:
        """The number of the block that each address is in at a time, -1 for none.

        A time after all others (all bits set) stands for one that is not known: it is in the last
        block there.
        """
        result = np.full(len(addresses), -1, np.int64)
        if not len(self):
            return result
        # Of each address the times, one behind the other, ascend: so do both together.
        times, rank = np.unique(np.concatenate([self._begin, ticks]), return_inverse=True)
        begins, now = rank[: len(self)], rank[len(self) :]
        of_start = np.repeat(np.arange(len(self._starts)), self._counts)
        keys = np.maximum.accumulate(of_start * len(times) + begins)
        start = np.searchsorted(self._starts, addresses, "right") - 1
        open_ = np.flatnonzero(start >= 0)
        longest = np.max(self.size)
        for _ in range(_BELOW):
            if not len(open_):
                break
            here = start[open_]
            block = np.searchsorted(keys, here * len(times) + now[open_], "right") - 1
            known = (block >= 0) & (block >= self._first[here])
            away = addresses[open_] - self._starts[here]
            found = known.copy()
            found[known] = (away[known] < self.size[block[known]]) & (
                (ticks[open_][known] < self._end[block[known]]) | (ticks[open_][known] == _NEVER)
            )
            result[open_[found]] = block[found]
            start[open_] -= 1
            open_ = open_[~found & (here > 0) & (away < longest)]
        return result

    @property
    def _counts(self) -> Array:
        return np.diff(np.append(self._first, len(self)))
