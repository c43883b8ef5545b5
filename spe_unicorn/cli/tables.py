"""Tables of reports on a terminal, or as plain text in a file."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from spe_unicorn.output.names import printable
from spe_unicorn.report.tables import Kind, Table, written

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
            console.print(_rich(table))
            if table.note is not None:
                console.print(Text(f" {printable(table.note)}", style="dim"))
    if captured is not None:
        for line in captured.get().splitlines():
            sys.stdout.write(line.rstrip() + "\n")


def _rich(table: Table) -> RichTable:
    result = RichTable(box=SIMPLE_HEAD, pad_edge=True, show_edge=False)
    for column in table.columns:
        right = column.kind is not Kind.TEXT
        result.add_column(Text(column.name), justify="right" if right else "left", no_wrap=right)
    for row in table.rows:
        cells = [
            Text(printable(written(cell, column.kind)))
            for cell, column in zip(row, table.columns, strict=True)
        ]
        share = row[0] if table.columns[0].kind is Kind.SHARE else None
        style = next((s for least, s in _HOT if isinstance(share, float) and share >= least), None)
        result.add_row(*cells, style=style)
    return result
