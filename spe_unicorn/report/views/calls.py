"""Who calls what: a tree of calls, and functions with what they call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spe_unicorn.report.profiles.stacks import stacks_of
from spe_unicorn.report.samples import WEIGHTS, Samples
from spe_unicorn.report.tables import Cell, Column, Kind, Table
from spe_unicorn.symbols.table import printable

_LEAST = 20
_INDENT = "  "
_DEEPEST = 127
"""Levels of a tree that are shown."""


@dataclass
class Node:
    """A function where it was called: what it and all that it called count, and itself alone."""

    name: str
    total: float = 0.0
    own: float = 0.0
    called: dict[str, Node] = field(default_factory=dict)

    @property
    def heaviest(self) -> list[Node]:
        """What it called, the heaviest first."""
        return sorted(self.called.values(), key=lambda node: (-node.total, node.name))


class CallGraph:
    """The calls of samples, by function; ``by`` is a word of ``samples.WEIGHTS``.

    Samples come piece by piece.
    """

    def __init__(self, by: str, samples: Samples | None = None) -> None:
        self.by = by
        self._paths: dict[tuple[str, ...], float] = {}
        for piece in () if samples is None else samples.pieces():
            self.add(piece)

    def add(self, samples: Samples) -> None:
        """Count samples: by the functions of each stack from the outermost."""
        stacks = stacks_of(samples, self.by)
        counts = np.bincount(stacks.number, stacks.weights, len(stacks.stacks)).tolist()
        for stack, count in zip(stacks.stacks, counts, strict=True):
            if count:
                path = tuple(printable(frame.function) for frame in stack.frames)
                self._paths[path] = self._paths.get(path, 0.0) + count

    @cached_property
    def root(self) -> Node:
        """What stands above all outermost functions."""
        root = Node("")
        for path, count in self._paths.items():
            node = root
            node.total += count
            for name in path:
                node = node.called.setdefault(name, Node(name))
                node.total += count
            node.own += count
        return root

    @cached_property
    def functions(self) -> list[Node]:
        """Each function once, however it was called, the heaviest with what it called first."""
        found: dict[str, Node] = {}
        for path, count in self._paths.items():
            for name in dict.fromkeys(path):
                found.setdefault(name, Node(name)).total += count
            found[path[-1]].own += count
        return sorted(found.values(), key=lambda node: (-node.total, -node.own, node.name))


def tree_table(graph: CallGraph, limit: float, most: int) -> Table:
    """The tree of calls: each function below the one that called it, the heaviest first.

    Branches of less than ``limit`` of all are left out, and so is what follows ``most`` rows.
    """
    whole = graph.root.total or 1.0
    rows: list[tuple[Cell, ...]] = []
    left_out = 0
    waiting = [(node, 0) for node in reversed(graph.root.heaviest)]
    while waiting:
        node, depth = waiting.pop()
        if node.total / whole < limit or len(rows) >= most or depth > _DEEPEST:
            left_out += 1
            continue
        rows.append((node.total / whole, node.own / whole, _INDENT * depth + node.name))
        waiting += [(called, depth + 1) for called in reversed(node.heaviest)]
    note = f"Of {WEIGHTS[graph.by].name}."
    if left_out:
        note += f" {left_out} branches of the tree are not shown."
    return Table("Calls", _columns(), rows, note)


def functions_table(graph: CallGraph, limit: float, most: int) -> Table:
    """Functions with what they called, as ``perf report --children``: a sample counts in each."""
    whole = graph.root.total or 1.0
    shown = [node for node in graph.functions if node.total / whole >= limit][:most]
    rows: list[tuple[Cell, ...]] = [
        (node.total / whole, node.own / whole, node.name) for node in shown
    ]
    return Table("Functions with what they call", _columns(), rows, f"Of {WEIGHTS[graph.by].name}.")


class CallTree:
    """The calls of samples as a tree of numbered nodes.

    A node has a function, by its number in ``names``, and the node above it, which has a lower
    number; -1 for none. Samples come piece by piece.
    """

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}

    def nodes(self, samples: Samples) -> npt.NDArray[np.uint32]:
        """The node of each sample."""
        stacks = stacks_of(samples, "samples")
        last = []
        for stack in stacks.stacks:
            node = -1
            for frame in stack.frames:
                name = self._names.setdefault(printable(frame.function), len(self._names))
                node = self._nodes.setdefault((node, name), len(self._nodes))
            last.append(node)
        result: npt.NDArray[np.uint32] = np.take(np.array(last, np.uint32), stacks.number)
        return result

    @property
    def tree(self) -> dict[str, list[Any]]:
        """All nodes so far."""
        return {
            "names": list(self._names),
            "above": [above for above, _ in self._nodes],
            "name": [name for _, name in self._nodes],
        }


def _columns() -> tuple[Column, ...]:
    return (
        Column("With calls", Kind.SHARE),
        Column("Itself", Kind.SHARE),
        Column("Function", least=_LEAST),
    )
