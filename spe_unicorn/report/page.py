"""A report as one HTML page that needs nothing else: no network, no files beside it."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has, canonical
from spe_unicorn.output.image import file_digest
from spe_unicorn.output.names import event_names, printable
from spe_unicorn.report.arrow import library
from spe_unicorn.report.cells import NO_LATENCY, cells
from spe_unicorn.report.samples import UNKNOWN, Samples
from spe_unicorn.report.texts import distinct
from spe_unicorn.report.views.annotation import Disassemble, annotate, find, sources_of
from spe_unicorn.report.views.cache_lines import cache_lines, hottest_lines
from spe_unicorn.report.views.calls import call_tree
from spe_unicorn.report.views.overview import kinds
from spe_unicorn.spe.packets import Event
from spe_unicorn.symbols.sources import Sources

MOST_SAMPLES = 200_000
"""Samples that a page holds one by one; more are counted in cells (``report.cells``)."""
MOST_LINES = 254
"""Cache lines that a page tells apart, those with the most samples."""
ANNOTATED = 40
"""Functions whose instructions are on the page, the hottest."""
_ROWS = 64
"""Rows of the heat map, at most."""
_NONE = 0xFFFF_FFFF
"""The index of what a sample does not have."""


def html_page(samples: Samples, disassemble: Disassemble, folders: Iterable[Path] = ()) -> str:
    """The page. Needs plotly (extra ``html``); raises MissingLibraryError without it.

    ``folders`` hold source files, as for ``report.views.annotation.annotate``. Names are data:
    they are in the page as JSON, and become text of elements.
    """
    plotly: str = library("plotly.offline", "html").get_plotlyjs()
    template = (files("spe_unicorn.report") / "page.html").read_text(encoding="utf-8")
    title = f"SPE report of {printable(samples.recording.file.path)}"
    # No text can end the element that it is in.
    data = json.dumps(page_data(samples, disassemble, folders)).replace("<", "\\u003c")
    parts = {"@TITLE@": html.escape(title), "@DATA@": data, "@PLOTLY@": plotly}
    for name in ("@TITLE@", "@DATA@", "@PLOTLY@"):
        # what is put in is not looked at again
        before, *after = template.split(name)
        template = before + "".join(parts[name] + rest for rest in after)
    return template


def page_data(
    samples: Samples, disassemble: Disassemble, folders: Iterable[Path] = ()
) -> dict[str, Any]:
    """What the page shows, as JSON has it: texts once, and columns of indexes into them."""
    arrays = samples.arrays
    kind = np.full(len(arrays), 255, np.uint8)
    names = []
    for number, (name, among) in enumerate(kinds(samples)):
        kind[among] = number
        names.append(name)
    timed = arrays.where(Has.TIMESTAMP)
    time = np.where(timed, arrays.timestamp.astype(np.float64), np.nan)
    unit = "time in ticks of the system counter"
    if not timed.any():
        time, unit = np.arange(len(arrays), dtype=np.float64), "number of the sample"
    symbols, symbol = _indexed(samples, "symbol")
    places, place = _indexed(samples, "address")
    targets, target = _indexed(samples, "target")
    target[samples.with_event(Event.NOT_TAKEN)] = _NONE  # some cores say where it would have gone
    sources, source = _indexed(samples, "source")
    cpus, cpu = _indexed(samples, "cpu")
    processes, process = _indexed(samples, "process")
    levels, level = _indexed(samples, "el")
    lines, line = _indexed(samples, "line")
    objects, object_ = _indexed(samples, "data")
    shared, shared_line = _cache_lines(samples)
    latency = np.where(arrays.where(Has.TOTAL), arrays.total.astype(np.uint32), NO_LATENCY)
    rows: dict[str, list[str]] = {}
    row_of: dict[str, Array] = {}
    rows["va"], row_of["va"] = _address_rows(canonical(arrays.va), arrays.where(Has.VA))
    physical = arrays.pa & np.uint64((1 << 56) - 1)
    rows["pa"], row_of["pa"] = _address_rows(physical, arrays.where(Has.PA))
    rows["data"], row_of["data"] = _data_rows(samples)
    # An array of one: numpy 2.5 has no type for a reduction to a number.
    events = int(np.bitwise_or.reduce(arrays.events, keepdims=True)[0])
    columns = {
        "time": time.astype("<f8"),
        "kind": kind,
        "symbol": symbol,
        "place": place,
        "target": target,
        "source": source,
        "cpu": cpu,
        "process": process,
        "el": level,
        "line": line,
        "object": object_,
        "cacheline": shared_line,
        "latency": latency.astype("<u4"),
        "events": (arrays.events & np.uint64(0xFFFF_FFFF)).astype("<u4"),
        **row_of,
    }
    indexes = ["symbol", "place", "target", "source", "cpu", "process", "el", "line"]
    indexes += ["object", "cacheline", *row_of]
    calls: dict[str, list[Any]] | None = None
    if samples.recording.file.calls:
        calls, columns["node"] = call_tree(samples)
        indexes.append("node")
    columns |= {name: _narrow(columns[name]) for name in indexes}
    known = time[~np.isnan(time)]
    bins = None
    if len(samples) > MOST_SAMPLES:
        found = cells(columns, ("pa", "va", "data", "cacheline"))
        columns, bins = found.columns, found.bins
        columns["count"] = columns["count"].astype("<u4")
        columns["cycles"] = columns["cycles"].astype("<f8")
    code, unread = _code(samples, symbols, places, disassemble, folders)
    return {
        "what": _what(samples),
        "origin": _origin(samples, unread),
        "marks": _marks(samples),
        "timed": bool(timed.any()),
        "count": len(columns["kind"]),
        "total": len(samples),
        "bins": bins,
        "tick": _milliseconds(samples) if timed.any() else None,
        "time": [float(known.min()), float(known.max())] if len(known) else [0, 1],
        "time_unit": unit,
        "kinds": names,
        "symbols": symbols,
        "places": places,
        "targets": targets,
        "sources": sources,
        "cpus": cpus,
        "processes": processes,
        "els": levels,
        "lines": lines,
        "objects": objects,
        "cachelines": shared,
        "events": [[event_names(1 << n)[0], n] for n in range(32) if events >> n & 1],
        "rows": rows,
        "calls": calls,
        "code": code,
        "indexes": indexes,
        "columns": {
            name: [column.dtype.str[1:], base64.b64encode(column.tobytes()).decode()]
            for name, column in columns.items()
        },
    }


def _indexed(samples: Samples, key: str) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """The labels that there are, and the place of each sample's among them."""
    names, codes = samples.coded(key)
    indexes = codes.astype("<u4")
    if UNKNOWN in names:
        indexes[indexes == names.index(UNKNOWN)] = _NONE
    return [printable(text) for text in names], indexes


def _narrow(indexes: Array) -> Array:
    """Indexes in as few bytes as they need; the largest number stays that of what is not there."""
    there = indexes[indexes != _NONE]
    most = int(there.max()) if len(there) else 0
    kind = next(kind for kind in ("<u1", "<u2", "<u4") if most < np.iinfo(kind).max)
    return np.where(indexes == _NONE, np.iinfo(kind).max, indexes).astype(kind)


def _address_rows(addresses: Array, there: Array) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """Ranges of pages that samples have, and the range of each sample: as many pages in each."""
    result = np.full(len(addresses), _NONE, "<u4")
    pages, where = distinct(addresses[there] >> np.uint64(12))
    if not len(pages):
        return [], result
    each = -(-len(pages) // _ROWS)
    result[there] = where // each
    parts = [pages[start : start + each] for start in range(0, len(pages), each)]
    return [f"{int(p[0]) << 12:#x}-{(int(p[-1]) + 1 << 12) - 1:#x}" for p in parts], result


def _data_rows(samples: Samples) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """The objects with the most samples; the others share the last row."""
    texts, indexes = _indexed(samples, "data")
    counts = np.bincount(indexes[indexes != _NONE], minlength=len(texts))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    kept = order[: _ROWS - 1]
    row = np.full(len(texts) + 1, len(kept), np.uint32)
    row[kept] = np.arange(len(kept))
    result = np.full(len(indexes), _NONE, "<u4")
    there = indexes != _NONE
    result[there] = row[indexes[there]]
    names = [texts[place] for place in kept]
    return names + ["other data"] * (len(order) > len(kept)), result


def _code(
    samples: Samples,
    symbols: list[str],
    places: list[str],
    disassemble: Disassemble,
    folders: Iterable[Path],
) -> tuple[dict[int, list[list[Any]]], list[str]]:
    """Instructions of the hottest functions: place, address, assembly and source line of each.

    The second value has sentences about source files that were not read.
    """
    sources: dict[Path, Sources] = {}
    place_of = {name: number for number, name in enumerate(places)}
    result: dict[int, list[list[Any]]] = {}
    groups = samples.groups(("symbol",), np.ones(len(samples)))[:ANNOTATED]
    for group in groups:
        name = group.labels[0]
        if name == UNKNOWN:
            continue
        try:
            file, _ = find(samples, name)
            if file.path not in sources:
                sources[file.path] = sources_of(file, folders)
            table = annotate(samples, name, disassemble, sources=sources[file.path])
        except (LookupError, OSError):
            continue
        lines = []
        for row in table.rows:
            address, text, source = row[-3:]
            pc = int(str(address), 16)
            label = printable(file.symbols.symbolize(pc) or hex(pc))
            lines.append([place_of.get(label, -1), address, text, printable(str(source or ""))])
        result[symbols.index(printable(name))] = lines
    unread = (each.why_not("--source DIR") for each in sources.values())
    return result, [sentence for sentence in unread if sentence is not None]


def _what(samples: Samples) -> str:
    programs = ", ".join(printable(str(file.path)) for file in samples.spaces.files)
    return f"{len(samples):,} samples" + (f" of {programs}" if programs else "")


def _milliseconds(samples: Samples) -> float | None:
    """How long a tick of the timestamps is, where the file tells."""
    clocks = samples.recording.file.clocks
    if not clocks:
        return None
    ticks = np.array([0, 1 << 20], np.uint64)
    begin, end = clocks[-1].nanoseconds(ticks).astype(np.float64).tolist()
    return float((end - begin) / (1 << 20) / 1e6)


def _cache_lines(samples: Samples) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """The cache lines with the most samples, and that of each sample."""
    result = np.full(len(samples), _NONE, "<u4")
    rows, number = hottest_lines(samples.arrays, MOST_LINES)
    if not len(rows):
        return [], result
    labels = cache_lines(samples.arrays, samples.labels("data"), rows)
    names: list[str] = []
    first: dict[int, int] = {}
    for row, each in zip(rows.tolist(), number.tolist(), strict=True):
        if each not in first:
            first[each] = len(names)
            names.append(printable(str(labels[row])))
    result[rows] = np.array([first[each] for each in number.tolist()], "<u4")
    return names, result


def _marks(samples: Samples) -> list[list[Any]]:
    """Time, PE and kind of each thing that happened to the buffer, in the order of time."""
    file = samples.recording.file
    if not file.clocks:
        return []
    clock = file.clocks[-1]
    return [[clock.ticks(h.time), h.cpu, h.text] for h in sorted(file.handovers)]


def _origin(samples: Samples, unread: list[str]) -> list[str]:
    """Files with their digests, and what was wrong with them, or could not be read."""
    recording = samples.recording
    lines = [_digest(recording.file.path)]
    if recording.file.command is not None:
        lines.append(f"Recorded by: {printable(recording.file.command)}")
    lines += [_digest(str(file.path)) for file in samples.spaces.files]
    lines += [f"{printable(doubt)}." for doubt in recording.doubts]
    if recording.bad_packets:
        lines.append(f"{len(recording.bad_packets)} bad packets were left out.")
    if recording.damage is not None:
        lines.append(f"The file is damaged: {recording.damage}.")
    lines += [f"There is {sentence}." for sentence in unread]
    if not recording.file.calls:
        lines.append("SPE samples one operation at a time; the file tells no calls.")
    return lines


def _digest(path: str) -> str:
    digest = file_digest(Path(path))
    return printable(path) + (f": SHA-256 {digest}" if digest else "")
