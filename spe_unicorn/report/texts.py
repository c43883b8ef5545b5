"""What is said of many values, asked once for each that there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array


class Distinct(NamedTuple):
    """The values that there are, in order, and the number of each element's among them."""

    values: Array
    numbers: Array


def distinct(values: Array) -> Distinct:
    """What values there are, sorted once."""
    return Distinct(*np.unique(values, return_inverse=True))


def texts(values: Array | Distinct, say: Callable[[int], str]) -> npt.NDArray[np.object_]:
    """What ``say`` says of each value, asked once for each value that there is."""
    found = values if isinstance(values, Distinct) else distinct(values)
    said = np.array([say(value) for value in found.values.tolist()], dtype=object)
    return said[found.numbers] if len(said) else np.zeros(0, dtype=object)


def coded(labels: npt.NDArray[np.object_]) -> tuple[list[str], Array]:
    """The labels that there are, in order, and the number of each element's among them.

    Numbers have 16 bits where that is enough, which are sorted far faster. Labels are hashed, not
    compared: many are the same object.
    """
    listed = labels.tolist()
    names = sorted(dict.fromkeys(listed))
    number = {name: n for n, name in enumerate(names)}
    kind = np.uint16 if len(names) < 1 << 16 else np.int64
    return names, np.fromiter(map(number.__getitem__, listed), kind, len(listed))
