"""Records that stand twice in a recording: a driver had them read again.

In the stream of one PE time does not go back, so a stretch of records with more than one timestamp
cannot come a second time. Where it does, whoever read the buffer took bytes that it had taken
before, as Linux does where a PE goes offline while `perf record` profiles it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from spe_unicorn.output.arrays import Array, Has, RecordArrays

LEAST: Final = 8
"""Records of a stretch that is worth a word."""
_TOLD_APART: Final = (
    "has",
    "pc",
    "timestamp",
    "events",
    "total",
    "issue",
    "translation",
    "va",
    "pa",
    "target",
    "op_class",
    "op_payload",
)
_ODD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)


class Repeated(NamedTuple):
    """A stretch of records that the stream of a PE has had before, by numbers of records in it."""

    cpu: int
    first: int
    again: int
    records: int


def repeated(arrays: RecordArrays) -> Iterator[Repeated]:
    """The stretches of :data:`LEAST` records or more that stand twice, PE by PE, in order."""
    timed = arrays.where(Has.TIMESTAMP)
    for cpu in np.unique(arrays.cpu).tolist():
        own = np.flatnonzero(arrays.cpu == cpu)
        place = np.flatnonzero(timed[own])
        rows = own[place]
        times = arrays.timestamp[rows]
        if not len(rows) or bool((times[1:] >= times[:-1]).all()):
            continue  # time never goes back
        first = _first_alike(arrays, rows)
        for begin, end in _stretches(first):
            if times[begin] != times[end - 1]:
                before = int(place[first[begin]])
                yield Repeated(cpu, before, int(place[begin]), end - begin)


def _first_alike(arrays: RecordArrays, rows: Array) -> Array:
    """For each of some records of one PE, the first of them that says the same."""
    mixed = np.zeros(len(rows), np.uint64)
    for name in _TOLD_APART:
        mixed = (mixed ^ getattr(arrays, name)[rows].astype(np.uint64)) * _ODD
        mixed ^= mixed >> np.uint64(29)
    _, places, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    result: Array = places[inverse.reshape(-1)]
    return result


def _stretches(first: Array) -> Iterator[tuple[int, int]]:
    """Where records in a row are alike to records in a row before them: begin and end."""
    again = first != np.arange(len(first))
    goes_on = again[1:] & again[:-1] & (first[1:] == first[:-1] + 1)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], goes_on, [False])).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2).tolist():
        if end - begin + 1 >= LEAST:
            yield begin, end + 1


def goes_back(arrays: RecordArrays, last: dict[int, int]) -> bool:
    """Whether time goes back for some PE, where records follow others; ``last`` is their time."""
    timed = arrays.where(Has.TIMESTAMP)
    back = False
    for cpu in np.unique(arrays.cpu).tolist():
        times = arrays.timestamp[np.flatnonzero(timed & (arrays.cpu == cpu))]
        if len(times):
            back |= int(times[0]) < last.get(cpu, 0) or bool((times[1:] < times[:-1]).any())
            last[cpu] = int(times[-1])
    return back


def repetition(arrays: RecordArrays) -> str | None:
    """A sentence on records that stand twice, None if there are none."""
    found = list(repeated(arrays))
    if not found:
        return None
    one = found[0]
    records = sum(stretch.records for stretch in found)
    others = f", and so on in {len(found)} stretches" if len(found) > 1 else ""
    return (
        f"{records} records stand in it twice: of PE {one.cpu} records {one.again + 1} to"
        f" {one.again + one.records} are records {one.first + 1} to {one.first + one.records}"
        f" again{others}. The driver had a part of the buffer read twice"
    )
