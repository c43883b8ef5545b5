"""Where a run of the engine has to end: each reason is a :class:`Horizon` in the runner's list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spe_unicorn.host.ports import NEVER_HAPPENS, Ending


@dataclass(frozen=True, slots=True)
class Horizon:
    """A number of operations that the PE will have executed, and what is due then.

    ``at`` says how many, NEVER_HAPPENS for none. ``arrive`` does what is due, and says how the
    whole run ends, None if it goes on. The engine stops before an ``exact`` one at the very
    operation, before another at the next boundary of a block.
    """

    at: Callable[[], int]
    arrive: Callable[[], Ending | None]
    exact: bool = True


def arrived(horizons: Sequence[Horizon], executed: int) -> Horizon | None:
    """The first horizon of a list, in its order, that has been reached."""
    return next((horizon for horizon in horizons if executed >= horizon.at()), None)


def nearest(horizons: Sequence[Horizon], *, exact: bool) -> int:
    """The least number of operations among those that are exact, or that are not."""
    return min((h.at() for h in horizons if h.exact is exact), default=NEVER_HAPPENS)
