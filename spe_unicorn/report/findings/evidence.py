"""What rules on what to do first look at: samples of one place, their cycles, and its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Has
from spe_unicorn.report.samples import UNKNOWN, Group, Samples, Truths
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.symbols.table import printable

EVIDENCE = 20
"""Samples of a place below which nothing is said of it."""
OFTEN = 0.05
"""A share of accesses that miss, or of branches that are mispredicted, from which on it is told."""
LINE = 64
"""Bytes of a cache line."""


class Finding(NamedTuple):
    """A sentence, and the share of all cycles of latency that it could save, from 0 to 1."""

    saving: float
    sentence: str


def kind(samples: Samples, *, store: bool) -> Truths:
    """Which samples are loads, or with ``store`` stores."""
    arrays = samples.arrays
    result: Truths = (
        arrays.where(Has.OPERATION)
        & (arrays.op_class == OperationClass.LOAD_STORE)
        & ((arrays.op_payload & 1) == int(store))
    )
    return result


def cycles(samples: Samples, rows: npt.NDArray[np.int64]) -> int:
    """The total latency of some samples."""
    return int(samples.arrays.total[rows].sum(dtype=np.int64))


def all_cycles(samples: Samples) -> int:
    """That of all samples."""
    return int(samples.arrays.total.sum(dtype=np.int64))


def places(samples: Samples, among: Truths) -> Iterator[Group]:
    """Samples by line and function, only places with enough of them."""
    timed = among & samples.arrays.where(Has.PC)
    for group in samples.groups(("line", "inline"), np.ones(len(samples)), timed):
        if len(group.rows) >= EVIDENCE:
            yield group


def where(group: Group) -> str:
    """``longest_match (deflate.c:1417)``, as far as it is known."""
    line, functions = (printable(label) for label in group.labels)
    symbol = functions.partition(" < ")[0]  # the code was written in this one
    if symbol == UNKNOWN:
        return "code without a symbol"
    return symbol if line == UNKNOWN else f"{symbol} ({line})"
