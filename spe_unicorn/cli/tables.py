"""Tables of reports on a terminal, or as plain text in a file."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from spe_unicorn.output.names import printable
from spe_unicorn.report.tables import Kind, Table, written

_BETWEEN = 3
"""Characters that a column takes beside its texts."""
_WIDE = 1000
"""Columns where nobody looks: nothing is cut off in a file."""
_HOT = ((0.10, "bold red"), (0.02, "yellow"))
"""Shares from which on a row stands out."""


def print_tables(tables: list[Table]) -> None:
    """Print tables to standard output, with colours if that is a terminal.

    Texts are data: nothing in them is markup, and no control character reaches the terminal.
    """
    terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout,
        width=None if terminal else _WIDE,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with nullcontext() if terminal else console.capture() as captured:
        for number, table in enumerate(tables):
            if number:
                console.print()
            console.print(Text(printable(table.title), style="bold"))
            rich, least = _rich(table, console.width if terminal else None)
            before, console.width = console.width, max(console.width, least)
            console.print(rich)
            console.width = before
            if table.note is not None:
                console.print(Text(f" {printable(table.note)}", style="dim"))
    if captured is not None:
        for line in captured.get().splitlines():
            sys.stdout.write(line.rstrip() + "\n")


def _rich(table: Table, width: int | None) -> tuple[RichTable, int]:
    """A table for a terminal of so many columns, and how many it needs at least.

    ``width`` is None where nobody looks. Where a row has texts that may be cut, it stays one line.
    """
    widths, between = None if width is None else _widths(table, width, _BETWEEN), _BETWEEN
    if width is not None and widths is not None and sum(widths) + between * len(widths) > width:
        between = 1
        widths = _widths(table, width, between)
    padding = (0, (between - 1) // 2)
    result = RichTable(box=SIMPLE_HEAD, pad_edge=True, show_edge=False, padding=padding)
    for number, column in enumerate(table.columns):
        right = column.kind is not Kind.TEXT
        result.add_column(
            Text(column.name),
            justify="right" if right else "left",
            no_wrap=column.least is not None or (right and widths is None),
            overflow="ellipsis",
            width=None if widths is None else widths[number],
        )
    for row in table.rows:
        cells = [
            Text(printable(written(cell, column.kind)))
            for cell, column in zip(row, table.columns, strict=True)
        ]
        share = row[0] if table.columns[0].kind is Kind.SHARE else None
        style = next((s for least, s in _HOT if isinstance(share, float) and share >= least), None)
        result.add_row(*cells, style=style)
    return result, 0 if widths is None else sum(widths) + between * len(widths)


def _widths(table: Table, width: int, between: int) -> list[int] | None:
    """The columns' widths in a terminal of ``width``; None for a table whose texts are not cut.

    Headings are broken into lines. Texts are cut from the last column on, and no further than they
    may be: numbers never are.
    """
    if all(column.least is None for column in table.columns):
        return None
    widths = []
    for number, column in enumerate(table.columns):
        words = [len(word) for word in column.name.split()]
        cells = (cell_len(printable(written(row[number], column.kind))) for row in table.rows)
        widths.append(max([*words, *cells]))
    excess = sum(widths) + between * len(widths) - width
    for number, column in reversed(list(enumerate(table.columns))):
        if column.least is not None and excess > 0:
            cut = min(excess, max(0, widths[number] - column.least))
            widths[number] -= cut
            excess -= cut
    return widths
