"""What is said of many values, asked once for each that there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array

_NEAR: Final = 1 << 24
"""Values that lie within so many numbers are told apart by a table, not by sorting."""
_MANY: Final = 1 << 12
"""For fewer values sorting is fast enough."""


class Distinct(NamedTuple):
    """The values that there are, in order, and the number of each element's among them."""

    values: Array
    numbers: Array

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """Where each value stands first."""
        rows = np.zeros(len(self.values), np.int64)
        rows[self.numbers[::-1]] = np.arange(len(self.numbers))[::-1]
        return rows


class Coded(NamedTuple):
    """Labels: names, of which several may be the same, and the number of each element's."""

    names: list[str]
    numbers: Array

    def where(self, there: Array, otherwise: str) -> Coded:
        """The same labels ``there``, and ``otherwise`` elsewhere."""
        return Coded([*self.names, otherwise], np.where(there, self.numbers, len(self.names)))

    def tolist(self) -> list[str]:
        """The label of each element, as a list."""
        return list(map(self.names.__getitem__, self.numbers.tolist()))

    @property
    def labels(self) -> npt.NDArray[np.object_]:
        """The label of each element."""
        return np.array([*self.names, ""], dtype=object)[self.numbers]


def distinct(values: Array) -> Distinct:
    """What values there are."""
    if len(values) > _MANY and values.dtype.kind in "ui":
        low = np.min(values)
        span = int(np.max(values)) - int(low)
        if span < _NEAR:
            away = (values - low).astype(np.int32)
            there = np.zeros(span + 1, bool)
            there[away] = True
            found = np.flatnonzero(there)
            number = np.zeros(span + 1, np.int32)
            number[found] = np.arange(len(found))
            return Distinct(found.astype(values.dtype) + low, number[away])
    found, numbers = np.unique(values, return_inverse=True)
    return Distinct(found, numbers.reshape(-1))


def said(values: Array | Distinct, say: Callable[[int], str]) -> Coded:
    """What ``say`` says of each value, asked once for each value that there is."""
    found = values if isinstance(values, Distinct) else distinct(values)
    return Coded([say(value) for value in found.values.tolist()], found.numbers)


def texts(values: Array | Distinct, say: Callable[[int], str]) -> npt.NDArray[np.object_]:
    """The same as an array of texts."""
    return said(values, say).labels


def coded(labels: npt.NDArray[np.object_] | Coded) -> tuple[list[str], Array]:
    """The labels that there are, in order, and the number of each element's among them.

    Numbers have 16 bits where that is enough, which are sorted far faster. Labels of an array are
    hashed, not compared: many are the same object.
    """
    if isinstance(labels, Coded):
        used = np.bincount(labels.numbers, minlength=len(labels.names)) > 0
        present = {name for name, there in zip(labels.names, used.tolist(), strict=True) if there}
        names = sorted(present)
        number = {name: n for n, name in enumerate(names)}
        to = np.array([number.get(name, 0) for name in labels.names] or [0], _kind(names))
        return names, to[labels.numbers]
    listed = labels.tolist()
    names = sorted(dict.fromkeys(listed))
    number = {name: n for n, name in enumerate(names)}
    return names, np.fromiter(map(number.__getitem__, listed), _kind(names), len(listed))


def _kind(names: list[str]) -> type[np.uint16] | type[np.int64]:
    return np.uint16 if len(names) < 1 << 16 else np.int64
