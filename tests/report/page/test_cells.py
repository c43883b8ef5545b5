"""Many samples as few cells: what is counted stays exact."""

from __future__ import annotations

import numpy as np
import pytest

from spe_unicorn.output.arrays import Array
from spe_unicorn.report import cells as module
from spe_unicorn.report.cells import NO_LATENCY, Cells, Counting


def columns(size: int) -> dict[str, Array]:
    random = np.random.default_rng(35)
    time = random.integers(0, 5000, size).astype(float)
    time[::50] = np.nan
    return {
        "time": time,
        "symbol": random.integers(0, 7, size).astype(np.uint8),
        "latency": random.choice([3, 63, 64, 65, 1000, 1001, NO_LATENCY], size).astype("<u4"),
        "va": random.integers(0, 40, size).astype(np.uint8),
        "pa": random.integers(0, 40, size).astype(np.uint8),
    }


def cells(given: dict[str, Array], within: tuple[str, ...], pieces: int = 3) -> Cells:
    time = given["time"]
    counting = Counting(float(np.nanmin(time)), float(np.nanmax(time)), within)
    for rows in np.array_split(np.arange(len(time)), pieces):
        counting.add({name: values[rows] for name, values in given.items()})
    return counting.cells()


@pytest.mark.parametrize("most", [100_000, 3_000, 300, 100])
def test_counts_and_sums_are_exact_however_few_cells_there_are(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MOST_CELLS", most)
    given = columns(20_000)
    found = cells(given, ("pa", "va"))
    assert len(found.columns["count"]) <= max(most, 7 * 21 * 6)
    for symbol in range(7):
        ours, theirs = found.columns["symbol"] == symbol, given["symbol"] == symbol
        assert found.columns["count"][ours].sum() == theirs.sum()
        timed = theirs & (given["latency"] != NO_LATENCY)
        assert found.columns["cycles"][ours].sum() == given["latency"][timed].sum()
        without = ours & (found.columns["latency"] == NO_LATENCY)
        assert found.columns["count"][without].sum() == theirs.sum() - timed.sum()


def test_latencies_are_exact_below_64_and_to_within_3_percent_above() -> None:
    found = cells(columns(20_000), ("pa", "va"))
    # 65 is 1000001, of which six bits are kept; 1001 is 1111101001
    assert set(found.columns["latency"].tolist()) == {3, 63, 64, 992, NO_LATENCY}


def test_pieces_of_time_hold_what_happened_in_them() -> None:
    given = columns(20_000)
    found = cells(given, ("pa", "va"))
    first, last = np.nanmin(given["time"]), np.nanmax(given["time"])
    edge = first + (last - first) / found.bins * 100
    before = found.columns["time"] < edge - 1e-6
    assert found.columns["count"][before].sum() == (given["time"] < edge).sum()
    assert found.columns["count"][np.isnan(found.columns["time"])].sum() == 400
