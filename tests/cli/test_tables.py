"""Tables of reports on terminals of several widths."""

from __future__ import annotations

import re
import sys
from io import StringIO

import pytest

from spe_unicorn.cli.tables import print_tables
from spe_unicorn.report.tables import Column, Kind, Table

COLUMNS = (
    Column("share", Kind.SHARE),
    Column("samples", Kind.COUNT),
    Column("mean latency", Kind.CYCLES),
    Column("mispredicted", Kind.COUNT),
    Column("address"),
    Column("instruction", least=16),
    Column("source", least=5),
)
ROWS = [
    (0.25, 12345, 17.5, 3, f"{0x400801D0 + 4 * n:x}", "stp x29, x30, [sp, #-0x20]!", "hash.c:39  x")
    for n in range(20)
]
TABLE = Table("work of hash.elf, 7 samples", COLUMNS, ROWS)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def shown(table: Table, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines below the rule, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    print_tables([table])
    lines = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()).splitlines()
    rule = next(n for n, line in enumerate(lines) if set(line) == {"─"})
    return [line.rstrip() for line in lines[rule + 1 :]]


@pytest.mark.parametrize("width", [80, 100, 132])
def test_an_instruction_takes_one_line(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(TABLE, width, monkeypatch)
    assert len(lines) == len(ROWS)
    assert max(map(len, lines)) <= width
    for line, row in zip(lines, ROWS, strict=True):
        assert line.split()[:5] == ["25.00%", "12345", "17.5", "3", row[4]]
        assert "stp x29, x30" in line


def test_a_wide_terminal_cuts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(
        "stp x29, x30, [sp, #-0x20]!   hash.c:39  x" in line
        for line in shown(TABLE, 160, monkeypatch)
    )


def test_numbers_are_whole_where_a_terminal_is_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(TABLE, 40, monkeypatch)
    assert len(lines) == len(ROWS)
    assert all(line.split()[1] == "12345" for line in lines)


def test_texts_of_other_tables_are_broken_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(
        "Functions", (Column("samples", Kind.COUNT), Column("symbol")), [(1, "word " * 30)]
    )
    assert " ".join(shown(table, 40, monkeypatch)).split().count("word") == 30
