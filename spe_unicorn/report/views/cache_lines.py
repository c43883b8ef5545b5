"""Cache lines, and which PE reads and writes which of their bytes."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

import numpy as np

from spe_unicorn.output.arrays import Array, Has, RecordArrays, canonical
from spe_unicorn.report.texts import Coded, distinct
from spe_unicorn.spe.packets import OperationClass

LINE: Final = 64
"""Bytes of a cache line."""
_STORE: Final = 1
"""Of the payload of a load or store: it writes."""
_MOST_OFFSETS: Final = 8
"""Offsets of one PE that are shown."""
_PA: Final = (1 << 56) - 1
_USE: Final = np.dtype([("cpu", "<u4"), ("line", "<u8"), ("store", "?"), ("offset", "u1")])


class LineUsers:
    """Who uses which bytes of cache lines, of samples that come piece by piece."""

    def __init__(self) -> None:
        self._lines: Array = np.zeros(0, np.uint64)
        self._names: list[str] = []
        self._counts: Array = np.zeros(0, np.int64)
        self._uses: Array = np.zeros(0, _USE)

    def add(self, arrays: RecordArrays, names: Coded) -> None:
        """Take samples; ``names`` are the objects at their data addresses."""
        rows = np.flatnonzero(arrays.where(Has.VA))
        places = _places(arrays)[rows]
        found = distinct(places // np.uint64(LINE))
        lines, where = np.unique(np.concatenate([self._lines, found.values]), return_inverse=True)
        where = where.reshape(-1)
        old, new = where[: len(self._lines)], where[len(self._lines) :]
        labels = [""] * len(lines)
        first = names.numbers[rows[found.first]].tolist()
        for place, name in zip(new.tolist(), first, strict=True):
            labels[place] = names.names[name]
        for place, label in zip(old.tolist(), self._names, strict=True):
            labels[place] = label
        counts = np.zeros(len(lines), np.int64)
        counts[old] = self._counts
        counts[new] += np.bincount(found.numbers, minlength=len(found.values))
        uses = np.zeros(len(rows), _USE)
        uses["line"] = found.values[found.numbers]
        uses["cpu"] = arrays.cpu[rows]
        uses["store"] = (arrays.op_class[rows] == OperationClass.LOAD_STORE) & (
            arrays.op_payload[rows] & _STORE != 0
        )
        uses["offset"] = places % np.uint64(LINE)
        self._lines, self._names, self._counts = lines, labels, counts
        self._uses = _unique(np.concatenate([self._uses, uses]))

    def hottest(self, most: int) -> Array:
        """The numbers of the lines with the most samples, in the order of their addresses."""
        kept = np.argsort(-self._counts, kind="stable")[:most]
        result: Array = np.sort(self._lines[kept])
        return result

    def labels(self, lines: Array) -> list[str]:
        """What is told of some lines, given by their numbers in order: name, and who uses it."""
        among = self._uses[np.isin(self._uses["line"], lines)]
        order = np.lexsort((among["offset"], among["store"], among["cpu"], among["line"]))
        columns = (among[name][order].tolist() for name in ("line", "cpu", "store", "offset"))
        users = {
            line: _users(uses)
            for line, uses in groupby(zip(*columns, strict=True), key=lambda use: use[0])
        }
        names = np.searchsorted(self._lines, lines).tolist()
        return [
            f"{line * LINE:#x} {self._names[name]}: {users[line]}"
            for line, name in zip(lines.tolist(), names, strict=True)
        ]


def lines_of(arrays: RecordArrays) -> tuple[Array, Array]:
    """The samples with a data address, and the number of the cache line of each."""
    rows = np.flatnonzero(arrays.where(Has.VA))
    return rows, _places(arrays)[rows] // np.uint64(LINE)


def _unique(uses: Array) -> Array:
    """Each use once."""
    key = distinct(uses["line"]).numbers.astype(np.int64)
    key = key << 7 | uses["store"].astype(np.int64) << 6 | uses["offset"]
    pes = distinct(uses["cpu"])
    both = distinct(key * len(pes.values) + pes.numbers)
    result: Array = uses[both.first]
    return result


def _places(arrays: RecordArrays) -> Array:
    """Addresses of data: physical where the record tells it."""
    result: Array = np.where(arrays.where(Has.PA), arrays.pa & np.uint64(_PA), canonical(arrays.va))
    return result


def _users(uses: Any) -> str:
    """What each PE does with one line: ``PE 0 reads 0,8 writes 8; PE 1 writes 16``."""
    said = []
    for pe, own in groupby(uses, key=lambda use: use[1]):
        words = [
            f"{'writes' if store else 'reads'} {_offsets([use[3] for use in same])}"
            for store, same in groupby(own, key=lambda use: use[2])
        ]
        said.append(f"PE {pe} {' '.join(words)}")
    return "; ".join(said)


def _offsets(found: list[int]) -> str:
    more = "..." if len(found) > _MOST_OFFSETS else ""
    return ",".join(map(str, found[:_MOST_OFFSETS])) + more
