"""A report as one HTML page that needs nothing else: no network, no files beside it."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has, RecordArrays, canonical
from spe_unicorn.output.image import file_digest
from spe_unicorn.output.names import event_names, printable
from spe_unicorn.report.arrow import library
from spe_unicorn.report.cells import NO_LATENCY, Counting
from spe_unicorn.report.samples import UNKNOWN, Samples
from spe_unicorn.report.tally import Tally, heaviest, tally, together
from spe_unicorn.report.texts import Coded, distinct
from spe_unicorn.report.views.annotation import Disassemble, annotate, find, sources_of
from spe_unicorn.report.views.cache_lines import LineUsers, lines_of
from spe_unicorn.report.views.calls import CallTree
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
    survey = _Survey()
    for piece in samples.pieces():
        survey.add(piece)
    timed = survey.timed
    begin, end = survey.times if timed else (0.0, float(max(0, survey.count - 1)))
    unit = "time in ticks of the system counter" if timed else "number of the sample"
    columns = _Columns(survey)
    cells = Counting(begin, end, ("pa", "va", "cacheline"))
    few = survey.count <= MOST_SAMPLES
    pieces = []
    for piece in samples.pieces():
        made = columns.of(piece)
        if few:
            pieces.append(made)
        else:
            cells.add(made)
    bins = None
    if few:
        found = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    else:
        found, bins = cells.cells()
        found["count"] = found["count"].astype("<u4")
        found["cycles"] = found["cycles"].astype("<f8")
    texts = columns.sorted(found)
    rows = {"va": survey.va.texts(), "pa": survey.pa.texts()}
    rows["data"], found["data"] = _data_rows(texts["object"], found)
    indexes = [*INDEXES, "cacheline", *rows]
    if "node" in found:
        indexes.append("node")
    found |= {name: _narrow(found[name]) for name in indexes}
    code, unread = _code(survey, texts["symbol"], texts["place"], disassemble, folders)
    return {
        "what": _what(samples),
        "origin": _origin(samples, unread),
        "marks": _marks(samples),
        "timed": timed,
        "count": len(found["kind"]),
        "total": survey.count,
        "bins": bins,
        "tick": _milliseconds(samples) if timed else None,
        "time": [begin, end],
        "time_unit": unit,
        "kinds": [name for name, _ in kinds(samples.chosen())],
        "symbols": texts["symbol"],
        "places": texts["place"],
        "targets": texts["target"],
        "sources": texts["source"],
        "cpus": texts["cpu"],
        "processes": texts["process"],
        "els": texts["el"],
        "interrupts": texts["interrupt"],
        "lines": texts["line"],
        "objects": texts["object"],
        "cachelines": [printable(text) for text in survey.shared],
        "events": [[event_names(1 << n)[0], n] for n in range(32) if survey.events >> n & 1],
        "rows": rows,
        "calls": columns.calls.tree if samples.recording.file.calls else None,
        "code": code,
        "indexes": indexes,
        "columns": {
            name: [column.dtype.str[1:], base64.b64encode(column.tobytes()).decode()]
            for name, column in found.items()
        },
    }


class _Ranges:
    """Ranges of pages that samples have: as many pages in each."""

    def __init__(self) -> None:
        self._pages: Array = np.zeros(0, np.uint64)

    def add(self, addresses: Array) -> None:
        """Take addresses."""
        self._pages = np.union1d(self._pages, distinct(addresses >> np.uint64(12)).values)

    @property
    def _each(self) -> int:
        return -(-len(self._pages) // _ROWS)

    def rows(self, addresses: Array, there: Array) -> npt.NDArray[np.uint32]:
        """The range of each address that is there."""
        result = np.full(len(addresses), _NONE, "<u4")
        if len(self._pages):
            pages, where = distinct(addresses[there] >> np.uint64(12))
            result[there] = (np.searchsorted(self._pages, pages) // self._each)[where]
        return result

    def texts(self) -> list[str]:
        """What the ranges are called."""
        pages, each = self._pages, self._each
        parts = [pages[start : start + each] for start in range(0, len(pages), each or 1)]
        return [f"{int(p[0]) << 12:#x}-{(int(p[-1]) + 1 << 12) - 1:#x}" for p in parts]


class _Survey:
    """What has to be known of all samples before one is put into a cell."""

    def __init__(self) -> None:
        self.count = 0
        self.events = 0
        self.timed = False
        self.times = float("inf"), float("-inf")
        self.va, self.pa = _Ranges(), _Ranges()
        self.functions: Tally = {}
        self._users = LineUsers()
        self._witnesses: list[Samples] = []

    def add(self, samples: Samples) -> None:
        """Take samples."""
        arrays = samples.arrays
        self.count += len(samples)
        # An array of one: numpy 2.5 has no type for a reduction to a number.
        self.events |= int(np.bitwise_or.reduce(arrays.events, keepdims=True)[0])
        timed = arrays.timestamp[arrays.where(Has.TIMESTAMP)]
        if len(timed):
            self.timed = True
            first, last = float(np.min(timed)), float(np.max(timed))
            self.times = min(self.times[0], first), max(self.times[1], last)
        self.va.add(canonical(arrays.va)[arrays.where(Has.VA)])
        self.pa.add(_physical(arrays)[arrays.where(Has.PA)])
        self._users.add(arrays, Coded(*samples.coded("data")))
        found = tally(samples, ("symbol",), np.ones(len(samples)))
        self.functions = together((self.functions, found))
        threads = distinct(samples.spaces.threads)
        pcs = distinct(samples.pcs)
        pairs = distinct(pcs.numbers.astype(np.int64) * len(threads.values) + threads.numbers)
        self._witnesses.append(samples.only(pairs.first))

    @cached_property
    def witness(self) -> Samples:
        """Samples of every operation that has one, in each process."""
        return self._witnesses[0].joined(self._witnesses)

    @cached_property
    def lines(self) -> Array:
        """The numbers of the cache lines with the most samples."""
        return self._users.hottest(MOST_LINES)

    @cached_property
    def shared(self) -> list[str]:
        """What is told of these lines."""
        return self._users.labels(self.lines)


INDEXES: Final = {
    "symbol": "symbol",
    "place": "address",
    "target": "target",
    "source": "source",
    "cpu": "cpu",
    "process": "process",
    "el": "el",
    "interrupt": "interrupt",
    "line": "line",
    "object": "data",
}
"""Columns of a page that are indexes of texts, with the keys of ``report.samples`` for them."""


class _Columns:
    """Makes the columns of samples, piece by piece."""

    def __init__(self, survey: _Survey) -> None:
        self._survey = survey
        self._numbers: dict[str, dict[str, int]] = {name: {} for name in INDEXES}
        self._count = 0
        self.calls = CallTree()

    def of(self, samples: Samples) -> dict[str, Array]:
        """The columns of samples. Indexes are of texts in the order in which they came."""
        arrays, survey = samples.arrays, self._survey
        kind = np.full(len(arrays), 255, np.uint8)
        for number, (_, among) in enumerate(kinds(samples)):
            kind[among] = number
        time = np.arange(self._count, self._count + len(arrays), dtype=np.float64)
        if survey.timed:
            timed = arrays.where(Has.TIMESTAMP)
            time = np.where(timed, arrays.timestamp.astype(np.float64), np.nan)
        self._count += len(arrays)
        found = {name: self._indexed(samples, name) for name in INDEXES}
        # some cores say where it would have gone
        found["target"][samples.with_event(Event.NOT_TAKEN)] = _NONE
        rows, lines = lines_of(arrays)
        cacheline = np.full(len(arrays), _NONE, "<u4")
        if len(survey.lines):
            place = np.minimum(np.searchsorted(survey.lines, lines), len(survey.lines) - 1)
            cacheline[rows] = np.where(survey.lines[place] == lines, place, _NONE)
        latency = np.where(arrays.where(Has.TOTAL), arrays.total.astype(np.uint32), NO_LATENCY)
        columns = {
            "time": time.astype("<f8"),
            "kind": kind,
            **found,
            "cacheline": cacheline,
            "latency": latency.astype("<u4"),
            "events": (arrays.events & np.uint64(0xFFFF_FFFF)).astype("<u4"),
            "va": survey.va.rows(canonical(arrays.va), arrays.where(Has.VA)),
            "pa": survey.pa.rows(_physical(arrays), arrays.where(Has.PA)),
        }
        if samples.recording.file.calls:
            columns["node"] = self.calls.nodes(samples)
        return columns

    def _indexed(self, samples: Samples, name: str) -> Array:
        """The number of each sample's label."""
        names, codes = samples.coded(INDEXES[name])
        known = self._numbers[name]
        numbers = [
            _NONE if label == UNKNOWN else known.setdefault(label, len(known)) for label in names
        ]
        result: Array = np.array(numbers or [_NONE], "<u4")[codes]
        return result

    def sorted(self, columns: dict[str, Array]) -> dict[str, list[str]]:
        """The texts of the indexes, in order, which become those of ``columns``."""
        texts = {}
        for name, known in self._numbers.items():
            names = sorted(known)
            new = np.full(len(names) + 1, _NONE, "<u4")
            new[[known[label] for label in names]] = np.arange(len(names))
            columns[name] = new[np.minimum(columns[name], len(names))]
            texts[name] = [printable(label) for label in names]
        return texts


def _physical(arrays: RecordArrays) -> Array:
    result: Array = arrays.pa & np.uint64((1 << 56) - 1)
    return result


def _narrow(indexes: Array) -> Array:
    """Indexes in as few bytes as they need; the largest number stays that of what is not there."""
    there = indexes[indexes != _NONE]
    most = int(there.max()) if len(there) else 0
    kind = next(kind for kind in ("<u1", "<u2", "<u4") if most < np.iinfo(kind).max)
    return np.where(indexes == _NONE, np.iinfo(kind).max, indexes).astype(kind)


def _data_rows(
    texts: list[str], columns: dict[str, Array]
) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """The objects with the most samples; the others share the last row."""
    indexes = columns["object"]
    there = indexes != _NONE
    weights = columns["count"][there] if "count" in columns else None
    counts = np.bincount(indexes[there], weights, minlength=len(texts))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    kept = order[: _ROWS - 1]
    row = np.full(len(texts) + 1, len(kept), np.uint32)
    row[kept] = np.arange(len(kept))
    result = np.full(len(indexes), _NONE, "<u4")
    result[there] = row[indexes[there]]
    names = [texts[place] for place in kept]
    return names + ["other data"] * (len(order) > len(kept)), result


def _code(
    survey: _Survey,
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
    for (name,), _ in heaviest(survey.functions)[:ANNOTATED]:
        if name == UNKNOWN:
            continue
        try:
            file, _ = find(survey.witness, name)
            if file.path not in sources:
                sources[file.path] = sources_of(file, folders)
            table = annotate(survey.witness, name, disassemble, sources=sources[file.path])
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
