"""Stacks as text: folded, as flame graphs take them, and as ``perf script`` prints samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spe_unicorn.report.profiles.joining import decimal, joined_rows
from spe_unicorn.report.profiles.stacks import Profile, Stack
from spe_unicorn.report.samples import UNKNOWN
from spe_unicorn.report.texts import Coded, distinct
from spe_unicorn.symbols.table import printable


def folded(profile: Profile) -> Iterator[str]:
    """A line for each stack: its frames from the outermost, semicolons between, and its count."""
    counts: dict[str, int] = {}
    for stack, count in zip(profile.stacks, profile.counts, strict=True):
        line = ";".join(word.replace(";", ":") for word in stack.words)
        counts[line] = counts.get(line, 0) + count
    for line in sorted(counts):
        if counts[line]:
            yield f"{line} {counts[line]}\n"


def perf_script(profile: Profile) -> Iterator[str]:
    """Each sample as ``perf script`` prints it: a line of its own, its frames, an empty line.

    Times are the record's timestamps in seconds of a counter of 1 GHz.
    """
    bodies = [f"{_body(stack)}\n" for stack in profile.stacks]
    names = [_comm(stack.process) for stack in profile.stacks]
    event = profile.by.replace(" ", "-")
    for part in profile.parts():
        places, led = part.places()
        micros = distinct(part.ticks // np.uint64(1000))
        times = Coded(
            [f"{time // 10**6}.{time % 10**6:06d}" for time in micros.values.tolist()],
            micros.numbers,
        )
        yield joined_rows(
            (
                Coded([f"{names[number]} [{pe:03d}] " for number, pe in places], led),
                times.where(part.timed, "0.000000"),
                ": ",
                *decimal(part.weights),
                f" {event}:\n",
                Coded(bodies, part.number),
            )
        )


def _comm(process: str) -> str:
    """The name and the number of a process, as the first words of a line of perf's."""
    name, _, number = process.rpartition(" ")
    if not name or not number.isdecimal():
        name, number = process, "0"
    return f"{name.replace(' ', '_')} {number}"


def _body(stack: Stack) -> str:
    lines = []
    for call in reversed(stack.calls):
        module = "[unknown]" if call.object == UNKNOWN else call.object
        lines += [
            f"\t{call.address:16x} {printable(frame.function)} ({module})\n"
            for frame in reversed(call.frames)
        ]
    return "".join(lines)
