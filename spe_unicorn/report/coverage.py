"""Coverage as tables: each file, each function, and what was never run."""

from __future__ import annotations

from typing import Final

from spe_unicorn.output.coverage.model import Coverage, CoveredFile, Share, ranges
from spe_unicorn.report.tables import Cell, Column, Kind, Table

_FILES: Final = (
    Column("file"),
    *(
        Column(f"{what}{name}", kind)
        for what in ("lines", "branches", "functions")
        for name, kind in (("", Kind.COUNT), (" run", Kind.SHARE))
    ),
)
_SHOWN: Final = 12
"""Ranges of lines that a row names at most."""


def file_table(coverage: Coverage) -> Table:
    """How much of each file was run. A way of a conditional branch is a branch."""
    rows = [_row(path, file) for path, file in sorted(coverage.files.items())]
    shares = coverage.line_share, coverage.branch_share, coverage.function_share
    return Table("Coverage", _FILES, [*rows, ("all files", *_cells(*shares))])


def function_table(coverage: Coverage) -> Table:
    """Whether each function was run, and how many of its file's lines are between it and the next.

    Functions stand in the order of their files.
    """
    rows: list[tuple[Cell, ...]] = []
    for path, file in sorted(coverage.files.items()):
        functions = sorted(file.functions.items(), key=lambda item: item[1][0])
        starts = sorted({line for line, _ in file.functions.values()})
        for name, (line, hit) in functions:
            after = next((start for start in starts if start > line), None)
            lines = [
                run
                for number, run in file.lines.items()
                if number >= line and (after is None or number < after)
            ]
            share = Share(sum(lines), len(lines))
            rows.append((name, f"{path}:{line}", "yes" if hit else "no", share.all, share.part))
    columns = (Column("function"), Column("place"), Column("run"), *_FILES[1:3])
    return Table("Functions", columns, rows)


def never_run(coverage: Coverage) -> Table | None:
    """Functions, lines and ways of branches that were never run; None if there are none."""
    rows: list[tuple[Cell, ...]] = []
    for path, file in sorted(coverage.files.items()):
        functions = [name for name, (_, hit) in sorted(file.functions.items()) if not hit]
        lines = _ranges([line for line, hit in file.lines.items() if not hit])
        branches = _ranges({line for (line, _, _), hit in file.branches.items() if hit == 0})
        if functions or lines or branches:
            rows.append((path, ", ".join(functions), lines, branches))
    names = ("file", "functions", "lines", "one way of a branch at lines")
    return Table("Never run", tuple(map(Column, names)), rows) if rows else None


def _ranges(lines: list[int] | set[int]) -> str:
    found = ranges(lines)
    texts = [f"{a}-{b}" if b > a else str(a) for a, b in found[:_SHOWN]]
    more = len(found) - _SHOWN
    return ", ".join([*texts, f"and {more} more"] if more > 0 else texts)


def _row(path: str, file: CoveredFile) -> tuple[Cell, ...]:
    return path, *_cells(file.line_share, file.branch_share, file.function_share)


def _cells(*shares: Share) -> list[Cell]:
    return [cell for share in shares for cell in (share.all, share.part)]
