"""The tables of ``spe-unicorn report``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spe_unicorn.output.arrays import Has
from spe_unicorn.report.samples import UNKNOWN, WEIGHTS, Group, Samples, Truths, percentiles
from spe_unicorn.report.tables import Cell, Column, Kind, Table
from spe_unicorn.report.views.calls import tree_table
from spe_unicorn.spe.packets import Event, OperationClass

_POINTS = (50, 90, 99)
_SHARE = Column("share", Kind.SHARE)
_SAMPLES = Column("samples", Kind.COUNT)
_LATENCY = Column("mean latency", Kind.CYCLES)
_CLASSES = (
    (OperationClass.LOAD_STORE, 0, "load"),
    (OperationClass.LOAD_STORE, 1, "store"),
    (OperationClass.BRANCH, None, "branch"),
    (OperationClass.OTHER, None, "other"),
)


@dataclass(frozen=True)
class View:
    """How the tables are made: what shares are of, and which rows are too small to show.

    ``limit`` is a share from 0 to 1, ``rows`` the most rows of a table.
    """

    by: str = "samples"
    limit: float = 0.0
    rows: int = 20


def overview(samples: Samples, view: View) -> list[Table]:
    """Everything at a glance; tables that would have no row are left out."""
    tables = [
        _hot(samples, view, "Functions", ("symbol",)),
        *_calls(samples, view),
        _hot(samples, view, "Lines", ("line", "symbol")),
        _hot(samples, view, "Instructions", ("address",)),
        _hot(samples, view, "Operations", ("op",)),
        _latencies(samples),
        _hot(samples, view, "Data sources", ("source",), samples.arrays.where(Has.DATA_SOURCE)),
        _mispredicted(samples, view),
        _hot(samples, view, "Data", ("data",), samples.arrays.where(Has.VA)),
        _hot(samples, view, "PEs", ("cpu",)),
        _hot(samples, view, "Threads", ("thread",)),
    ]
    return [table for table in tables if _says_something(table)]


def _calls(samples: Samples, view: View) -> list[Table]:
    """The tree of calls, where there are any."""
    if not samples.recording.file.calls:
        return []
    return [tree_table(samples, view.by, view.limit, view.rows)]


def grouped(samples: Samples, view: View, keys: Sequence[str]) -> Table:
    """One table by some keys, as ``perf report --sort`` has it."""
    of_data = {"object", "cacheline"}.intersection(keys)
    among = samples.arrays.where(Has.VA) if of_data else None
    return _hot(samples, view, "Samples", keys, among)


def _says_something(table: Table) -> bool:
    """Whether there is more to a table than that nothing is known."""
    return any(UNKNOWN not in row for row in table.rows)


def _hot(
    samples: Samples, view: View, title: str, keys: Sequence[str], among: Truths | None = None
) -> Table:
    weights = samples.weights(view.by)
    total = float(weights.sum() if among is None else weights[among].sum())
    groups = samples.groups(keys, weights, among)
    shown = [group for group in groups if group.weight >= view.limit * total][: view.rows]
    rows = [
        (group.weight / total, len(group.rows), _mean_latency(samples, group), *group.labels)
        for group in shown
    ]
    columns = (_SHARE, _SAMPLES, _LATENCY, *(Column(key) for key in keys))
    of = "" if view.by == "samples" else f" by {WEIGHTS[view.by].name}"
    return Table(title + of, columns, rows, _note(len(groups) - len(shown), groups, shown, total))


def _note(
    left_out: int, groups: Sequence[Group], shown: Sequence[Group], total: float
) -> str | None:
    if not left_out:
        return None
    rest = sum(group.weight for group in groups) - sum(group.weight for group in shown)
    return f"{left_out} more with {rest / total:.2%} together"


def _mean_latency(samples: Samples, group: Group) -> float | None:
    there = samples.arrays.where(Has.TOTAL)[group.rows]
    return float(samples.arrays.total[group.rows][there].mean()) if there.any() else None


def kinds(samples: Samples) -> Iterator[tuple[str, Truths]]:
    """The kinds of operation that latencies are told of, and which samples are of each."""
    arrays = samples.arrays
    for op_class, store, name in _CLASSES:
        among: Truths = arrays.where(Has.OPERATION) & (arrays.op_class == op_class)
        if store is not None:
            among = among & (arrays.op_payload & 1 == store)
        yield name, among


def _latencies(samples: Samples) -> Table:
    arrays = samples.arrays
    rows: list[tuple[Cell, ...]] = []
    for name, among in kinds(samples):
        for counter, values, bit in (
            ("total", arrays.total, Has.TOTAL),
            ("issue", arrays.issue, Has.ISSUE),
            ("translation", arrays.translation, Has.TRANSLATION),
        ):
            found = values[among & arrays.where(bit)]
            if len(found):
                least, most = int(found.min()), int(found.max())
                mean = float(found.mean())
                points = percentiles(found, _POINTS)
                rows.append((name, counter, len(found), mean, least, *points, most))
    columns = (
        Column("operation"),
        Column("latency"),
        _SAMPLES,
        Column("mean", Kind.CYCLES),
        Column("min", Kind.COUNT),
        *(Column(f"p{point}", Kind.COUNT) for point in _POINTS),
        Column("max", Kind.COUNT),
    )
    return Table("Latency in cycles", columns, rows)


def _mispredicted(samples: Samples, view: View) -> Table:
    missed = samples.with_event(Event.MISPREDICTED)
    branches = samples.arrays.where(Has.OPERATION) & (
        samples.arrays.op_class == OperationClass.BRANCH
    )
    groups = samples.groups(("address",), np.ones(len(samples)), branches)
    counted = [(int(missed[group.rows].sum()), group) for group in groups]
    found = sorted(
        ((count, group) for count, group in counted if count),
        key=lambda pair: (-pair[0], pair[1].labels),
    )
    total = sum(count for count, _ in found)
    rows: list[tuple[Cell, ...]] = [
        (count / total, count, count / len(group.rows), *group.labels)
        for count, group in found
        if count >= view.limit * total
    ]
    columns = (
        _SHARE,
        Column("mispredicted", Kind.COUNT),
        Column("of its samples", Kind.SHARE),
        Column("branch"),
    )
    return Table("Mispredicted branches", columns, rows[: view.rows])
