"""Samples as stacks: each distinct one once, and the number of each sample's.

SPE records no calls. A stack is the function of the sample with those that the compiler inlined
there, under its process and Exception level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from spe_unicorn.output.arrays import Array
from spe_unicorn.report.samples import UNKNOWN, Samples
from spe_unicorn.symbols.inlined import Frame
from spe_unicorn.symbols.places import Places

_NO_PROCESS = "firmware"
"""What stands for the process of a sample without a context."""


class Stack(NamedTuple):
    """Where samples are: ``frames`` from the outermost to the innermost, ``address`` is the PC."""

    process: str
    el: str
    frames: tuple[Frame, ...]
    address: int
    object: str

    @property
    def words(self) -> tuple[str, ...]:
        """Everything from the process to the innermost function, each as a person reads it."""
        return self.process, self.el, *map(str, self.frames)


@dataclass(frozen=True)
class Stacks:
    """The samples of a recording by stack.

    ``number`` is that of each sample's stack, ``weights`` what each sample counts, which
    ``by`` names.
    """

    samples: Samples
    by: str
    stacks: tuple[Stack, ...]
    number: Array
    weights: Array

    @cached_property
    def counts(self) -> list[int]:
        """What each stack counts."""
        return [int(n) for n in np.bincount(self.number, self.weights, len(self.stacks))]

    @cached_property
    def samples_of(self) -> list[int]:
        """How many samples each stack has."""
        return [int(n) for n in np.bincount(self.number, minlength=len(self.stacks))]

    @cached_property
    def latencies(self) -> list[int]:
        """The cycles of total latency of each stack."""
        total = self.samples.arrays.total.astype(np.float64)
        return [int(n) for n in np.bincount(self.number, total, len(self.stacks))]


def stacks_of(samples: Samples, by: str) -> Stacks:
    """The stacks of samples; ``by`` is a word of :data:`~spe_unicorn.report.samples.WEIGHTS`."""
    tables: list[tuple[Frame, ...]] = []
    known: dict[tuple[Frame, ...], int] = {}

    def number_of(places: Places, address: int) -> str:
        frames = samples.frames_of(places, address)[::-1] or (Frame(hex(address), None),)
        if frames not in known:
            known[frames] = len(tables)
            tables.append(frames)
        return str(known[frames])

    frames = samples.spaces.names(samples.pcs, number_of).astype(np.int64)
    columns = [samples.coded(key) for key in ("process", "el", "object")]
    rows = np.column_stack([frames, *(codes.astype(np.int64) for _, codes in columns)])
    sizes = [max(1, len(tables)), *(max(1, len(names)) for names, _ in columns)]
    code = np.unique(samples.pcs, return_inverse=True)[1].reshape(-1).astype(np.int64)
    for column, size in zip(rows.T, sizes, strict=True):
        _, code = np.unique(code * size + column, return_inverse=True)
    code = code.reshape(-1)
    _, first = np.unique(code, return_index=True)
    found = []
    for row in first.tolist():
        process, el, object_ = (names[int(codes[row])] for names, codes in columns)
        found.append(
            Stack(
                _NO_PROCESS if process == UNKNOWN else process,
                el,
                tables[int(frames[row])],
                int(samples.pcs[row]),
                object_,
            )
        )
    return Stacks(samples, by, tuple(found), code, samples.weights(by))
