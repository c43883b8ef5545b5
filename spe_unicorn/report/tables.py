"""What reports show: tables of plain values, the same for the terminal and for a page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

Cell = str | int | float | None
"""A text, a count, a share from 0 to 1, or cycles; None for what there is none of."""


class Kind(Enum):
    """How the values of a column are written."""

    TEXT = auto()
    COUNT = auto()
    SHARE = auto()
    """0.25 as 25.00%."""
    CYCLES = auto()
    POINTS = auto()
    """The difference of two shares: 0.25 as +25.00."""
    FILE = auto()
    """A file by its name beside the page, which leads there."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind = Kind.TEXT
    least: int | None = None
    """Characters to which a narrow terminal may cut its texts, so that a row stays one line.

    None: texts are never cut.
    """


@dataclass(frozen=True)
class Table:
    """A table with its heading; ``note`` is a sentence below it."""

    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    note: str | None = None


def written(cell: Cell, kind: Kind) -> str:
    """A cell as people read it; empty for None."""
    if cell is None:
        return ""
    match kind:
        case Kind.SHARE:
            return f"{float(cell):.2%}"
        case Kind.POINTS:
            return f"{100 * float(cell):+.2f}"
        case Kind.CYCLES:
            return f"{float(cell):.1f}"
    return str(cell)
