"""Samples for compilers: taken branches for BOLT, and lines with counts for LLVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spe_unicorn.output.arrays import Has, canonical
from spe_unicorn.report.profiles.stacks import Profile
from spe_unicorn.report.samples import Samples
from spe_unicorn.report.texts import distinct
from spe_unicorn.spe.packets import Event, OperationClass
from spe_unicorn.symbols.inlined import Frame
from spe_unicorn.symbols.lines import Line


class Branch(NamedTuple):
    """A branch that was taken: how often it was sampled, and how often mispredicted."""

    source: int
    target: int
    times: int
    mispredicted: int


def taken_branches(samples: Samples) -> list[Branch]:
    """The branches of the samples that were taken, by source and target; those with both only."""
    result: dict[tuple[int, int], list[int]] = {}
    for piece in samples.pieces():
        arrays = piece.arrays
        rows = np.flatnonzero(
            arrays.where(Has.OPERATION)
            & (arrays.op_class == OperationClass.BRANCH)
            & arrays.where(Has.PC)
            & arrays.where(Has.TARGET)
            & ~piece.with_event(Event.NOT_TAKEN)
        )
        sources, targets = distinct(piece.pcs[rows]), distinct(canonical(arrays.target)[rows])
        size = len(targets.values)
        pairs = distinct(sources.numbers.astype(np.int64) * size + targets.numbers)
        missed = piece.with_event(Event.MISPREDICTED)[rows]
        misses = np.bincount(pairs.numbers, missed, len(pairs.values)).astype(int).tolist()
        counts = np.bincount(pairs.numbers, minlength=len(pairs.values)).tolist()
        places = zip(
            sources.values[pairs.values // max(1, size)].tolist(),
            targets.values[pairs.values % max(1, size)].tolist(),
            strict=True,
        )
        for place, count, wrong in zip(places, counts, misses, strict=True):
            sums = result.setdefault(place, [0, 0])
            sums[0] += count
            sums[1] += wrong
    return [Branch(*place, *result[place]) for place in sorted(result)]


def bolt(samples: Samples) -> Iterator[str]:
    """Lines of BOLT's fdata: source, target, mispredictions, count.

    A place is 1, its function, and the bytes from its start in hexadecimal. Branches whose source
    has no function are left out; a target without one is ``0 [unknown] 0``.
    """
    places = samples.spaces.common

    def said(address: int) -> str | None:
        place = places.at(address)
        symbol = None if place is None else place.file.symbols.function_at(place.linked)
        if place is None or symbol is None:
            return None
        name = symbol.name.replace("\\", "\\\\").replace(" ", "\\ ")
        return f"1 {name} {place.linked - symbol.address:x}"

    for branch in taken_branches(samples):
        source = said(branch.source)
        if source is not None:
            target = said(branch.target) or "0 [unknown] 0"
            yield f"{source} {target} {branch.mispredicted} {branch.times}\n"


class _Node:
    """A function, or a copy of one inlined at a line: what its lines count, and what is inlined."""

    def __init__(self) -> None:
        self.lines: dict[int, int] = {}
        self.calls: dict[int, dict[str, int]] = {}
        self.inlined: dict[tuple[int, str], _Node] = {}

    @property
    def total(self) -> int:
        """What all lines count together."""
        return sum(self.lines.values()) + sum(node.total for node in self.inlined.values())


def llvm_sample(profile: Profile) -> Iterator[str]:
    """LLVM's sample profile as text: functions, and their lines from the declaration on.

    A line counts the samples of its most sampled instruction, as compilers take it: the number of
    times that it was executed does not grow with its instructions. Calls have their targets, as far
    as these were sampled; a function's head count is how often its first instruction was reached by
    a sampled branch. Functions without debug information are left out.
    """
    samples = profile.samples
    places = samples.spaces.common
    roots: dict[str, _Node] = {}
    executed: dict[tuple[int, int, int], int] = {}
    for stack, count in zip(profile.stacks, profile.samples_of, strict=True):
        node = _node(roots, stack.here.frames)
        if node is not None:
            offset = _offset(stack.frames[-1].line, stack.frames[-1].first)
            instruction = id(node), offset, stack.here.address
            executed[instruction] = executed.get(instruction, 0) + count
            node.lines[offset] = max(node.lines.get(offset, 0), executed[instruction])
    heads: dict[str, int] = {}
    for branch in taken_branches(samples):
        place = places.at(branch.target)
        symbol = None if place is None else place.file.symbols.function_at(place.linked)
        if place is None or symbol is None or symbol.address != place.linked:
            continue
        frames = samples.frames_of(places, branch.source)[::-1]
        node = _node(roots, frames)
        if node is None or not frames or frames[0].function == symbol.name:
            continue
        heads[symbol.name] = heads.get(symbol.name, 0) + branch.times
        calls = node.calls.setdefault(_offset(frames[-1].line, frames[-1].first), {})
        calls[symbol.name] = calls.get(symbol.name, 0) + branch.times
    for name, node in sorted(roots.items(), key=lambda item: (-item[1].total, item[0])):
        if node.total:
            yield f"{name}:{node.total}:{heads.get(name, 0)}\n"
            yield from _written(node, 1)


def _node(roots: dict[str, _Node], frames: Sequence[Frame]) -> _Node | None:
    """Where the samples of frames count, the outermost first; None without a line."""
    node: _Node | None = None
    call = 0
    for name, line, first in frames:
        if line is None or not first:
            return None
        if node is None:
            node = roots.setdefault(name, _Node())
        else:
            node = node.inlined.setdefault((call, name), _Node())
        call = _offset(line, first)
    return node


def _offset(line: Line | None, first: int) -> int:
    """Lines from the declaration, in the 16 bits that the format has."""
    return 0 if line is None else line.number - first & 0xFFFF


def _written(node: _Node, depth: int) -> Iterator[str]:
    indent = " " * depth
    for offset in sorted({*node.lines, *node.calls}):
        calls = node.calls.get(offset, {})
        targets = "".join(f" {name}:{count}" for name, count in sorted(calls.items()))
        yield f"{indent}{offset}: {node.lines.get(offset, 0)}{targets}\n"
    for (offset, name), inner in sorted(node.inlined.items()):
        if inner.total:
            yield f"{indent}{offset}: {name}:{inner.total}\n"
            yield from _written(inner, depth + 1)
