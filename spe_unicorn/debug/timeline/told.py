"""Time lines as Perfetto's JSON, and as a page that shows the same without any other program.

An operation of a PE is shown as a nanosecond.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from spe_unicorn.debug.misuse_found import Misuse
from spe_unicorn.debug.places import call_place
from spe_unicorn.debug.timeline.collecting import LANES, Line, Mark
from spe_unicorn.machine.board import Board

_MILLI: Final = 1000
"""Operations in a microsecond, which is Perfetto's unit."""
SUFFIXES: Final = (".html", ".json")
"""Of files that hold a time line."""


def with_mistakes(lines: Sequence[Line], mistakes: Iterable[Misuse]) -> list[Line]:
    """The time lines with the mistakes that ``--warn`` found, each where it was made first."""
    for mistake in mistakes:
        text = f"{mistake.rule.name}: {mistake.what}"
        number = mistake.operation
        lines[mistake.cpu or 0].marks.append(Mark("mistakes", number, mistake.pc, mistake.el, text))
    return list(lines)


def trace_events(board: Board, lines: Sequence[Line]) -> Iterator[dict[str, object]]:
    """The events of Perfetto's JSON: a process for each PE, a thread for each lane."""
    for line in lines:
        pe = line.number + 1
        yield _named("process_name", pe, 0, f"PE {line.number}")
        for number, lane in enumerate(LANES):
            yield _named("thread_name", pe, number, lane)
            yield {
                "ph": "M",
                "name": "thread_sort_index",
                "pid": pe,
                "tid": number,
                "args": {"sort_index": number},
            }
        for at, until, level in _spans(line.levels, line.end):
            yield _span(pe, 0, f"EL{level}", at, until)
        for at, until, enabled in _spans(line.enabled, line.end):
            if enabled:
                yield _span(pe, 1, "enabled", at, until)
        for fill in line.fills:
            room = max(0, fill.limit - fill.pointer) if fill.limit else 0
            yield {
                "ph": "C",
                "name": "bytes up to the limit",
                "pid": pe,
                "tid": 0,
                "ts": fill.operation / _MILLI,
                "args": {"bytes": room},
            }
        for mark in sorted(line.marks, key=lambda mark: mark.operation):
            where = call_place(board, mark.pc)
            yield {
                "ph": "i",
                "s": "t",
                "name": mark.text,
                "cat": mark.lane,
                "pid": pe,
                "tid": LANES.index(mark.lane),
                "ts": mark.operation / _MILLI,
                "args": {
                    "operation": mark.operation,
                    "pc": hex(mark.pc),
                    "el": mark.el,
                    "symbol": where.symbol,
                    "line": where.line,
                    "inlined": list(where.inlined),
                },
            }
        if line.left_out:
            said = ", ".join(f"{number} of {lane}" for lane, number in line.left_out.items())
            yield _named("process_labels", pe, 0, f"left out: {said}")


def perfetto(board: Board, lines: Sequence[Line]) -> Iterator[str]:
    """The time lines as Perfetto's JSON, in pieces."""
    before = '{"displayTimeUnit":"ns","traceEvents":['
    for event in trace_events(board, lines):
        yield before + json.dumps(event, separators=(",", ":"))
        before = ",\n"
    yield "]}\n"


def page(board: Board, lines: Sequence[Line]) -> str:
    """The time lines as one page that needs nothing else."""
    template = (files("spe_unicorn.debug.timeline") / "page.html").read_text(encoding="utf-8")
    name = "the machine" if board.image is None else board.image.path.name
    data = json.dumps(list(trace_events(board, lines))).replace("<", "\\u003c")
    before, _, after = template.replace("@TITLE@", html.escape(name)).partition("@DATA@")
    return before + data + after


def written(path: Path, board: Board, lines: Sequence[Line]) -> str:
    """What a file of this name is to hold: its suffix is one of :data:`SUFFIXES`."""
    return page(board, lines) if path.suffix == ".html" else "".join(perfetto(board, lines))


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, object]:
    key = "labels" if what == "process_labels" else "name"
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: name}}


def _span(pid: int, tid: int, name: str, at: int, until: int) -> dict[str, object]:
    times = {"ts": at / _MILLI, "dur": (until - at) / _MILLI}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, **times}


def _spans(changes: Sequence[tuple[int, int]], end: int) -> Iterator[tuple[int, int, int]]:
    """From when to when something had which value."""
    for number, (at, value) in enumerate(changes):
        until = changes[number + 1][0] if number + 1 < len(changes) else max(end, at)
        yield at, until, value
