"""What four counters of the guest's Performance Monitors cost: the same run with and without them.

A round is a machine, on which all that is compared takes turns (``counted``). Its figure is the
shortest piece with counters by the shortest without. The figure of a program is the median over the
rounds; how far two figures of the same thing lie apart stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Final

from arithmetic import shortest_ratio
from counted import AGAIN, ALL, WAYS, WITHOUT
from measure import LOOPS, OFF, fit
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from sides import Side

AIM: Final = 5.0
"""Percent that they may cost, by Arm's recommendation (D13.2.1)."""
PIECES: Final = 5
"""Pieces of each kind on a machine."""
_LENGTHS: Final = 10
"""Pieces in the time that a run is to take."""
Pairs = Sequence[tuple[float, float]]
"""CPU seconds of pieces: the one that begins with a change of what counts, and the one after it."""


@dataclass(frozen=True)
class Cost:
    """Percent of the time without counters that they add to one program's run."""

    program: str
    by_way: dict[str, float]
    """By what counts, medians over the rounds. That of ``AGAIN`` would be 0 without noise."""
    noise: float
    """The largest distance from 0 that a round has for ``AGAIN``."""
    change: float
    """Seconds that it takes to begin to count all four and to stop."""

    @property
    def is_loop(self) -> bool:
        """Whether it is a tight loop, not real work."""
        return self.program in LOOPS


def measure_counters(
    programs: Sequence[str], side: Side, seconds: float, rounds: int, tell: Callable[[str], None]
) -> list[Cost]:
    """Measure programs, with pieces of a tenth of ``seconds``. Raises ProgramError."""
    found = []
    for name in programs:
        iterations = fit(side, OFF, name, seconds / _LENGTHS)
        machines = []
        for number in range(rounds):
            tell(f"{name}: round {number + 1} of {rounds}")
            machines.append(side.pieces(name, iterations, PIECES))
        found.append(cost(name, machines))
    return found


def cost(program: str, machines: Sequence[dict[str, Pairs]]) -> Cost:
    """What the pieces of a program on several machines come to."""

    def percents(way: str) -> list[float]:
        return [
            100 * (shortest_ratio(_seconds(m[way]), _seconds(m[WITHOUT])) - 1) for m in machines
        ]

    changes = [begin - after for machine in machines for begin, after in machine[ALL]]
    return Cost(
        program,
        {way: median(percents(way)) for way in WAYS if way != WITHOUT},
        max(map(abs, percents(AGAIN))),
        median(changes),
    )


def _seconds(pairs: Pairs) -> list[float]:
    return [after for _, after in pairs]


def mean_cost(costs: Sequence[Cost]) -> float | None:
    """Percent that all four cost: the geometric mean over real work, None if there is none."""
    work = [1 + cost.by_way[ALL] / 100 for cost in costs if not cost.is_loop]
    return 100 * (geometric_mean(work) - 1) if work else None


def print_costs(console: Console, costs: Sequence[Cost]) -> None:
    """The table of costs."""
    ways = [way for way in WAYS if way not in (WITHOUT, AGAIN)]
    table = Table(title="Percent of the time without counters that they add", box=SIMPLE)
    table.add_column("program", no_wrap=True)
    for title in (*ways, AGAIN, "noise", "ms a change"):
        table.add_column(title.replace("_", " ").replace("RETIRED", "RET"), justify="right")
    for found in costs:
        figures = [f"{found.by_way[way]:+.1f}" for way in (*ways, AGAIN)]
        table.add_row(found.program, *figures, f"{found.noise:.1f}", f"{1000 * found.change:.1f}")
    console.print(table)
    mean = mean_cost(costs)
    if mean is not None:
        console.print(f"Geometric mean of all four over real work: {mean:+.1f} % (aim {AIM:.0f})")
