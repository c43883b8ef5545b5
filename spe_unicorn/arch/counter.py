"""The system counter's frequency, and its ticks in cycles of a PE.

Numbers alone, so that compiled code calls :func:`ticks`, too.
"""

from __future__ import annotations

from typing import Final

FREQUENCY: Final = 62_500_000
"""Of the system counter, in Hz: CNTFRQ_EL0."""
_TICK: Final = 4
"""A PE runs at 1 GHz, so a tick is 16 cycles, which are powers of two."""


def ticks(cycles: int) -> int:
    """How far the system counter has come after so many cycles."""
    return cycles >> _TICK


def cycles(ticks: int) -> int:
    """The first cycle at which the system counter has come so far."""
    return ticks << _TICK
