"""Samples counted by their labels: what tables are made of, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has
from spe_unicorn.report.samples import Samples, Truths
from spe_unicorn.report.texts import distinct

Labels = tuple[str, ...]


class Count(NamedTuple):
    """Of samples with the same labels: their weight, their number, those with a total latency."""

    weight: float = 0.0
    rows: int = 0
    cycles: int = 0
    timed: int = 0

    @property
    def latency(self) -> float | None:
        """The mean total latency in cycles, None where no sample has one."""
        return self.cycles / self.timed if self.timed else None

    def plus(self, other: Count) -> Count:
        """Both together."""
        return Count(
            self.weight + other.weight,
            self.rows + other.rows,
            self.cycles + other.cycles,
            self.timed + other.timed,
        )


Tally = dict[Labels, Count]
"""What there is of each combination of labels."""


def tally(
    samples: Samples,
    keys: Sequence[str],
    weights: npt.NDArray[np.float64],
    among: Truths | None = None,
) -> Tally:
    """Samples by their labels; those without weight do not count."""
    rows = np.flatnonzero(weights > 0 if among is None else (weights > 0) & among)
    if not len(rows):
        return {}
    all_of_them = len(rows) == len(weights)

    def of(values: Array) -> Array:
        return values if all_of_them else values[rows]

    codes = of(samples.coded(keys[0])[1])
    for key in keys[1:]:
        names, code = samples.coded(key)
        codes = distinct(codes.astype(np.int64) * len(names) + of(code)).numbers
    timed = of(samples.arrays.where(Has.TOTAL))
    cycles = np.where(timed, of(samples.arrays.total), 0)
    size = int(np.max(codes)) + 1
    counts = np.bincount(codes, minlength=size)
    first = np.zeros(size, np.int64)
    first[codes[::-1]] = rows[::-1]
    columns = (
        np.bincount(codes, of(weights), size),
        counts,
        np.bincount(codes, cycles, size).astype(np.int64),
        np.bincount(codes, timed, size).astype(np.int64),
    )
    there = np.flatnonzero(counts)
    return {
        tuple(samples.label(key, row) for key in keys): Count(*numbers)
        for row, *numbers in zip(
            first[there].tolist(), *(column[there].tolist() for column in columns), strict=True
        )
    }


def together(tallies: Iterable[Tally]) -> Tally:
    """What several tallies come to."""
    result: Tally = {}
    for one in tallies:
        for labels, count in one.items():
            old = result.get(labels)
            result[labels] = count if old is None else old.plus(count)
    return result


def heaviest(found: Tally) -> list[tuple[Labels, Count]]:
    """The labels with their counts, those with the most weight first."""
    return sorted(found.items(), key=lambda item: (-item[1].weight, item[0]))
