"""What becomes of the times of many rounds: one figure, or a refusal to name one.

The lower quartile stands for a machine. A round in which the host was busy, or in which the
engine's code buffer lay badly, makes a time longer and never shorter; the very shortest time is
luck as well. Where a quarter of the bare engine's times is much longer than another quarter, the
host was not the same host all the time, and what was measured on it is worth nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import geometric_mean, quantiles
from typing import Final

MOST_SPREAD: Final = 0.15
"""By how much the upper quartile of times may exceed the lower one, as a part of that."""
LEAST_TIMES: Final = 4
"""Times without which quartiles say nothing."""


def lower_quartile(times: Sequence[float]) -> float:
    """The lower quartile; of a single time, that time."""
    return times[0] if len(times) == 1 else quantiles(times, n=4, method="inclusive")[0]


def spread(times: Sequence[float]) -> float | None:
    """By how much the quartiles differ, as a part of the lower one; None for few times."""
    if len(times) < LEAST_TIMES:
        return None
    lower, _, upper = quantiles(times, n=4, method="inclusive")
    return upper / lower - 1


def is_refused(spread_: float | None) -> bool:
    """Whether times with this spread give no figure."""
    return spread_ is not None and spread_ > MOST_SPREAD


def mean_ratio(ratios: Iterable[float | None]) -> float | None:
    """The geometric mean; None if one of them was refused, or if there are none."""
    known = list(ratios)
    return geometric_mean([r for r in known if r]) if known and all(known) else None


def per_count(few: float, many: float, counts: int) -> float | None:
    """The time of each of so many counts that ``many`` has more than ``few``; None if not above 0.

    What both have, as the start of a process, falls out.
    """
    return (many - few) / counts if many > few else None


def shortest_ratio(some: Sequence[float], others: Sequence[float]) -> float:
    """The shortest of some times by the shortest of the others, which took turns with them."""
    return min(some) / min(others)
