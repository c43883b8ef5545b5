"""Samples as stacks: each distinct one once, and the number of each sample's.

A stack is the function of the sample with those that the compiler inlined there, under the calls
that led to it, where the file tells them, and under its process and Exception level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has
from spe_unicorn.report.samples import OPERATION, UNKNOWN, Samples
from spe_unicorn.report.texts import Coded, distinct
from spe_unicorn.symbols.inlined import Frame
from spe_unicorn.symbols.places import Places

_NO_PROCESS = "firmware"
"""What stands for the process of a sample without a context."""
_PE = (1 << 32) - 1
_AT_ONCE = 1 << 15
"""Samples of a part."""
_IN_MEMORY = 1 << 25
"""Bytes of samples that are kept without a file."""
_NEAR = 1 << 20
"""Numbers of stacks are made new where there could be more of them."""


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

    def only(self, rows: Array | slice) -> Part:
        """Some of these samples."""
        return Part._make(column[rows] for column in self)

    def places(self) -> tuple[list[tuple[int, int]], Array]:
        """The stacks and PEs that samples have together, and the number of each sample's."""
        pairs = distinct(self.number.astype(np.int64) << 32 | self.cpu.astype(np.int64))
        return [(pair >> 32, pair & _PE) for pair in pairs.values.tolist()], pairs.numbers


class Profile:
    """The samples of a recording by stack, by what ``by`` names: a word of ``samples.WEIGHTS``.

    They are looked at piece by piece. Of each a part is kept that has 27 bytes, of many in a file.
    """

    def __init__(self, samples: Samples, by: str) -> None:
        self.samples = samples
        self.by = by
        known: dict[Stack, int] = {}
        self._kept = _Kept()
        sums: list[dict[int, int]] = [{}, {}, {}]
        for piece in samples.pieces():
            found = stacks_of(piece, by)
            new = [known.setdefault(stack, len(known)) for stack in found.stacks]
            arrays = piece.arrays
            for sum_of, weights in zip(sums, (found.weights, None, arrays.total), strict=True):
                counts = np.bincount(found.number, weights, len(new)).tolist()
                for stack, count in zip(new, counts, strict=True):
                    sum_of[stack] = sum_of.get(stack, 0) + int(count)
            part = Part(
                np.array(new, np.uint32)[found.number],
                found.weights.astype(np.int64),
                arrays.cpu,
                arrays.timestamp,
                arrays.where(Has.TIMESTAMP),
                arrays.total,
            )
            counted = part.weights > 0
            self._kept.add(part if counted.all() else part.only(np.flatnonzero(counted)))
        self.stacks = tuple(known)
        self.counts, self.samples_of, self.latencies = (
            [sum_of[stack] for stack in range(len(known))] for sum_of in sums
        )
        """What each stack counts, its samples, and the cycles of their total latency."""

    def parts(self) -> Iterator[Part]:
        """The samples in their order, part by part."""
        for part in self._kept:
            for start in range(0, len(part.number), _AT_ONCE):
                yield part.only(slice(start, start + _AT_ONCE))


class _Kept:
    """The samples of a profile; many are in a file that has no name and goes with this object."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)
        finalize(self, self._file.close)
        self._pieces: list[tuple[int, int, list[np.dtype[Any]]]] = []

    def add(self, part: Part) -> None:
        """Keep some more."""
        self._pieces.append((self._file.tell(), len(part.number), [c.dtype for c in part]))
        for column in part:
            self._file.write(np.ascontiguousarray(column).data)

    def __iter__(self) -> Iterator[Part]:
        for place, count, kinds in self._pieces:
            self._file.seek(place)
            yield Part._make(self._column(count, kind) for kind in kinds)

    def _column(self, count: int, kind: np.dtype[Any]) -> Array:
        return np.frombuffer(self._file.read(count * kind.itemsize), kind)


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
    kinds = distinct(samples.pcs)
    code, size = kinds.numbers.astype(np.int64), len(kinds.values)
    sized = [(frames, len(tables)), (led, len(callers)), *((c, len(n)) for n, c in columns)]
    for column, count in sized:
        if size * count > _NEAR:
            kinds = distinct(code)
            code, size = kinds.numbers.astype(np.int64), len(kinds.values)
        code, size = code * max(1, count) + column, size * max(1, count)
    kinds = distinct(code)
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
