"""Results as tables for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from statistics import mean
from typing import Any

from arithmetic import MOST_SPREAD
from commands import Finding
from measure import (
    AIM_NS_A_BLOCK,
    AIM_US_A_SAMPLE,
    BESIDE_QEMU,
    COLUMNS,
    SAMPLED,
    Column,
    Result,
    geometric_means,
    mean_speedups,
    means_of_qemu,
    speedups,
)
from rich import box
from rich.console import Console
from rich.table import Table

from spe_unicorn.host.engine.known import why_not

NOTHING = "-"
"""Stands for a figure that was refused, or that there is not."""


def print_tables(
    console: Console,
    results: list[Result],
    older: list[Result],
    found: list[Finding],
    against: str | None = None,
) -> None:
    """Ratios to the bare engine and what they come from; another commit's; whole commands."""
    if results:
        _print_programs(console, results)
    if older and against:
        console.print(_against(results, older, against))
    if found:
        console.print(_commands(found, against))
    if results:
        console.print(inline_counting(results))
    for line in refusals([*results, *older], found):
        console.print(line)


def inline_counting(results: Sequence[Result]) -> str:
    """Whether blocks counted themselves, and how many could not."""
    why = why_not()
    if why is not None:
        return f"inline counting: off ({why})"
    refused = [f"{r.program} {r.blocks_refused}" for r in results if r.blocks_refused]
    return f"inline counting: on; blocks refused: {', '.join(refused) or 'none'}"


def _print_programs(console: Console, results: list[Result]) -> None:
    plain = [column for column in COLUMNS if not column.modelled and not column.cracked]
    console.print(_ratios("Speed as a part of the bare engine's", plain, results))
    console.print(_costs(results))
    modelled = [column for column in COLUMNS if column.modelled]
    console.print(_ratios("The same with --model cache", modelled, results))
    cracked = [column for column in COLUMNS if column.cracked]
    console.print(_ratios("The same with micro-operations as the population", cracked, results))
    if any(result.qemu_seconds is not None for result in results):
        console.print(_beside_qemu(results))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _ratios(title: str, columns: list[Column], results: list[Result]) -> Table:
    names = [column.name for column in columns]
    table = _table(title, "program", "bare M/s", "±%", *names)
    for result in _in_groups(results):
        rate = result.operations / result.bare_seconds / 1e6
        table.add_row(result.program, f"{rate:.0f}", _percent(result.spread), *_row(result, names))
    means = geometric_means(results)
    if means:
        table.add_section()
        table.add_row("mean of work", "", "", *(_ratio(means[n]) for n in names))
        aims = [column.aim for column in columns]
        if any(aim is not None for aim in aims):
            table.add_row("aim", "", "", *("" if aim is None else f"{aim:.2f}" for aim in aims))
    return table


def _beside_qemu(results: list[Result]) -> Table:
    names = [column.name for column in BESIDE_QEMU]
    table = _table("Speed as a part of QEMU's", "program", "µs on QEMU", *names)
    for result in _in_groups(results):
        seconds = result.qemu_seconds
        paces = (result.of_qemu(name) for name in names)
        cell = NOTHING if seconds is None else f"{seconds * 1e6:,.0f}"
        table.add_row(result.program, cell, *map(_ratio, paces))
    if any(result.judged for result in results):
        means = means_of_qemu(results)
        table.add_section()
        table.add_row("mean of work", "", *(_ratio(means[name]) for name in names))
        aims = (column.of_qemu for column in BESIDE_QEMU)
        table.add_row("aim", "", *("" if aim is None else _ratio(aim) for aim in aims))
    return table


def _row(result: Result, names: list[str]) -> list[str]:
    return [_ratio(result.ratios[n]) for n in names]


def _costs(results: list[Result]) -> Table:
    title = "What it comes from: ns a block, µs a sample"
    table = _table(title, "program", "ops/block", "ns", *SAMPLED)
    for result in _in_groups(results):
        table.add_row(
            result.program,
            f"{result.operations / result.blocks:.1f}",
            _fixed(result.ns_a_block, 2),
            *(_fixed(result.us_a_sample[n], 1) for n in SAMPLED),
        )
    judged = [r for r in results if r.judged]
    if judged:
        samples = (_mean([r.us_a_sample[n] for r in judged]) for n in SAMPLED)
        ns = _mean([r.ns_a_block for r in judged])
        table.add_section()
        table.add_row("mean of work", "", _fixed(ns, 2), *(_fixed(us, 1) for us in samples))
        aim = f"{AIM_US_A_SAMPLE:.0f}"
        table.add_row("aim at most", "", f"{AIM_NS_A_BLOCK}", *(aim for _ in SAMPLED))
    return table


def _against(results: list[Result], older: list[Result], against: str) -> Table:
    title = f"Speed as a part of that of {against}"
    table = _table(title, "", "mean of work", "slowest", "", "fastest", "")
    means = mean_speedups(results, older)
    by_program = {r.program: speedups(r, other) for r, other in zip(results, older, strict=True)}
    for name in (column.name for column in COLUMNS if not column.once):
        known = sorted((s[name], program) for program, s in by_program.items() if s[name])
        ends = [cell for s, program in (known[:1] + known[-1:]) for cell in (_fixed(s, 2), program)]
        table.add_row(name, _fixed(means.get(name), 2), *ends)
    return table


def _commands(found: list[Finding], against: str | None) -> Table:
    title = "Whole commands, in CPU time"
    more = [against] if against else []
    table = _table(title, "figure", "", "unit", "±%", "here", *more, "QEMU")
    for one in found:
        cells = [_significant(one.value)]
        cells += [_significant(one.older)] if against else []
        cells.append(_significant(one.qemu))
        table.add_row(one.name, one.title, one.unit, _percent(one.spread), *cells)
    return table


def refusals(results: Sequence[Result], found: Sequence[Finding]) -> list[str]:
    """A line for each figure that was refused."""
    names = [(f"{r.program}: bare's", r.spread) for r in results if r.refused]
    names += [(f"{f.name}: its", f.spread) for f in found if f.refused]
    return [
        f"refused: {whose} quartiles lie {_percent(apart)} % apart, {MOST_SPREAD:.0%} at most; "
        "measure again on a quieter host"
        for whose, apart in names
    ]


def _in_groups(results: list[Result]) -> list[Result]:
    """Loops before work."""
    return sorted(results, key=lambda r: r.judged)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None


def _percent(spread: float | None) -> str:
    return NOTHING if spread is None else f"{spread * 100:.0f}"


def _ratio(value: float | None) -> str:
    return _fixed(value, 3 if value is not None and value < 0.1 else 2)


def _fixed(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _significant(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def as_json(
    results: list[Result],
    older: list[Result],
    found: list[Finding],
    seconds: float,
    rounds: int,
    against: str | None = None,
) -> dict[str, Any]:
    """Everything, with what the host was. ``against`` is the full name of the older commit."""
    return {
        "host": {
            "machine": platform.machine(),
            "system": platform.system(),
            "processors": os.cpu_count(),
            "python": platform.python_version(),
            "unicorn": version("unicorn"),
            "numba": version("numba"),
            "inline_counting": why_not() is None,
        },
        "seconds": seconds,
        "rounds": rounds,
        "programs": _programs(results),
        "geometric_means": geometric_means(results),
        "aims": {
            "ratios": {c.name: c.aim for c in COLUMNS if c.aim is not None},
            "ns_a_block": AIM_NS_A_BLOCK,
            "us_a_sample": AIM_US_A_SAMPLE,
            "of_qemu": {c.name: c.of_qemu for c in BESIDE_QEMU if c.of_qemu is not None},
        },
        "of_qemu": _of_qemu(results),
        "figures": {f.name: {k: v for k, v in asdict(f).items() if k != "name"} for f in found},
        "refused": refusals([*results, *older], found),
        "against": None if against is None else _compared(results, older, against),
    }


def _of_qemu(results: list[Result]) -> dict[str, Any] | None:
    """Speeds as parts of QEMU's; None where QEMU is not installed."""
    if all(result.qemu_seconds is None for result in results):
        return None
    return {
        "programs": {r.program: {c.name: r.of_qemu(c.name) for c in BESIDE_QEMU} for r in results},
        "geometric_means": means_of_qemu(results),
    }


def _programs(results: list[Result]) -> Mapping[str, Any]:
    return {r.program: {**asdict(r), "kind": "work" if r.judged else "loop"} for r in results}


def _compared(results: list[Result], older: list[Result], against: str) -> dict[str, Any]:
    pairs = zip(results, older, strict=True)
    return {
        "commit": against,
        "programs": _programs(older),
        "geometric_means": geometric_means(older),
        "speedups": {result.program: speedups(result, other) for result, other in pairs},
        "mean_speedups": mean_speedups(results, older),
    }
