"""How a cell of a table is written."""

from __future__ import annotations

import pytest

from spe_unicorn.report.tables import Cell, Kind, written


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        (0.12345, Kind.SHARE, "12.35%"),
        (0.0625, Kind.POINTS, "+6.25"),
        (-0.0625, Kind.POINTS, "-6.25"),
        (4.25, Kind.CYCLES, "4.2"),
        (7, Kind.CYCLES, "7.0"),
        (None, Kind.CYCLES, ""),
    ],
)
def test_a_cell_is_written_by_its_kind(cell: Cell, kind: Kind, text: str) -> None:
    assert written(cell, kind) == text
