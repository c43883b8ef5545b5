"""Growth: whether a unit costs the same CPU time and memory where there are many more of them.

Each size is a command of its own. What one takes more than the one before it, by the units that it
has more, is the price of a unit: the start of the process falls out. The slope is the price at the
last sizes by that at the first ones, 1 where growth is flat.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from arithmetic import lower_quartile
from commands import firmware
from iterations import with_iterations
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sides import used_by

MOST: Final = 64
"""The largest factor of all sizes."""
ROUNDS: Final = 3
"""Rounds at most: the largest sizes take minutes."""
_GUEST: Final = str(Path(__file__).with_name("growth_guest.py"))


class Kind(NamedTuple):
    """Something of which there can be much. A unit is ``each`` of what ``sizes`` count."""

    title: str
    unit: str
    sizes: tuple[int, int, int]
    grows: bool
    """Whether a factor of all sizes makes these larger."""


KINDS: Final[dict[str, Kind]] = {
    "operations": Kind(
        "iterations of interp, recorded to a file", "iteration", (40, 160, 640), True
    ),
    "pes": Kind("PEs with a loop each", "PE", (2, 4, 8), False),
    "ram": Kind("RAM that is stored to", "MiB", (64, 128, 256), True),
    "blocks": Kind("blocks of code that run twice", "block", (1600, 3200, 6400), True),
}


@dataclass(frozen=True)
class Cost:
    """What a command of a size took: CPU seconds, and the most memory in KiB."""

    size: int
    seconds: float
    memory: int


@dataclass(frozen=True)
class Growth:
    """What three sizes of a kind came to."""

    name: str
    costs: tuple[Cost, Cost, Cost]

    @property
    def times(self) -> tuple[float, float]:
        """CPU seconds of a unit: from the first size to the second, from there to the third."""
        return self._of_a_unit([cost.seconds for cost in self.costs])

    @property
    def memory(self) -> tuple[float, float]:
        """KiB of a unit, in the same way."""
        return self._of_a_unit([cost.memory for cost in self.costs])

    def _of_a_unit(self, figures: Sequence[float]) -> tuple[float, float]:
        first, second, third = figures
        small, middle, large = (cost.size for cost in self.costs)
        return (second - first) / (middle - small), (third - second) / (large - middle)

    @property
    def slope(self) -> float | None:
        """How many times as long a unit takes at the last sizes; None if that cannot be told."""
        before, after = self.times
        return after / before if before > 0 and after > 0 else None

    def as_json(self) -> dict[str, Any]:
        """The figures."""
        sizes, seconds, memory = zip(
            *((c.size, c.seconds, c.memory) for c in self.costs), strict=True
        )
        return {"sizes": sizes, "seconds": seconds, "memory": memory, "slope": self.slope}


def measure_growth(
    factor: int, rounds: int, names: Sequence[str], tell: Callable[[str], None]
) -> list[Growth]:
    """Measure kinds with all sizes ``factor`` times as large. Raises ProgramError."""
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name in names:
            kind = KINDS[name]
            sizes = [size * factor if kind.grows else size for size in kind.sizes]
            costs: dict[int, list[Cost]] = {size: [] for size in sizes}
            for number in range(rounds):
                for size in sizes:
                    tell(f"{name}: {size}, round {number + 1} of {rounds}")
                    words = _words(name, size, factor, Path(folder))
                    costs[size].append(_cost(size, words))
            first, second, third = (_least(its) for its in costs.values())
            found.append(Growth(name, (first, second, third)))
    return found


def _words(name: str, size: int, factor: int, folder: Path) -> list[str]:
    if name != "operations":
        return [_GUEST, name, str(size), str(factor)]
    elf = folder / "interp.elf"
    elf.write_bytes(with_iterations(Path(firmware("bench_interp")).read_bytes(), size))
    records = str(folder / "records.data")
    return ["-m", "spe_unicorn", "record", "-q", "-c", "4096", "-o", records, str(elf)]


def _cost(size: int, words: Sequence[str]) -> Cost:
    """What a command of this Python takes. Raises ProgramError if it fails."""
    used = used_by([sys.executable, *words])
    return Cost(size, used.ru_utime + used.ru_stime, used.ru_maxrss)


def _least(costs: Sequence[Cost]) -> Cost:
    seconds = lower_quartile([cost.seconds for cost in costs])
    return Cost(costs[0].size, seconds, min(cost.memory for cost in costs))


def print_growth(console: Console, found: Sequence[Growth]) -> None:
    """The table."""
    table = Table(title="Growth", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("what", no_wrap=True)
    for name in ("sizes", "CPU s", "MiB", "µs a unit", "slope", "KiB a unit"):
        table.add_column(name, justify="right")
    for growth in found:
        seconds, memory, slope = growth.times, growth.memory, growth.slope
        table.add_row(
            growth.name,
            " ".join(str(cost.size) for cost in growth.costs),
            " ".join(f"{cost.seconds:.1f}" for cost in growth.costs),
            " ".join(f"{cost.memory / 1024:.0f}" for cost in growth.costs),
            " ".join(f"{1e6 * each:.3g}" for each in seconds),
            "-" if slope is None else f"{slope:.2f}",
            " ".join(f"{each:.3g}" for each in memory),
        )
    console.print(table)
    for growth in found:
        kind = KINDS[growth.name]
        console.print(f"{growth.name}: {kind.title}; a unit is one {kind.unit}", soft_wrap=True)
