"""Stacks as JSON: of Speedscope, of the Firefox Profiler, and trace events that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np

from spe_unicorn.report.profiles.joining import decimal, joined_rows
from spe_unicorn.report.profiles.stacks import Part, Profile
from spe_unicorn.report.texts import Coded, distinct

_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"
_NANOS = [f".{nanos:03d}" for nanos in range(1000)]
_FIREFOX: dict[str, object] = {"version": 24, "preprocessedProfileVersion": 29}
"""Versions of the profile that is written; the profiler brings older ones up to its own."""


def speedscope(profile: Profile) -> Iterator[str]:
    """A profile for each PE, samples in the order of their records."""
    frames: dict[tuple[str, str, int], int] = {}
    described: list[dict[str, object]] = []

    def number(name: str, file: str = "", line: int = 0) -> int:
        key = name, file, line
        if key not in frames:
            frames[key] = len(described)
            described.append({"name": name} | ({"file": file, "line": line} if file else {}))
        return frames[key]

    numbers = [
        [
            number(stack.process),
            number(stack.el),
            *(
                number(f.function, f.line.path, f.line.number) if f.line else number(f.function)
                for f in stack.frames
            ),
        ]
        for stack in profile.stacks
    ]
    yield '{"profiles":['
    for place, (pe, parts) in enumerate(_by_pe(profile).items()):
        head = {"type": "sampled", "name": f"PE {pe} ({profile.by})", "unit": "none"}
        whole = sum(int(part.weights.sum()) for part in parts)
        yield "," * (place > 0) + _dump(head | {"startValue": 0, "endValue": whole})[:-1]
        told = [_dump(number) for number in numbers]
        yield from _list("samples", ([told[n] for n in p.number.tolist()] for p in parts))
        yield from _list("weights", (map(str, part.weights.tolist()) for part in parts))
        yield "}"
    rest = {
        "$schema": _SPEEDSCOPE,
        "exporter": "spe-unicorn",
        "name": profile.samples.recording.file.path,
        "shared": {"frames": described},
    }
    yield "]," + _dump(rest)[1:]


def _by_pe(profile: Profile) -> dict[int, list[Part]]:
    """The samples of each PE, in their order."""
    result: dict[int, list[Part]] = {}
    for part in profile.parts():
        for pe in np.unique(part.cpu).tolist():
            rows = np.flatnonzero(part.cpu == pe)
            result.setdefault(pe, []).append(part.only(rows))
    return dict(sorted(result.items()))


def _list(name: str, pieces: Iterable[Iterable[str]]) -> Iterator[str]:
    """A list, of texts of JSON, in an object that goes on."""
    yield f',"{name}":['
    first = True
    for piece in pieces:
        text = ",".join(piece)
        if text:
            yield text if first else f",{text}"
            first = False
    yield "]"


def firefox(profile: Profile) -> Iterator[str]:
    """The processed profile: a thread for each PE. Times are milliseconds of a counter of 1 GHz."""
    meta: dict[str, object] = {
        **_FIREFOX,
        "interval": 1,
        "startTime": 0,
        "processType": 0,
        "product": "spe-unicorn",
        "stackwalk": 1,
        "debug": False,
        "symbolicated": True,
        "usesOnlyOneStackType": True,
        "doesNotUseFrameImplementation": True,
        "sourceCodeIsNotOnSearchfox": True,
        "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
        "markerSchema": [],
        "extensions": {"length": 0, "id": [], "name": [], "baseURL": []},
    }
    yield _dump({"meta": meta, "libs": [], "pages": []})[:-1] + ',"threads":['
    for place, (pe, parts) in enumerate(_by_pe(profile).items()):
        yield "," * (place > 0)
        yield from _firefox_thread(profile, pe, parts)
    yield "]}"


class _Strings:
    """Texts by number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.all)
            self.all.append(text)
        return self._known[text]


def _firefox_thread(profile: Profile, pe: int, parts: list[Part]) -> Iterator[str]:
    string = _Strings()
    functions: dict[tuple[str, str], int] = {}
    frames: dict[tuple[int, int, int], int] = {}
    nodes: dict[tuple[int, int | None], int] = {}
    last: dict[int, int | None] = {}
    there = np.zeros(len(profile.stacks), bool)
    for part in parts:
        there[part.number] = True
    for n in np.flatnonzero(there).tolist():
        stack = profile.stacks[n]
        prefix: int | None = None
        whole = [(stack.process, "", 0, 0), (stack.el, "", 0, 0)]
        for call in stack.calls:
            for depth, f in enumerate(call.frames):
                path, line = (f.line.path, f.line.number) if f.line else ("", 0)
                whole.append((f.function, path, line, depth))
        for name, path, line, depth in whole:
            function = functions.setdefault((name, path), len(functions))
            frame = frames.setdefault((function, line, depth), len(frames))
            prefix = nodes.setdefault((frame, prefix), len(nodes))
        last[n] = prefix
    zeros, nothing = [0] * len(frames), [None] * len(frames)
    count = len(functions)
    tables = {
        "name": f"PE {pe}",
        "isMainThread": pe == 0,
        "processType": "default",
        "processName": profile.samples.recording.file.path,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "pid": "0",
        "tid": pe,
        "stackTable": {
            "length": len(nodes),
            "frame": [frame for frame, _ in nodes],
            "prefix": [prefix for _, prefix in nodes],
            "category": [0] * len(nodes),
            "subcategory": [0] * len(nodes),
        },
        "frameTable": {
            "length": len(frames),
            "address": [-1] * len(frames),
            "inlineDepth": [depth for _, _, depth in frames],
            "category": zeros,
            "subcategory": zeros,
            "func": [function for function, _, _ in frames],
            "nativeSymbol": nothing,
            "innerWindowID": nothing,
            "implementation": nothing,
            "line": [line or None for _, line, _ in frames],
            "column": nothing,
            "optimizations": nothing,
        },
        "funcTable": {
            "length": count,
            "name": [string(name) for name, _ in functions],
            "isJS": [False] * count,
            "relevantForJS": [False] * count,
            "resource": [-1] * count,
            "fileName": [string(path) if path else None for _, path in functions],
            "lineNumber": [None] * count,
            "columnNumber": [None] * count,
        },
        "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        "nativeSymbols": {
            "length": 0,
            "libIndex": [],
            "address": [],
            "name": [],
            "functionSize": [],
        },
        "markers": {
            "length": 0,
            "data": [],
            "name": [],
            "startTime": [],
            "endTime": [],
            "phase": [],
            "category": [],
        },
        "stringArray": string.all,
    }
    yield _dump(tables)[:-1]
    timed = all(bool(part.timed.all()) for part in parts)
    behind = np.cumsum([0, *(len(part.number) for part in parts)]).tolist()
    told = ["null" if node is None else str(node) for node in map(last.get, range(len(there)))]
    head: dict[str, object] = {"length": behind[-1], "weightType": "samples"}
    yield ',"samples":' + _dump(head)[:-1]
    yield from _list("stack", ([told[n] for n in p.number.tolist()] for p in parts))
    yield from _list("weight", (map(str, part.weights.tolist()) for part in parts))
    yield from _list(
        "time",
        (
            map(str, (part.ticks / 1e6 if timed else start + np.arange(len(part.ticks))).tolist())
            for part, start in zip(parts, behind, strict=False)
        ),
    )
    yield "}}"


def perfetto(profile: Profile) -> Iterator[str]:
    """Trace events: each sample a slice of its process and PE, as long as its total latency.

    A cycle is shown as a nanosecond, and so is a tick of the record's timestamp.
    """
    processes = {name: n for n, name in enumerate(dict.fromkeys(s.process for s in profile.stacks))}
    events = [
        {"ph": "M", "name": "process_name", "pid": n + 1, "tid": 0, "args": {"name": name}}
        for name, n in processes.items()
    ]
    heads = []
    for stack in profile.stacks:
        innermost = stack.frames[-1]
        args = {
            "el": stack.el,
            "pc": hex(stack.here.address),
            "frames": " < ".join(str(frame) for frame in reversed(stack.frames)),
        }
        known = {"ph": "X", "name": innermost.function, "cat": profile.by, "args": args}
        heads.append(_dump(known | {"pid": processes[stack.process] + 1})[:-1])
    yield '{"displayTimeUnit":"ns","traceEvents":['
    yield ",".join(map(_dump, events))
    for part in profile.parts():
        places, led = part.places()
        cycles = distinct(part.cycles)
        yield joined_rows(
            (
                Coded([f',{heads[number]},"tid":{pe},"ts":' for number, pe in places], led),
                *decimal(part.ticks // np.uint64(1000)),
                Coded(_NANOS, (part.ticks % np.uint64(1000)).astype(np.int32)),
                Coded([f',"dur":{n / 1000:.3f}}}' for n in cycles.values.tolist()], cycles.numbers),
            )
        )
    yield "]}\n"


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
