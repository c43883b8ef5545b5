"""Measures programs on machines, side by side.

The machines take turns, round by round, each time with the engine's code buffer elsewhere. A
machine's figure is the lower quartile of its times over the rounds. Each machine does as many
iterations as fit into the time that was asked for; two checkouts do equally many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

import qemu
from arithmetic import is_refused, lower_quartile, mean_ratio, spread
from sides import Counts, ProgramError, Run, Side

from spe_unicorn.host.engine.known import why_not

LOOPS: Final = ("alu8", "alu32", "load", "store", "branchy", "fp")
"""Tight loops: reported, not judged."""
WORK: Final = ("sort", "crc", "hash", "matmul", "strsearch", "list", "interp")
"""Programs that look like real work: their geometric mean is judged."""


def _board(**options: Any) -> dict[str, Any]:
    return {"kind": "board", **options}


@dataclass(frozen=True)
class Column:
    """A way to run a program."""

    name: str
    machine: Mapping[str, Any]
    """As the worker takes it."""
    aims: tuple[float, float] | None = None
    """The least geometric means over real work to hope for, with and without inline counting."""
    samples: bool = False
    modelled: bool = False
    """With caches, TLBs and a branch predictor."""
    cracked: bool = False
    """With micro-operations as the population."""
    once: bool = False
    """Too slow for more than one iteration and one round."""
    of_qemu: float | None = None
    """The least geometric mean over real work to hope for, as a part of QEMU's speed."""

    @property
    def aim(self) -> float | None:
        """The geometric mean to hope for on this host."""
        return None if self.aims is None else self.aims[why_not() is not None]


MICRO: Final = "neoverse-v2"
"""A core that samples micro-operations."""
REAL: Final = "neoverse-n1"
"""A core as its silicon is, with --model cache: micro-operations, wrong paths, data sources."""
BARE: Final = Column("bare", {"kind": "bare"})
OFF: Final = Column("off", _board(), (1.0, 0.8), of_qemu=0.95)
COLUMNS: Final = (
    OFF,
    Column("1024", _board(interval=1024), (0.75, 0.6), samples=True),
    Column("4096", _board(interval=4096), (0.9, 0.7), samples=True),
    Column("65536", _board(interval=65536), (0.95, 0.75), samples=True),
    Column("record", _board(period=4096), (0.85, 0.65), samples=True, of_qemu=0.9),
    Column("cache", _board(model="cache"), (0.3, 0.07), modelled=True),
    Column("cache 4096", _board(interval=4096, model="cache"), (0.25, 0.06), modelled=True),
    Column("uops off", _board(core=MICRO), cracked=True),
    Column("uops 1024", _board(interval=1024, core=MICRO), (0.5, 0.35), cracked=True),
    Column("uops 4096", _board(interval=4096, core=MICRO), (0.7, 0.5), cracked=True),
    Column("uops 65536", _board(interval=65536, core=MICRO), (0.85, 0.65), cracked=True),
    Column("uops cache 4096", _board(interval=4096, model="cache", core=MICRO), cracked=True),
    Column(
        "n1 cache record",
        _board(period=4096, model="cache", core=REAL),
        cracked=True,
        of_qemu=0.3,
    ),
    Column("Python", {"kind": "per_instruction"}, once=True),
)
BESIDE_QEMU: Final = (BARE, *(column for column in COLUMNS if column.of_qemu is not None))
SAMPLED: Final = tuple(column.name for column in COLUMNS if column.samples)
AIM_NS_A_BLOCK: Final = 2.5
AIM_US_A_SAMPLE: Final = 20.0


@dataclass(frozen=True)
class Result:
    """One program on one side.

    ``ratios`` are speeds as parts of the bare engine's, by column. ``ns_a_block`` is what our
    hooks add to each translated block, ``us_a_sample`` what a sample adds to the run with
    sampling off, by column. All are None if ``refused``: the quartiles of the bare engine's times
    differ by ``spread``, which is too much. What a side does not have is None, too.
    """

    program: str
    operations: int
    blocks: int
    bare_seconds: float
    ratios: dict[str, float | None]
    ns_a_block: float | None
    us_a_sample: dict[str, float | None]
    spread: float | None
    refused: bool
    paces: dict[str, float] = field(default_factory=dict)
    """Seconds an iteration, by column; nothing if refused."""
    blocks_refused: int = 0
    """Blocks that could not be made to count themselves, in the run that had most of them."""
    qemu_seconds: float | None = None
    """Seconds an iteration on QEMU, None where it is not installed."""

    def of_qemu(self, column: str) -> float | None:
        """The speed of a column as a part of QEMU's."""
        pace = self.paces.get(column)
        return None if pace is None or self.qemu_seconds is None else self.qemu_seconds / pace

    @property
    def judged(self) -> bool:
        """Whether it is real work."""
        return self.program in WORK


Runs = dict[str, list[Run]]
"""Runs of one program on one side, by column, BARE among them."""


def measure(
    name: str, there: Sequence[Side], seconds: float, rounds: int, tell: Callable[[str], None]
) -> list[Result]:
    """Measure one program on each side, with about ``seconds`` for a run.

    Where the host was not quiet it is all done once more. ``tell`` hears what is being done. Raises
    ProgramError for this checkout.
    """
    tell(f"{name}: counting")
    here = there[0]
    counts = here.count(name)
    sizes = {c.name: 1 if c.once else fit(here, c, name, seconds) for c in (BARE, *COLUMNS)}
    for side in there[1:]:  # what it compiles at first is no part of a round
        _round(side, {}, name, dict.fromkeys(sizes, 1), 1)
    for again in (False, True):
        on_qemu: list[float] = []
        found: list[Runs] = [{} for _ in there]
        for number in range(rounds):
            tell(f"{name}: round {number + 1} of {rounds}{', once more' * again}")
            order = list(zip(there, found, strict=True))
            for side, runs in order if number % 2 == 0 else reversed(order):
                _round(side, runs, name, sizes, number)
            if qemu.is_here():
                enough = max(2 * seconds, qemu.LEAST_SECONDS)
                run = qemu.run(name, ceil(enough / found[0][BARE.name][-1].pace))
                on_qemu += [] if run is None else [run.pace]
        qemu_pace = lower_quartile(on_qemu) if on_qemu else None
        results = [summary(name, counts, runs, qemu_pace) for runs in found]
        if not any(result.refused for result in results):
            break
    return results


def _round(side: Side, runs: Runs, name: str, sizes: dict[str, int], number: int) -> None:
    for column in (BARE, *COLUMNS):
        if column.once and number:
            continue
        try:
            run = side.run(name, dict(column.machine), sizes[column.name])
        except ProgramError:
            if side.commit is None:
                raise
        else:
            runs.setdefault(column.name, []).append(run)


def fit(side: Side, column: Column, program: str, seconds: float) -> int:
    """How many iterations take about ``seconds``; at least one."""
    machine = dict(column.machine)
    run = side.run(program, machine, 1)
    size = max(1, round(seconds / 4 / run.pace))
    if size > 1:  # the first iteration is mostly translation
        run = side.run(program, machine, size)
    return max(1, round(seconds / run.pace))


def summary(name: str, counts: Counts, runs: Runs, qemu_seconds: float | None = None) -> Result:
    """What the runs of a program come to on one side."""
    bare_times = [run.pace for run in runs[BARE.name]]
    bare = lower_quartile(bare_times)
    apart = spread(bare_times)
    refused = is_refused(apart)
    paces = {} if refused else {c: lower_quartile([r.pace for r in runs[c]]) for c in runs}
    off = paces.get(OFF.name)
    return Result(
        name,
        counts.operations,
        counts.blocks,
        bare,
        {c.name: bare / paces[c.name] if c.name in paces else None for c in COLUMNS},
        None if off is None else (off - bare) / counts.blocks * 1e9,
        {
            column: None
            if off is None or column not in paces
            else (paces[column] - off) / _samples(runs[column]) * 1e6
            for column in SAMPLED
        },
        apart,
        refused,
        paces,
        max(run.refused for column in runs.values() for run in column),
        qemu_seconds,
    )


def _samples(runs: list[Run]) -> float:
    """Samples an iteration."""
    return sum(run.events for run in runs) / sum(run.iterations for run in runs)


def geometric_means(results: list[Result]) -> dict[str, float | None]:
    """By column, over real work; nothing if there is none, None where a program was refused."""
    judged = [r for r in results if r.judged]
    if not judged:
        return {}
    return {c.name: mean_ratio(r.ratios[c.name] for r in judged) for c in COLUMNS}


def means_of_qemu(results: list[Result]) -> dict[str, float | None]:
    """Geometric means of speeds as parts of QEMU's, by column, over real work."""
    judged = [r for r in results if r.judged]
    return {c.name: mean_ratio(r.of_qemu(c.name) for r in judged) for c in BESIDE_QEMU}


def speedups(result: Result, older: Result) -> dict[str, float | None]:
    """How many times as fast a program is here as on the other side, by column."""
    return {
        c.name: older.paces[c.name] / result.paces[c.name]
        if c.name in older.paces and c.name in result.paces
        else None
        for c in COLUMNS
    }


def mean_speedups(results: list[Result], older: list[Result]) -> dict[str, float | None]:
    """Geometric means of :func:`speedups` over real work, by column; nothing if there is none."""
    judged = [speedups(a, b) for a, b in zip(results, older, strict=True) if a.judged]
    return {c.name: mean_ratio(s[c.name] for s in judged) for c in COLUMNS} if judged else {}
