"""Measures programs on machines, side by side.

The machines take turns, round by round, and a ratio is made of two runs of the same round: what
slows the host down for a while slows both. The median over the rounds is what counts. Each
machine does as many iterations as fit into the time that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Final

import machines
from machines import Machine, Program, Run

LOOPS: Final = ("alu8", "alu32", "load", "store", "branchy", "fp")
"""Tight loops: reported, not judged."""
WORK: Final = ("sort", "crc", "hash", "matmul", "strsearch", "list", "interp")
"""Programs that look like real work: their geometric mean is judged."""


@dataclass(frozen=True)
class Column:
    """A way to run a program. ``aim`` is the least geometric mean over real work to hope for."""

    name: str
    machine: Machine
    aim: float | None = None
    samples: bool = False
    modelled: bool = False
    """With caches, TLBs and a branch predictor."""
    cracked: bool = False
    """With micro-operations as the population."""
    once: bool = False
    """Too slow for more than one iteration and one round."""


MICRO: Final = machines.MICRO_OPERATIONS
OFF: Final = Column("off", machines.board(), aim=0.65)
COLUMNS: Final = (
    OFF,
    Column("1024", machines.board(1024), aim=0.08, samples=True),
    Column("4096", machines.board(4096), aim=0.25, samples=True),
    Column("65536", machines.board(65536), aim=0.55, samples=True),
    Column("record", machines.board(period=4096), samples=True),
    Column("cache", machines.board(model="cache"), modelled=True),
    Column("cache 4096", machines.board(4096, model="cache"), modelled=True),
    Column("uops off", machines.board(core=MICRO), cracked=True),
    Column("uops 1024", machines.board(1024, core=MICRO), cracked=True),
    Column("uops 4096", machines.board(4096, core=MICRO), cracked=True),
    Column("uops 65536", machines.board(65536, core=MICRO), cracked=True),
    Column("uops cache 4096", machines.board(4096, model="cache", core=MICRO), cracked=True),
    Column("Python", machines.per_instruction, once=True),
)
SAMPLED: Final = tuple(column.name for column in COLUMNS if column.samples)
AIM_NS_A_BLOCK: Final = 2.5
AIM_US_A_SAMPLE: Final = 20.0


@dataclass(frozen=True)
class Result:
    """One program: medians over the rounds.

    ``ratios`` are speeds as parts of the bare engine's, by column. ``ns_a_block`` is what our
    hooks add to each translated block, ``us_a_sample`` what a sample adds to the run with
    sampling off, by column.
    """

    program: str
    operations: int
    blocks: int
    bare_seconds: float
    ratios: dict[str, float]
    ns_a_block: float
    us_a_sample: dict[str, float]

    @property
    def judged(self) -> bool:
        """Whether it is real work."""
        return self.program in WORK


def measure(name: str, seconds: float, rounds: int, tell: Callable[[str], None]) -> Result:
    """Measure one program, with about ``seconds`` for a run. ``tell`` hears what is being done.

    Raises ProgramError.
    """
    tell(f"{name}: counting")
    program = Program(name)
    blocks = machines.per_block(program, 1).events
    bare_size = _fit(machines.bare, program, seconds)
    sizes = {c.name: 1 if c.once else _fit(c.machine, program, seconds) for c in COLUMNS}
    bares: list[Run] = []
    runs: dict[str, list[Run]] = {c.name: [] for c in COLUMNS}
    for number in range(rounds):
        tell(f"{name}: round {number + 1} of {rounds}")
        bares.append(machines.bare(program, bare_size))
        for column in COLUMNS:
            if number == 0 or not column.once:
                runs[column.name].append(column.machine(program, sizes[column.name]))
    offs = runs[OFF.name]
    return Result(
        name,
        machines.operations(program),
        blocks,
        median(bare.pace for bare in bares),
        {
            column: median(bare.pace / run.pace for bare, run in zip(bares, those, strict=False))
            for column, those in runs.items()
        },
        median(
            (off.pace - bare.pace) / blocks * 1e9 for bare, off in zip(bares, offs, strict=True)
        ),
        {
            column: median(
                _sample_cost(run, off) for run, off in zip(runs[column], offs, strict=True)
            )
            for column in SAMPLED
        },
    )


def _fit(machine: Machine, program: Program, seconds: float) -> int:
    """How many iterations take about ``seconds``; at least one."""
    run = machine(program, 1)
    size = max(1, round(seconds / 4 / run.pace))
    if size > 1:  # the first iteration is mostly translation
        run = machine(program, size)
    return max(1, round(seconds / run.pace))


def _sample_cost(run: Run, off: Run) -> float:
    """Microseconds that each sample added."""
    return (run.pace - off.pace) * run.iterations / run.events * 1e6


def geometric_means(results: list[Result]) -> dict[str, float]:
    """By column, over real work; nothing if there is none."""
    judged = [r for r in results if r.judged]
    if not judged:
        return {}
    return {c.name: geometric_mean(r.ratios[c.name] for r in judged) for c in COLUMNS}
