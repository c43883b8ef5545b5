"""Samples as stacks: each distinct one once, and the number of each sample's.

A stack is the function of the sample with those that the compiler inlined there, under the calls
that led to it, where the file tells them, and under its process and Exception level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has
from spe_unicorn.report.samples import OPERATION, UNKNOWN, Samples
from spe_unicorn.report.texts import Coded, distinct
from spe_unicorn.symbols.inlined import Frame
from spe_unicorn.symbols.places import Places

_NO_PROCESS = "firmware"
"""What stands for the process of a sample without a context."""


class Call(NamedTuple):
    """An instruction of a stack: a call, or the sampled one; inlined functions are ``frames``, too.

    They are from the outermost to the innermost. ``object`` is the name of the file.
    """

    address: int
    frames: tuple[Frame, ...]
    object: str


class Stack(NamedTuple):
    """Where samples are: ``calls`` from the outermost, the last of which is the sample itself."""

    process: str
    el: str
    calls: tuple[Call, ...]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All functions, from the outermost to the innermost."""
        return tuple(frame for call in self.calls for frame in call.frames)

    @property
    def here(self) -> Call:
        """The sampled instruction."""
        return self.calls[-1]

    @property
    def words(self) -> tuple[str, ...]:
        """Everything from the process to the innermost function, each as a person reads it."""
        return self.process, self.el, *map(str, self.frames)


@dataclass(frozen=True)
class Stacks:
    """Samples by stack: ``number`` is that of each sample's stack, ``weights`` what it counts."""

    stacks: tuple[Stack, ...]
    number: Array
    weights: Array


class Part(NamedTuple):
    """Some of the samples of a profile, with the number of the stack of each, and what it counts.

    Samples that count nothing are left out.
    """

    number: npt.NDArray[np.uint32]
    weights: npt.NDArray[np.int64]
    cpu: Array
    ticks: Array
    """The timestamp of each, 0 without one."""
    timed: npt.NDArray[np.bool_]
    cycles: Array

    def only(self, rows: Array) -> Part:
        """Some of these samples."""
        return Part(
            self.number[rows],
            self.weights[rows],
            self.cpu[rows],
            self.ticks[rows],
            self.timed[rows],
            self.cycles[rows],
        )


class Profile:
    """The samples of a recording by stack, by what ``by`` names: a word of ``samples.WEIGHTS``.

    They are looked at piece by piece. Of each the number of its stack is kept.
    """

    def __init__(self, samples: Samples, by: str) -> None:
        self.samples = samples
        self.by = by
        known: dict[Stack, int] = {}
        self._numbers: list[npt.NDArray[np.uint32]] = []
        sums: list[dict[int, int]] = [{}, {}, {}]
        for piece in samples.pieces():
            found = stacks_of(piece, by)
            new = [known.setdefault(stack, len(known)) for stack in found.stacks]
            self._numbers.append(np.array(new, np.uint32)[found.number])
            total = piece.arrays.total
            for sum_of, weights in zip(sums, (found.weights, None, total), strict=True):
                counts = np.bincount(found.number, weights, len(new)).tolist()
                for stack, count in zip(new, counts, strict=True):
                    sum_of[stack] = sum_of.get(stack, 0) + int(count)
        self.stacks = tuple(known)
        self.counts, self.samples_of, self.latencies = (
            [sum_of[stack] for stack in range(len(known))] for sum_of in sums
        )
        """What each stack counts, its samples, and the cycles of their total latency."""

    def parts(self) -> Iterator[Part]:
        """The samples in their order, piece by piece."""
        for number, piece in zip(self._numbers, self.samples.pieces(), strict=True):
            arrays = piece.arrays
            weights = piece.weights(self.by).astype(np.int64)
            rows = np.flatnonzero(weights > 0)
            yield Part(
                number[rows],
                weights[rows],
                arrays.cpu[rows],
                arrays.timestamp[rows],
                arrays.where(Has.TIMESTAMP)[rows],
                arrays.total[rows],
            )


def stacks_of(samples: Samples, by: str) -> Stacks:
    """The stacks of samples; ``by`` is a word of :data:`~spe_unicorn.report.samples.WEIGHTS`."""
    tables: list[tuple[Frame, ...]] = []
    known: dict[tuple[Frame, ...], int] = {}
    callers: list[tuple[Call, ...]] = []
    known_callers: dict[tuple[Call, ...], int] = {}
    chains = samples.recording.file.calls.chains

    def frames_at(places: Places, address: int) -> tuple[Frame, ...]:
        return samples.frames_of(places, address)[::-1] or (Frame(hex(address), None),)

    def number_of(places: Places, address: int) -> str:
        frames = frames_at(places, address)
        if frames not in known:
            known[frames] = len(tables)
            tables.append(frames)
        return str(known[frames])

    def callers_of(places: Places, chain: int) -> str:
        found = []
        for back in reversed(chains[chain - 1] if chain else ()):
            place = places.at(back - OPERATION)
            name = UNKNOWN if place is None else place.file.path.name
            found.append(Call(back - OPERATION, frames_at(places, back - OPERATION), name))
        calls = tuple(found)
        if calls not in known_callers:
            known_callers[calls] = len(callers)
            callers.append(calls)
        return str(known_callers[calls])

    frames = _number(samples.spaces.names(samples.pcs, number_of))
    led = _number(samples.spaces.names(samples.chains + 1, callers_of))
    columns = [samples.coded(key) for key in ("process", "el", "file")]
    rows = np.column_stack([frames, led, *(codes.astype(np.int64) for _, codes in columns)])
    sizes = [max(1, len(tables)), max(1, len(callers)), *(max(1, len(n)) for n, _ in columns)]
    kinds = distinct(samples.pcs)
    for column, size in zip(rows.T, sizes, strict=True):
        kinds = distinct(kinds.numbers.astype(np.int64) * size + column)
    found = []
    for row in kinds.first.tolist():
        process, el, object_ = (names[int(codes[row])] for names, codes in columns)
        found.append(
            Stack(
                _NO_PROCESS if process == UNKNOWN else process,
                el,
                (
                    *callers[int(led[row])],
                    Call(int(samples.pcs[row]), tables[int(frames[row])], object_),
                ),
            )
        )
    code = kinds.numbers.astype(np.int64)
    return Stacks(tuple(found), code, samples.weights(by))


def _number(numbers: Coded) -> npt.NDArray[np.int64]:
    """Numbers that were said as texts."""
    known = np.array([int(text) for text in numbers.names] or [0], np.int64)
    return known[numbers.numbers]
