"""Slices: how many operations run between two looks at the clock, the user and the limits.

Their length depends on the host's speed. It never changes what the guest does.
"""

from __future__ import annotations

import time
from typing import Final

_FIRST: Final = 1 << 20
_LENGTHS: Final = (1 << 12, 1 << 28)
"""Least and most operations of a slice."""
_SECONDS: Final = 0.03
"""What a slice should take, so that Ctrl-C is served within a tenth of a second."""
_STOPS: Final = 1 << 10
"""Stops of the engine after which a slice ends early: each stop costs microseconds."""


class Slices:
    """The slices of one PE, one after the other."""

    TRANSIT = ("_began", "_length", "_seconds", "_stops", "over")

    def __init__(self) -> None:
        self.over = False
        """Whether the slice must end now, before its last operation."""
        self._length = _FIRST
        self._began = 0
        self._seconds = 0.0
        self._stops = 0

    @property
    def end(self) -> int:
        """Executed operations at which the slice ends."""
        return self._began + self._length

    @property
    def length(self) -> int:
        """Operations of a slice that begins now."""
        return self._length

    def begin(self, executed: int) -> None:
        """Begin a slice after ``executed`` operations."""
        self.over = False
        self._stops = 0
        self._began = executed
        self._seconds = time.monotonic()

    def count_stop(self) -> None:
        """Count a run of the engine, which ends in a stop."""
        self._stops += 1
        self.over = self._stops > _STOPS

    def adapt(self, executed: int) -> None:
        """Size the coming slices by the speed of the one that ends now."""
        seconds = max(time.monotonic() - self._seconds, 1e-6)
        fitting = int((executed - self._began) * _SECONDS / seconds)
        self._length = max(_LENGTHS[0], min(_LENGTHS[1], fitting, self._length * 4))
