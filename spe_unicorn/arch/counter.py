"""The system counter's frequency, and how its ticks relate to the cycles of a PE.

Numbers alone, so that compiled code calls the functions, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

FREQUENCY: Final = 62_500_000
"""Of the system counter, in Hz: CNTFRQ_EL0."""
CLOCK: Final = 1_000_000_000
"""Cycles of a PE in a second of the guest, unless somebody says otherwise."""
CLOCK_STEP: Final = 1_000
CLOCK_MIN, CLOCK_MAX = 1_000_000, 10_000_000_000
"""Clocks are multiples of the step, so that products in :func:`ticks` keep 64 bits."""
NEVER: Final = 1 << 62
"""A count of ticks, or of cycles, that no machine comes to."""


def ticks(cycles: int, ticks_of: int, cycles_of: int) -> int:
    """How far the system counter has come after so many cycles: ``ticks_of`` in ``cycles_of``.

    Whole periods and the rest are counted apart: a product of all cycles would leave 64 bits.
    """
    whole = cycles // cycles_of
    return whole * ticks_of + (cycles - whole * cycles_of) * ticks_of // cycles_of


def first_cycle(count: int, ticks_of: int, cycles_of: int) -> int:
    """The first cycle at which the system counter has come so far: at most :data:`NEVER`."""
    whole = count // ticks_of
    if count >= NEVER or whole >= NEVER // cycles_of:
        return NEVER
    return whole * cycles_of + ((count - whole * ticks_of) * cycles_of + ticks_of - 1) // ticks_of


@dataclass(frozen=True)
class Rate:
    """The system counter goes ``ticks_of`` ticks in ``cycles_of`` cycles, in lowest terms."""

    ticks_of: int
    cycles_of: int

    @classmethod
    def of(cls, clock: int) -> Rate:
        """That of a PE with ``clock`` cycles a second. Raises ValueError for one that is none."""
        if not CLOCK_MIN <= clock <= CLOCK_MAX or clock % CLOCK_STEP:
            raise ValueError(f"allowed are whole kHz from 1M to 10G, got {clock}")
        common = gcd(FREQUENCY, clock)
        return cls(FREQUENCY // common, clock // common)

    def ticks(self, cycles: int) -> int:
        """How far the system counter has come after so many cycles."""
        return ticks(cycles, self.ticks_of, self.cycles_of)

    def cycles(self, ticks: int) -> int:
        """The first cycle at which the system counter has come so far: at most :data:`NEVER`."""
        return first_cycle(ticks, self.ticks_of, self.cycles_of)


USUAL_RATE: Final = Rate.of(CLOCK)
