"""Samples that are alike for a page, counted together: as few cells as a browser can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spe_unicorn.output.arrays import Array
from spe_unicorn.report.texts import distinct

MOST_CELLS = 500_000
"""Cells above which something is told less finely."""
NO_LATENCY = 0x1_0000
_FINE = 6
"""Bits of a latency that are kept: it is exact below 64, and to within 3 % above."""
_BINS = 320
"""Pieces of time."""
_COARSER: tuple[tuple[int, int], ...] = ((4, 320), (4, 160), (3, 160), (3, 80), (2, 40), (1, 20))
"""Bits of latencies, and pieces of time, tried in turn."""
_KEYS = 1 << 62
_ROUNDED = 1e-6
"""What a number of steps may lack because it was rounded."""


class Cells(NamedTuple):
    """What a page holds of many samples."""

    columns: dict[str, Array]
    """As those of samples, with ``count``, and ``cycles``: the sum of their latencies."""
    bins: int
    """Pieces of time: a cell has the beginning of one."""


class Counting:
    """Counts samples that are the same in all columns; time and latency are rounded down.

    All counts are exact. Samples come piece by piece; all times lie from ``first`` to ``last``.
    Where there would be too many cells, pieces of time grow, latencies are rounded more, and at
    last the columns ``within`` are left out of it one by one: they then say what one sample of a
    cell has.
    """

    def __init__(self, first: float, last: float, within: Sequence[str]) -> None:
        self._first, self._last = first, last
        self._steps = list(_steps(within))
        self._step = 0
        self._waiting: list[dict[str, Array]] = []

    def add(self, columns: dict[str, Array]) -> None:
        """Count samples."""
        latency = columns["latency"]
        there = latency != NO_LATENCY
        sums = {
            "count": np.ones(len(latency), np.int64),
            "cycles": np.where(there, latency, 0).astype(np.int64),
        }
        self._waiting.append(self._counted(columns | sums))
        if sum(len(each["count"]) for each in self._waiting) > 2 * MOST_CELLS:
            self._join()

    def cells(self) -> Cells:
        """What was counted."""
        self._join()
        return Cells(self._waiting[0], self._steps[self._step][1])

    def _join(self) -> None:
        """Make one of all that was counted, and count less finely until it has few cells."""
        columns = self._waiting[0]
        if len(self._waiting) > 1:
            names = list(columns)
            columns = {n: np.concatenate([each[n] for each in self._waiting]) for n in names}
            columns = self._counted(columns)
        while len(columns["count"]) > MOST_CELLS and self._step + 1 < len(self._steps):
            self._step += 1
            columns = self._counted(columns)
        self._waiting = [columns]

    def _counted(self, columns: dict[str, Array]) -> dict[str, Array]:
        """What is the same is counted together, as finely as is done now."""
        bits, bins, left_out = self._steps[self._step]
        step = (self._last - self._first) / bins or 1.0
        piece = np.floor((columns["time"] - self._first) / step + _ROUNDED)
        found = dict(columns)
        sums = {name: found.pop(name) for name in ("count", "cycles")}
        found["time"] = self._first + np.minimum(bins - 1, piece) * step
        found["latency"] = _rounded(found["latency"], bits)
        rows, number = _alike([found[name] for name in found if name not in left_out])
        return {name: values[rows] for name, values in found.items()} | {
            name: np.bincount(number, values, len(rows)).astype(np.int64)
            for name, values in sums.items()
        }


def _steps(within: Sequence[str]) -> Iterator[tuple[int, int, frozenset[str]]]:
    """How finely latency and time are told, and what is left out, in turn."""
    yield _FINE, _BINS, frozenset()
    for bits, bins in _COARSER:
        yield bits, bins, frozenset()
    for number in range(1, len(within) + 1):
        yield *_COARSER[-1], frozenset(within[:number])


def _rounded(latency: Array, bits: int) -> Array:
    """Latencies with so many of their highest bits."""
    there = (latency != NO_LATENCY) & (latency > 0)
    length = np.zeros(len(latency), np.int64)
    length[there] = np.floor(np.log2(latency[there])).astype(np.int64) + 1
    shift = np.maximum(0, length - bits)
    result: Array = np.where(there, latency.astype(np.int64) >> shift << shift, latency)
    return result.astype(latency.dtype)


def _alike(columns: Sequence[Array]) -> tuple[Array, Array]:
    """A row of each kind of rows, and the number of each row's kind."""
    key = np.zeros(len(columns[0]), np.int64)
    size = 1
    for column in columns:
        values, codes = distinct(column)
        if size * len(values) >= _KEYS:
            before, key = distinct(key)
            size = len(before)
        key = key.astype(np.int64) * len(values) + codes
        size *= len(values)
    kinds = distinct(key)
    return kinds.first, kinds.numbers
