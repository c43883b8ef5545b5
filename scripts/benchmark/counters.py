"""What four counters of the guest's Performance Monitors cost: the same run with and without them.

Both take turns in one process, so that what else the host does disturbs them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from arithmetic import lower_quartile
from measure import LOOPS, OFF, fit
from rich.console import Console
from rich.table import Table
from sides import Side

AIM: Final = 5.0
"""Percent that they may cost, by Arm's recommendation (D13.2.1)."""
_PLAIN: Final[dict[str, Any]] = {"kind": "board"}
_COUNTING: Final[dict[str, Any]] = {"kind": "board", "counters": True}


@dataclass(frozen=True)
class Cost:
    """Percent of the time without counters that they add to one program's run."""

    program: str
    percent: float

    @property
    def is_loop(self) -> bool:
        """Whether it is a tight loop, not real work."""
        return self.program in LOOPS


def measure_counters(
    programs: Sequence[str], side: Side, seconds: float, rounds: int, tell: Callable[[str], None]
) -> list[Cost]:
    """Measure programs with about ``seconds`` for a run. Raises ProgramError."""
    found = []
    for name in programs:
        iterations = fit(side, OFF, name, seconds)
        paces: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            tell(f"{name}: round {number + 1} of {rounds}")
            both = [(_PLAIN, paces[0]), (_COUNTING, paces[1])]
            for machine, into in both if number % 2 == 0 else reversed(both):
                into.append(side.run(name, machine, iterations).pace)
        without, with_counters = map(lower_quartile, paces)
        found.append(Cost(name, 100 * (with_counters / without - 1)))
    return found


def print_costs(console: Console, costs: Sequence[Cost]) -> None:
    """The table of costs."""
    table = Table("program", "cost of four counters")
    for cost in costs:
        far = " (more than " + f"{AIM:.0f} %)" if cost.percent > AIM else ""
        table.add_row(cost.program, f"{cost.percent:+.1f} %{far}")
    console.print(table)
