"""Stacks as JSON: of Speedscope, of the Firefox Profiler, and trace events that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from spe_unicorn.output.arrays import Has
from spe_unicorn.report.profiles.stacks import Stacks

_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"
_FIREFOX: dict[str, object] = {"version": 24, "preprocessedProfileVersion": 29}
"""Versions of the profile that is written; the profiler brings older ones up to its own."""


def speedscope(stacks: Stacks) -> Iterator[str]:
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
        for stack in stacks.stacks
    ]
    profiles = []
    arrays = stacks.samples.arrays
    for pe in np.unique(arrays.cpu).tolist():
        rows = np.flatnonzero((arrays.cpu == pe) & (stacks.weights > 0))
        weights = stacks.weights[rows].astype(np.int64).tolist()
        profiles.append(
            {
                "type": "sampled",
                "name": f"PE {pe} ({stacks.by})",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": [numbers[n] for n in stacks.number[rows].tolist()],
                "weights": weights,
            }
        )
    yield _dump(
        {
            "$schema": _SPEEDSCOPE,
            "exporter": "spe-unicorn",
            "name": stacks.samples.recording.file.path,
            "shared": {"frames": described},
            "profiles": profiles,
        }
    )


def firefox(stacks: Stacks) -> Iterator[str]:
    """The processed profile: a thread for each PE. Times are milliseconds of a counter of 1 GHz."""
    arrays = stacks.samples.arrays
    threads = []
    for pe in np.unique(arrays.cpu).tolist():
        rows = np.flatnonzero((arrays.cpu == pe) & (stacks.weights > 0))
        threads.append(_firefox_thread(stacks, pe, rows))
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
    yield _dump({"meta": meta, "libs": [], "pages": [], "threads": threads})


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


def _firefox_thread(stacks: Stacks, pe: int, rows: Any) -> dict[str, object]:
    string = _Strings()
    functions: dict[tuple[str, str], int] = {}
    frames: dict[tuple[int, int, int], int] = {}
    nodes: dict[tuple[int, int | None], int] = {}
    last: dict[int, int | None] = {}
    for n in np.unique(stacks.number[rows]).tolist():
        stack = stacks.stacks[n]
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
    arrays = stacks.samples.arrays
    times = (arrays.timestamp[rows].astype(np.float64) / 1e6).tolist()
    if not arrays.where(Has.TIMESTAMP)[rows].all():
        times = [float(n) for n in range(len(rows))]
    zeros, nothing = [0] * len(frames), [None] * len(frames)
    count = len(functions)
    return {
        "name": f"PE {pe}",
        "isMainThread": pe == 0,
        "processType": "default",
        "processName": stacks.samples.recording.file.path,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "pid": "0",
        "tid": pe,
        "samples": {
            "length": len(rows),
            "stack": [last[n] for n in stacks.number[rows].tolist()],
            "time": times,
            "weight": stacks.weights[rows].astype(np.int64).tolist(),
            "weightType": "samples",
        },
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


def perfetto(stacks: Stacks) -> Iterator[str]:
    """Trace events: each sample a slice of its process and PE, as long as its total latency.

    A cycle is shown as a nanosecond, and so is a tick of the record's timestamp.
    """
    arrays = stacks.samples.arrays
    processes = {name: n for n, name in enumerate(dict.fromkeys(s.process for s in stacks.stacks))}
    events = [
        {"ph": "M", "name": "process_name", "pid": n + 1, "tid": 0, "args": {"name": name}}
        for name, n in processes.items()
    ]
    heads = []
    for stack in stacks.stacks:
        innermost = stack.frames[-1]
        args = {
            "el": stack.el,
            "pc": hex(stack.here.address),
            "frames": " < ".join(str(frame) for frame in reversed(stack.frames)),
        }
        known = {"ph": "X", "name": innermost.function, "cat": stacks.by, "args": args}
        heads.append(_dump(known | {"pid": processes[stack.process] + 1})[:-1])
    yield '{"displayTimeUnit":"ns","traceEvents":['
    yield ",".join(map(_dump, events))
    columns = (stacks.number, arrays.cpu, arrays.timestamp, arrays.total, stacks.weights)
    for n, pe, ticks, cycles, weight in zip(*(c.tolist() for c in columns), strict=True):
        if weight:
            yield f',{heads[n]},"tid":{pe},"ts":{ticks / 1000:.3f},"dur":{cycles / 1000:.3f}}}'
    yield "]}\n"


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
