"""Cache lines, and which PE reads and writes which of their bytes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has, RecordArrays, canonical
from spe_unicorn.spe.packets import OperationClass

LINE: Final = 64
"""Bytes of a cache line."""
_STORE: Final = 1
"""Of the payload of a load or store: it writes."""
_MOST_OFFSETS: Final = 8
"""Offsets of one PE that are shown."""
_PA: Final = (1 << 56) - 1


def cache_lines(
    arrays: RecordArrays, names: npt.NDArray[np.object_], among: Array | None = None
) -> npt.NDArray[np.object_]:
    """A label of each sample with a data address, empty for others: its line, and who uses it how.

    ``names`` are the objects at the data addresses. ``among`` are the samples that get a label, of
    each line all, by default all.
    """
    labels = np.full(len(arrays), "", dtype=object)
    rows = np.flatnonzero(arrays.where(Has.VA)) if among is None else among
    if not len(rows):
        return labels
    places = _places(arrays)[rows]
    _, number = np.unique(places // np.uint64(LINE), return_inverse=True)
    order = np.argsort(number.reshape(-1), kind="stable")
    edges = np.flatnonzero(np.diff(number.reshape(-1)[order])) + 1
    for members in np.split(order, edges):
        line = int(places[members[0]]) // LINE * LINE
        users = _users(arrays, rows[members], places[members])
        labels[rows[members]] = f"{line:#x} {names[rows[members[0]]]}: {users}"
    return labels


def hottest_lines(arrays: RecordArrays, most: int) -> tuple[Array, Array]:
    """The samples of the lines with the most samples, and the number of the line of each."""
    rows = np.flatnonzero(arrays.where(Has.VA))
    _, number, counts = np.unique(
        _places(arrays)[rows] // np.uint64(LINE), return_inverse=True, return_counts=True
    )
    number = number.reshape(-1)
    chosen = np.zeros(len(counts), bool)
    chosen[np.argsort(-counts, kind="stable")[:most]] = True
    kept = chosen[number]
    return rows[kept], number[kept]


def _places(arrays: RecordArrays) -> Array:
    """Addresses of data: physical where the record tells it."""
    result: Array = np.where(arrays.where(Has.PA), arrays.pa & np.uint64(_PA), canonical(arrays.va))
    return result


def _users(arrays: RecordArrays, rows: Array, places: Array) -> str:
    """What each PE does with one line: ``PE 0 reads 0,8 writes 8; PE 1 writes 16``."""
    stores = (arrays.op_class[rows] == OperationClass.LOAD_STORE) & (
        arrays.op_payload[rows] & _STORE != 0
    )
    said = []
    for pe in np.unique(arrays.cpu[rows]).tolist():
        mine = arrays.cpu[rows] == pe
        words = [
            f"{verb} {_offsets(places[mine & (stores == writes)])}"
            for verb, writes in (("reads", False), ("writes", True))
            if (mine & (stores == writes)).any()
        ]
        said.append(f"PE {pe} {' '.join(words)}")
    return "; ".join(said)


def _offsets(places: Array) -> str:
    found = np.unique(places % np.uint64(LINE)).tolist()
    more = "..." if len(found) > _MOST_OFFSETS else ""
    return ",".join(map(str, found[:_MOST_OFFSETS])) + more
