"""A line on the terminal that says how far a run is."""

from __future__ import annotations

import shutil
import sys
import time

_FIRST = 0.5
"""Seconds until the line appears: a short run shows none."""
_EVERY = 0.1


class Progress:
    """The line, drawn over itself. It stands on standard error, if that is a terminal."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled and sys.stderr is not None and sys.stderr.isatty()
        self._began = self._next = time.monotonic() + _FIRST
        self._began -= _FIRST
        self._drawn = 0

    def update(self, operations: int, samples: int) -> None:
        """Show that so many operations have been executed and samples written."""
        now = time.monotonic()
        if not self._enabled or now < self._next:
            return
        self._next = now + _EVERY
        rate = operations / (now - self._began)
        line = f"{short(operations)} operations, {short(rate)}/s, {samples} samples"
        line = line[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + line.ljust(self._drawn))
        sys.stderr.flush()
        self._drawn = len(line)

    def hide(self) -> None:
        """Take the line away; the next update draws it again."""
        if self._drawn:
            sys.stderr.write("\r" + " " * self._drawn + "\r")
            sys.stderr.flush()
            self._drawn = 0


def short(number: float) -> str:
    """A number with three digits and a unit: ``12.3M``."""
    units = iter("kMGT")
    unit = ""
    while number >= 999.5:
        number /= 1000
        unit = next(units)
    return f"{number:.3g}{unit}"
