"""What moved between two recordings, and whether it is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, sqrt

import numpy as np

from spe_unicorn.output.arrays import Has
from spe_unicorn.report.samples import WEIGHTS, Samples
from spe_unicorn.report.tables import Cell, Column, Kind, Table
from spe_unicorn.report.tally import Count, Tally, tally, together
from spe_unicorn.report.views.overview import View
from spe_unicorn.spe.packets import Event

SIGNIFICANT = 0.01
"""Differences that chance alone makes more rarely than this are marked."""


_EVENTS = (
    ("L1D misses", Event.L1D_MISS),
    ("LLC misses", Event.LLC_MISS),
    ("TLB walks", Event.TLB_WALK),
    ("mispredicted branches", Event.MISPREDICTED),
)

Side = Samples | Sequence[Samples]
"""What is compared with another: a recording, or several that count as one."""


def totals(before: Side, after: Side) -> Table:
    """What each side comes to: samples, cycles of total latency, and the share of each event."""
    found = [_all(_recordings(side)) for side in (before, after)]
    both = [count for count, _ in found]
    events = [of_each for _, of_each in found]
    rows: list[tuple[Cell, ...]] = [
        _relative("samples", *(count.rows for count in both)),
        _relative("cycles of total latency", *(count.cycles for count in both)),
        _relative("mean latency in cycles", *(count.latency for count in both)),
    ]
    for name, _ in _EVENTS:
        if not any(of_each[name] for of_each in events):
            continue
        shares = [
            of_each[name] / count.rows if count.rows else 0.0
            for of_each, count in zip(events, both, strict=True)
        ]
        change = f"{100 * (shares[1] - shares[0]):+.2f} points"
        rows.append((f"{name}, of all samples", *(f"{share:.2%}" for share in shares), change))
    columns = (
        Column("total"),
        Column("before", Kind.COUNT),
        Column("after", Kind.COUNT),
        Column("change", Kind.COUNT),
    )
    return Table("Totals", columns, [row for row in rows if any(row[1:])])


def difference(before: Side, after: Side, key: str, view: View) -> Table:
    """The shares of each label on both sides, and their difference, the largest first.

    ``chance`` is how often two recordings of the same program differ so much: a test of two
    proportions, in which each sample counts as drawn on its own. Latencies are means of total
    latency.
    """
    sides = [_recordings(side) for side in (before, after)]
    counts = [_counts(side, key, view.by) for side in sides]
    sizes = [sum(len(samples) for samples in side) for side in sides]
    weights = [sum(count.weight for count in found.values()) for found in counts]
    rows: list[tuple[Cell, ...]] = []
    for labels in counts[0].keys() | counts[1].keys():
        a, b = (found.get(labels, Count()) for found in counts)
        share_a = a.weight / weights[0] if weights[0] else 0.0
        share_b = b.weight / weights[1] if weights[1] else 0.0
        if max(share_a, share_b) < view.limit:
            continue
        chance = chance_of(a.rows, sizes[0], b.rows, sizes[1])
        mark = "" if chance is None or chance > SIGNIFICANT else "*"
        moved = (share_b - share_a, share_a, share_b, a.rows, b.rows, chance, mark)
        rows.append((*moved, a.latency, b.latency, *labels))
    rows.sort(key=lambda row: (-abs(float(row[0] or 0)), str(row[-1])))
    columns = (
        Column("difference", Kind.POINTS),
        Column("before", Kind.SHARE),
        Column("after", Kind.SHARE),
        Column("samples before", Kind.COUNT),
        Column("samples after", Kind.COUNT),
        Column("chance", Kind.SHARE),
        Column(""),
        Column("latency before", Kind.CYCLES),
        Column("latency after", Kind.CYCLES),
        Column(key),
    )
    of = "" if view.by == "samples" else f" by {WEIGHTS[view.by].name}"
    note = f"* is less than {SIGNIFICANT:.0%} likely to be chance, counted by samples"
    left_out = len(rows) - view.rows
    if left_out > 0:
        note = f"{left_out} more differ less; {note}"
    return Table(f"Differences by {key}{of}", columns, rows[: view.rows], note)


def chance_of(count_a: int, total_a: int, count_b: int, total_b: int) -> float | None:
    """How likely two samplings of one program differ so much: two-sided test of two proportions.

    ``count`` of ``total`` samples are in question. None where there is nothing to compare.
    """
    if not total_a or not total_b:
        return None
    together = (count_a + count_b) / (total_a + total_b)
    spread = sqrt(together * (1 - together) * (1 / total_a + 1 / total_b))
    if not spread:
        return 1.0
    return erfc(abs(count_a / total_a - count_b / total_b) / spread / sqrt(2))


def _recordings(side: Side) -> Sequence[Samples]:
    return (side,) if isinstance(side, Samples) else side


def _counts(side: Sequence[Samples], key: str, by: str) -> Tally:
    """What there is of each label, in all recordings together."""
    return together(
        tally(piece, (key,), piece.weights(by)) for samples in side for piece in samples.pieces()
    )


def _all(side: Sequence[Samples]) -> tuple[Count, dict[str, int]]:
    """What there is of everything, and how many samples have each event."""
    rows = cycles = timed = 0
    events = dict.fromkeys((name for name, _ in _EVENTS), 0)
    for piece in (piece for samples in side for piece in samples.pieces()):
        there = piece.arrays.where(Has.TOTAL)
        rows += len(piece)
        cycles += int(piece.arrays.total[there].sum(dtype=np.int64))
        timed += int(there.sum())
        for name, event in _EVENTS:
            events[name] += int(piece.with_event(event).sum())
    return Count(float(rows), rows, cycles, timed), events


def _relative(name: str, before: float | None, after: float | None) -> tuple[Cell, ...]:
    """A row of two numbers, and by how much of the first they differ."""
    texts = [
        None if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
        for value in (before, after)
    ]
    change = f"{(after - before) / before:+.2%}" if before and after is not None else None
    return name, *texts, change
