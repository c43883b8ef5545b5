"""The matrix of modes: what an operation costs in each combination of what can be switched on.

A cell is a core, a model, who samples what, and what else watches. Its neighbours differ from it in
one of these. A cell that takes more than :data:`CLIFF` times as long as its cheapest neighbour has
a line of its own, with the reason where one is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Final, NamedTuple

from arithmetic import lower_quartile
from measure import Column, fit
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sides import Side

CLIFF: Final = 4.0
"""How many times as long a cell may take as its cheapest neighbour without a line that says why."""
SLOWEST: Final = 5
"""Rounds of a cell at most: the matrix has many."""
CORES: Final = ("generic", "neoverse-n1", "neoverse-v2", "max")
MODELS: Final = ("none", "cache")
SAMPLERS: Final[dict[str, dict[str, Any]]] = {
    "off": {},
    "guest": {"interval": 4096},
    "record": {"period": 4096},
    "loads": {"period": 4096, "kinds": ["load"]},
}
"""SPE off; on by the guest; sampled from outside; and of those samples only loads kept."""
WATCHERS: Final[dict[str, dict[str, Any]]] = {
    "-": {},
    "counters": {"counters": True},
    "misuse": {"misuse": True},
    "2 PEs": {"pes": 2},
}
"""Nothing; four of the guest's counters; --warn misuse; a second PE, which is off."""
WHY: Final[tuple[tuple[dict[str, str], str], ...]] = (
    (
        {"sampler": "guest", "watcher": "misuse"},
        "each load is looked at while records wait for a DSB",
    ),
    ({"model": "cache"}, "each access and each branch moves caches, TLBs and the predictor"),
)
"""Reasons: each is one for cells that have these values, beside those that have not all of them."""


@dataclass(frozen=True, order=True)
class Cell:
    """A combination of modes."""

    core: str
    model: str
    sampler: str
    watcher: str

    @property
    def machine(self) -> dict[str, Any]:
        """As the worker takes it."""
        options = SAMPLERS[self.sampler] | WATCHERS[self.watcher]
        return {"kind": "board", "core": self.core, "model": self.model, **options}

    def __str__(self) -> str:
        return ", ".join((self.core, self.model, self.sampler, self.watcher))


CELLS: Final = tuple(Cell(*values) for values in product(CORES, MODELS, SAMPLERS, WATCHERS))
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "core": CORES,
    "model": MODELS,
    "sampler": tuple(SAMPLERS),
    "watcher": tuple(WATCHERS),
}


class Cliff(NamedTuple):
    """A cell that takes long beside a neighbour: how many times as long, and why."""

    cell: Cell
    neighbour: Cell
    times: float
    why: str | None

    def __str__(self) -> str:
        why = self.why or "no reason is known"
        return f"{self.cell}: {self.times:.1f} times ({self.neighbour}): {why}"


def measure_modes(
    program: str, side: Side, seconds: float, rounds: int, tell: Callable[[str], None]
) -> dict[Cell, float]:
    """Nanoseconds of CPU time an operation, by cell. Raises ProgramError."""
    operations = side.count(program).operations
    sizes = {}
    for number, cell in enumerate(CELLS):
        tell(f"{program}: {number + 1} of {len(CELLS)} modes")
        sizes[cell] = fit(side, Column(str(cell), cell.machine), program, seconds)
    times: dict[Cell, list[float]] = {cell: [] for cell in CELLS}
    for number in range(min(rounds, SLOWEST)):
        tell(f"{program}: round {number + 1} of {min(rounds, SLOWEST)}")
        for cell in CELLS:
            times[cell].append(side.run(program, cell.machine, sizes[cell]).pace)
    return {cell: lower_quartile(paces) / operations * 1e9 for cell, paces in times.items()}


def neighbours(cell: Cell) -> Iterator[Cell]:
    """The cells that differ in one thing."""
    for field in fields(Cell):
        for value in _VALUES[field.name]:
            if value != getattr(cell, field.name):
                yield replace(cell, **{field.name: value})


def cliffs(costs: Mapping[Cell, float]) -> list[Cliff]:
    """The cells far above their cheapest neighbour, the farthest first."""
    found = []
    for cell, cost in costs.items():
        there = [(costs[other], other) for other in neighbours(cell) if other in costs]
        if there:
            least, other = min(there)
            if cost > CLIFF * least:
                found.append(Cliff(cell, other, cost / least, _why(cell, other)))
    return sorted(found, key=lambda cliff: -cliff.times)


def _why(cell: Cell, other: Cell) -> str | None:
    """Why a cell costs more than another one; None if no reason is known."""
    for where, why in WHY:
        has, has_not = (all(getattr(c, k) == v for k, v in where.items()) for c in (cell, other))
        if has and not has_not:
            return why
    return None


def print_modes(console: Console, program: str, costs: Mapping[Cell, float]) -> None:
    """The matrix, and its cliffs."""
    title = f"ns an operation of {program}, by mode"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in ("core", "model", "sampled"):
        table.add_column(name, no_wrap=True)
    for name in WATCHERS:
        table.add_column("alone" if name == "-" else name, justify="right")
    for core, model in product(CORES, MODELS):
        for sampler in SAMPLERS:
            cells = (costs[Cell(core, model, sampler, watcher)] for watcher in WATCHERS)
            table.add_row(core, model, sampler, *(f"{cost:.2f}" for cost in cells))
        table.add_section()
    console.print(table)
    found = cliffs(costs)
    console.print(f"{len(found)} of {len(costs)} are more than {CLIFF:.0f} times a neighbour")
    for cliff in found:
        console.print(str(cliff), soft_wrap=True)


def as_json(costs: Mapping[Cell, float]) -> Sequence[dict[str, Any]]:
    """A row a cell: what it is, and nanoseconds an operation."""
    return [
        {**{field.name: getattr(cell, field.name) for field in fields(Cell)}, "ns": cost}
        for cell, cost in costs.items()
    ]
