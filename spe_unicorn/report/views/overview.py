"""The tables of ``spe-unicorn report``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spe_unicorn.output.arrays import Array, Has
from spe_unicorn.report.samples import UNKNOWN, WEIGHTS, Samples, Truths, percentiles
from spe_unicorn.report.tables import Cell, Column, Kind, Table
from spe_unicorn.report.tally import Tally, heaviest, tally, together
from spe_unicorn.report.views.calls import CallGraph, tree_table
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
    calls = CallGraph(view.by) if samples.recording.file.calls else None
    made: list[_Hot | _Latencies | _Mispredicted | CallGraph | None] = [
        _Hot(view, "Functions", ("symbol",)),
        calls,
        _Hot(view, "Lines", ("line", "symbol")),
        _Hot(view, "Instructions", ("address",)),
        _Hot(view, "Operations", ("op",)),
        _Latencies(),
        _Hot(view, "Data sources", ("source",), Has.DATA_SOURCE),
        _Mispredicted(view),
        _Hot(view, "Data", ("data",), Has.VA),
        _Hot(view, "PEs", ("cpu",)),
        _Hot(view, "Threads", ("thread",)),
    ]
    wanted = [each for each in made if each is not None]
    for piece in samples.pieces():
        for each in wanted:
            each.add(piece)
    tables = [
        tree_table(each, view.limit, view.rows) if isinstance(each, CallGraph) else each.table()
        for each in wanted
    ]
    return [table for table in tables if _says_something(table)]


def grouped(samples: Samples, view: View, keys: Sequence[str]) -> Table:
    """One table by some keys, as ``perf report --sort`` has it."""
    of_data = {"object", "cacheline"}.intersection(keys)
    made = _Hot(view, "Samples", keys, Has.VA if of_data else None)
    for piece in samples.pieces():
        made.add(piece)
    return made.table()


def _says_something(table: Table) -> bool:
    """Whether there is more to a table than that nothing is known."""
    return any(UNKNOWN not in row for row in table.rows)


class _Hot:
    """Samples by some keys, of samples that come piece by piece."""

    def __init__(
        self, view: View, title: str, keys: Sequence[str], among: Has | None = None
    ) -> None:
        self._view = view
        self._title = title
        self._keys = keys
        self._among = among
        self._found: Tally = {}
        self._total = 0.0

    def add(self, samples: Samples) -> None:
        """Count samples."""
        weights = samples.weights(self._view.by)
        among = None if self._among is None else samples.arrays.where(self._among)
        self._total += float(weights.sum() if among is None else weights[among].sum())
        found = tally(samples, self._keys, weights, among)
        self._found = together((self._found, found)) if self._found else found

    def table(self) -> Table:
        """The heaviest."""
        view, total = self._view, self._total
        found = heaviest(self._found)
        shown = [each for each in found if each[1].weight >= view.limit * total][: view.rows]
        rows: list[tuple[Cell, ...]] = [
            (count.weight / total, count.rows, count.latency, *labels) for labels, count in shown
        ]
        columns = (_SHARE, _SAMPLES, _LATENCY, *(Column(key) for key in self._keys))
        of = "" if view.by == "samples" else f" by {WEIGHTS[view.by].name}"
        note = None
        if len(found) > len(shown):
            rest = sum(count.weight for _, count in found) - sum(c.weight for _, c in shown)
            note = f"{len(found) - len(shown)} more with {rest / total:.2%} together"
        return Table(self._title + of, columns, rows, note)


def kinds(samples: Samples) -> Iterator[tuple[str, Truths]]:
    """The kinds of operation that latencies are told of, and which samples are of each."""
    arrays = samples.arrays
    for op_class, store, name in _CLASSES:
        among: Truths = arrays.where(Has.OPERATION) & (arrays.op_class == op_class)
        if store is not None:
            among = among & (arrays.op_payload & 1 == store)
        yield name, among


class _Latencies:
    """How long operations of each kind take, of samples that come piece by piece."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Array] = {}
        """How often there was each number of cycles, by kind and counter."""

    def add(self, samples: Samples) -> None:
        """Count samples."""
        arrays = samples.arrays
        for name, among in kinds(samples):
            for counter, values, bit in (
                ("total", arrays.total, Has.TOTAL),
                ("issue", arrays.issue, Has.ISSUE),
                ("translation", arrays.translation, Has.TRANSLATION),
            ):
                found = np.bincount(values[among & arrays.where(bit)], minlength=1 << 16)
                key = name, counter
                self._counts[key] = self._counts[key] + found if key in self._counts else found

    def table(self) -> Table:
        """Mean, least, most, and the percentiles, each a number that there was."""
        rows: list[tuple[Cell, ...]] = []
        for (name, counter), counts in self._counts.items():
            there = np.flatnonzero(counts)
            if len(there):
                count = int(counts.sum())
                mean = float((there * counts[there]).sum()) / count
                points = percentiles(there, _POINTS, counts[there])
                least, most = int(there[0]), int(there[-1])
                rows.append((name, counter, count, mean, least, *points, most))
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


class _Mispredicted:
    """Branches that were mispredicted, of samples that come piece by piece."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._all: Tally = {}
        self._missed: Tally = {}

    def add(self, samples: Samples) -> None:
        """Count samples."""
        arrays = samples.arrays
        branches = arrays.where(Has.OPERATION) & (arrays.op_class == OperationClass.BRANCH)
        each = np.ones(len(samples))
        missed = branches & samples.with_event(Event.MISPREDICTED)
        self._all = together((self._all, tally(samples, ("address",), each, branches)))
        self._missed = together((self._missed, tally(samples, ("address",), each, missed)))

    def table(self) -> Table:
        """Those that were mispredicted most often, with their own rate."""
        view = self._view
        total = sum(count.rows for count in self._missed.values())
        rows: list[tuple[Cell, ...]] = [
            (count.rows / total, count.rows, count.rows / self._all[labels].rows, *labels)
            for labels, count in heaviest(self._missed)
            if count.rows >= view.limit * total
        ]
        columns = (
            _SHARE,
            Column("mispredicted", Kind.COUNT),
            Column("of its samples", Kind.SHARE),
            Column("branch"),
        )
        return Table("Mispredicted branches", columns, rows[: view.rows])
