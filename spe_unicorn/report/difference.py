"""What moved between two recordings, and whether it is more than chance."""

from __future__ import annotations

from math import erfc, sqrt

from spe_unicorn.report.overview import View
from spe_unicorn.report.samples import WEIGHTS, Samples
from spe_unicorn.report.tables import Cell, Column, Kind, Table

SIGNIFICANT = 0.01
"""Differences that chance alone makes more rarely than this are marked."""


def difference(before: Samples, after: Samples, key: str, view: View) -> Table:
    """The shares of each label in both recordings, and their difference, the largest first.

    ``chance`` is how often two recordings of the same program differ so much: a test of two
    proportions, in which each sample counts as drawn on its own.
    """
    counts = [_counts(samples, key, view.by) for samples in (before, after)]
    totals = [sum(count for count, _ in found.values()) for found in counts]
    rows: list[tuple[Cell, ...]] = []
    for label in counts[0].keys() | counts[1].keys():
        (weight_a, rows_a), (weight_b, rows_b) = (found.get(label, (0.0, 0)) for found in counts)
        share_a = weight_a / totals[0] if totals[0] else 0.0
        share_b = weight_b / totals[1] if totals[1] else 0.0
        if max(share_a, share_b) < view.limit:
            continue
        chance = chance_of(rows_a, len(before), rows_b, len(after))
        mark = "" if chance is None or chance > SIGNIFICANT else "*"
        rows.append((share_b - share_a, share_a, share_b, rows_a, rows_b, chance, mark, label))
    rows.sort(key=lambda row: (-abs(float(row[0] or 0)), str(row[-1])))
    columns = (
        Column("difference", Kind.POINTS),
        Column("before", Kind.SHARE),
        Column("after", Kind.SHARE),
        Column("samples before", Kind.COUNT),
        Column("samples after", Kind.COUNT),
        Column("chance", Kind.SHARE),
        Column(""),
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


def _counts(samples: Samples, key: str, by: str) -> dict[str, tuple[float, int]]:
    """Weight and number of samples of each label."""
    groups = samples.groups((key,), samples.weights(by))
    return {group.labels[0]: (group.weight, len(group.rows)) for group in groups}
