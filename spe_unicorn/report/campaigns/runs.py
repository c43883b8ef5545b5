"""What the runs of a campaign came to: tables for the terminal, and a page with the same."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean
from typing import Any
from urllib.parse import quote

from spe_unicorn.machine.options import SWITCHES
from spe_unicorn.output.names import printable
from spe_unicorn.report.tables import Cell, Column, Kind, Table, written

Row = Mapping[str, Any]

_PROGRAMS = ("firmware", "kernel", "bios", "pflash")
_MATRIX = (
    "core",
    "strict",
    "model",
    "smp",
    "el",
    "ram",
    "append",
    "arguments",
    "input",
    "initrd",
    "dtb",
    "pflash",
    "fw_cfg",
    "drive",
    "load",
    "share",
    "semihosting_dir",
    "clock",
    "turn",
    "ram_fill",
    "check",
    *SWITCHES,
    "interval",
    "event",
    "kinds",
    "min_latency",
    "jitter",
)
"""What runs are grouped by, where it differs between them; a seed is a repetition."""
_MOST = 100
"""Rows of a table of the terminal and of the page."""


def run_tables(rows: Sequence[Row], planned: int, is_failure: Callable[[Row], bool]) -> list[Table]:
    """Runs by program and options, and the failures by name; nothing of no runs."""
    if not rows:
        return []
    tables = [_endings(rows, planned), _grouped(rows)]
    failures = [row for row in rows if is_failure(row)]
    if failures:
        tables.append(_failures(failures, _differing(rows)))
    return tables


def how_it_ended(row: Row) -> str:
    """The ending of a run, with the status of a guest that ended it: ``exit 7``."""
    status = row["exit_status"]
    ending = str(row["ending"])
    return f"{ending} {status}" if ending == "exit" else ending


def where_it_ended(row: Row) -> str:
    """The place of the PC at the end, as ``main+0x10``; empty for a run that has none."""
    if row["pc"] is None:
        return ""
    return str(row["symbol"] or f"0x{row['pc']:x}")


def run_names(rows: Sequence[Row]) -> list[str]:
    """A name for each run: its program, its seed, and the options in which runs differ."""
    names = _differing(rows)
    return [
        " ".join(
            [
                _program(row),
                f"seed={row['seed']}",
                *(f"{name}={row[name]}" for name in names if row[name] is not None),
            ]
        )
        for row in rows
    ]


def commands_table(commands: Mapping[str, str]) -> Table:
    """The commands that repeat runs, by the keys of the runs."""
    body: list[tuple[Cell, ...]] = list(list(commands.items())[:_MOST])
    columns = (Column("key"), Column("command"))
    left = len(commands) - len(body)
    note = f"{left} more are in junit.xml" if left else None
    return Table("To see failures again", columns, body, note)


def _endings(rows: Sequence[Row], planned: int) -> Table:
    counts: dict[str, int] = {}
    for row in rows:
        word = how_it_ended(row)
        counts[word] = counts.get(word, 0) + 1
    body: list[tuple[Cell, ...]] = [
        (count / len(rows), count, word)
        for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    columns = (Column("share", Kind.SHARE), Column("runs", Kind.COUNT), Column("how they ended"))
    left = planned - len(rows)
    note = f"{left} of {planned} runs are still to be done" if left else None
    title = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
    return Table(title, columns, body, note)


def _grouped(rows: Sequence[Row]) -> Table:
    keys = _differing(rows)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        label = (_program(row), *("" if row[name] is None else str(row[name]) for name in keys))
        groups.setdefault(label, []).append(row)
    body: list[tuple[Cell, ...]] = [
        (
            len(group),
            sum(row["records"] or 0 for row in group),
            _mean(row["operations"] for row in group),
            _mean(row["records"] for row in group),
            _mean(row["host_seconds"] for row in group),
            *label,
        )
        for label, group in list(groups.items())[:_MOST]
    ]
    columns = (
        Column("runs", Kind.COUNT),
        Column("records", Kind.COUNT),
        Column("mean operations", Kind.CYCLES),
        Column("mean records", Kind.CYCLES),
        Column("mean seconds", Kind.CYCLES),
        Column("program"),
        *(Column(name) for name in keys),
    )
    left = len(groups) - len(body)
    note = f"{left} more are in runs.parquet" if left else None
    return Table("Runs by program and options", columns, body, note)


def _failures(rows: Sequence[Row], differing: Sequence[str]) -> Table:
    names = [name for name in differing if name != "core"]
    body: list[tuple[Cell, ...]] = [
        (
            how_it_ended(row),
            _program(row),
            row["core"],
            row["seed"],
            *("" if row[name] is None else str(row[name]) for name in names),
            where_it_ended(row),
            row["cause"],
            f"runs/{row['key']}/{'console' if row['ending'] == 'exit' else 'report'}.txt",
        )
        for row in rows[:_MOST]
    ]
    texts = map(Column, ("ended by", "program", "core", "seed", *names, "at", "cause"))
    columns = (*texts, Column("report", Kind.FILE))
    left = len(rows) - len(body)
    note = f"{left} more are in junit.xml and runs.parquet" if left else None
    count = f"{len(rows)} {'failure' if len(rows) == 1 else 'failures'}"
    return Table(count, columns, body, note)


def _program(row: Row) -> str:
    return str(next((row[name] for name in _PROGRAMS if row[name] is not None), ""))


def _differing(rows: Sequence[Row]) -> list[str]:
    """The options in which runs differ."""
    return [name for name in _MATRIX if len({row[name] for row in rows}) > 1]


def _mean(values: Iterable[Any]) -> float | None:
    there = [value for value in values if value is not None]
    return float(mean(there)) if there else None


_STYLE = """
:root { color-scheme: light dark; --line: #d4d4dc; --soft: #5a5a66; --fill: #f4f4f8; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3a44; --soft: #a9a9b6; --fill: #212128; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto; padding: 0 1rem; }
body { max-width: 1300px; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; }
.scroll { overflow-x: auto; } .soft { color: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem; text-align: left; border-bottom: 1px solid var(--line); }
th { background: var(--fill); } .n { text-align: right; }
"""


def tables_page(title: str, lines: Iterable[str], tables: Iterable[Table]) -> str:
    """A page with tables, which needs nothing else and has no script. Texts are data.

    It has the language, headings in their order, headers of columns, regions that a keyboard
    scrolls, and the contrast of the reader's own colours.
    """
    body = "".join(f'<p class="soft">{_text(line)}</p>' for line in lines)
    body += "".join(map(_table, tables))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{_text(title)}</h1>{body}</main></body></html>\n"
    )


def _table(table: Table) -> str:
    number = [column.kind not in (Kind.TEXT, Kind.FILE) for column in table.columns]
    heads = "".join(
        f'<th scope="col"{_class(right=right)}>{_text(column.name)}</th>'
        for column, right in zip(table.columns, number, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_class(right=right)}>{_cell(cell, column.kind)}</td>"
            for cell, column, right in zip(row, table.columns, number, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="soft">{_text(table.note)}</p>' if table.note else ""
    heading = _text(table.title)
    return (
        f'<h2>{heading}</h2><div class="scroll" tabindex="0" role="region" aria-label="{heading}">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )


def _cell(cell: Cell, kind: Kind) -> str:
    text = _text(written(cell, kind))
    return f'<a href="{html.escape(quote(str(cell)))}">{text}</a>' if kind is Kind.FILE else text


def _class(*, right: bool) -> str:
    return ' class="n"' if right else ""


def _text(text: str) -> str:
    return html.escape(printable(text))
