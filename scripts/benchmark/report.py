"""Results as tables for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from statistics import mean
from typing import Any

from measure import (
    AIM_NS_A_BLOCK,
    AIM_US_A_SAMPLE,
    COLUMNS,
    SAMPLED,
    Column,
    Result,
    geometric_means,
)
from rich import box
from rich.console import Console
from rich.table import Table


def print_tables(console: Console, results: list[Result]) -> None:
    """Ratios to the bare engine, what they come from; then caches, and micro-operations."""
    plain = [column for column in COLUMNS if not column.modelled and not column.cracked]
    console.print(_ratios("Speed as a part of the bare engine's", plain, results))
    console.print(_costs(results))
    modelled = [column for column in COLUMNS if column.modelled]
    console.print(_ratios("The same with --model cache", modelled, results))
    cracked = [column for column in COLUMNS if column.cracked]
    console.print(_ratios("The same with micro-operations as the population", cracked, results))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("program", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _ratios(title: str, columns: list[Column], results: list[Result]) -> Table:
    names = [column.name for column in columns]
    table = _table(title, "bare M/s", *names)
    for result in _in_groups(results):
        rate = result.operations / result.bare_seconds / 1e6
        table.add_row(result.program, f"{rate:.0f}", *(_ratio(result.ratios[n]) for n in names))
    means = geometric_means(results)
    if means:
        table.add_section()
        table.add_row("mean of work", "", *(_ratio(means[n]) for n in names))
        aims = [column.aim for column in columns]
        if any(aim is not None for aim in aims):
            table.add_row("aim", "", *("" if aim is None else f"{aim:.2f}" for aim in aims))
    return table


def _costs(results: list[Result]) -> Table:
    table = _table("What it comes from: ns a block, µs a sample", "ops/block", "ns", *SAMPLED)
    for result in _in_groups(results):
        table.add_row(
            result.program,
            f"{result.operations / result.blocks:.1f}",
            f"{result.ns_a_block:.2f}",
            *(f"{result.us_a_sample[n]:.1f}" for n in SAMPLED),
        )
    judged = [r for r in results if r.judged]
    if judged:
        samples = (mean(r.us_a_sample[n] for r in judged) for n in SAMPLED)
        ns = mean(r.ns_a_block for r in judged)
        table.add_section()
        table.add_row("mean of work", "", f"{ns:.2f}", *(f"{us:.1f}" for us in samples))
        aim = f"{AIM_US_A_SAMPLE:.0f}"
        table.add_row("aim at most", "", f"{AIM_NS_A_BLOCK}", *(aim for _ in SAMPLED))
    return table


def _in_groups(results: list[Result]) -> list[Result]:
    """Loops before work."""
    return sorted(results, key=lambda r: r.judged)


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def as_json(results: list[Result], seconds: float, rounds: int) -> dict[str, Any]:
    """Everything, with what the host was."""
    return {
        "host": {
            "machine": platform.machine(),
            "system": platform.system(),
            "processors": os.cpu_count(),
            "python": platform.python_version(),
            "unicorn": version("unicorn"),
            "numba": version("numba"),
        },
        "seconds": seconds,
        "rounds": rounds,
        "programs": {
            r.program: {**asdict(r), "kind": "work" if r.judged else "loop"} for r in results
        },
        "geometric_means": geometric_means(results),
        "aims": {
            "ratios": {c.name: c.aim for c in COLUMNS if c.aim is not None},
            "ns_a_block": AIM_NS_A_BLOCK,
            "us_a_sample": AIM_US_A_SAMPLE,
        },
    }
