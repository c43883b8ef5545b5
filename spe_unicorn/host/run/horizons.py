"""Where a run of the engine has to end: each reason is a :class:`Horizon` in the runner's list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from spe_unicorn.host.ports import NEVER_HAPPENS, Ending


class Approach(Enum):
    """How the engine comes to a horizon."""

    EXACT = "exact"
    """It stops before the very operation."""
    BLOCK = "block"
    """It stops at the next boundary of a block."""
    CHOSEN = "chosen"
    """The operation is sampled. Compiled code does so by itself where it can. Where it cannot, the
    engine stops before the operation's block, and the runner goes on to the operation."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """A number of executed operations of the PE, and what is due there.

    ``at`` gives the number, NEVER_HAPPENS for none. ``arrive`` does what is due. It returns how the
    whole run ends, None if the run goes on.
    """

    at: Callable[[], int]
    arrive: Callable[[], Ending | None]
    approach: Approach = Approach.EXACT


class Horizons:
    """The horizons of one PE, in the order in which they are served if several are due."""

    WIRING = ("_all", "_exact", "_block", "_chosen")

    def __init__(self, horizons: Iterable[Horizon] = ()) -> None:
        self._all: list[Horizon] = []
        self._exact: list[Horizon] = []
        self._block: list[Horizon] = []
        self._chosen: list[Horizon] = []
        """The same, by their approach."""
        for horizon in horizons:
            self.append(horizon)

    def append(self, horizon: Horizon) -> None:
        """Add one that is served after all others."""
        self._all.append(horizon)
        if horizon.approach is Approach.EXACT:
            self._exact.append(horizon)
        elif horizon.approach is Approach.BLOCK:
            self._block.append(horizon)
        else:
            self._chosen.append(horizon)

    def arrived(self, executed: int) -> Horizon | None:
        """The first horizon that has been reached.

        A chosen operation is left out: compiled code may still sample it by itself.
        """
        for horizon in self._all:
            if horizon.approach is not Approach.CHOSEN and executed >= horizon.at():
                return horizon
        return None

    def nearest(self) -> tuple[int, int]:
        """The least number of operations among the exact horizons, and among those at a block."""
        exact = block = NEVER_HAPPENS
        for horizon in self._exact:
            if (at := horizon.at()) < exact:
                exact = at
        for horizon in self._block:
            if (at := horizon.at()) < block:
                block = at
        return exact, block

    def first_within(self, end: int) -> tuple[Horizon, int] | None:
        """The nearest horizon for which the engine must stop before ``end``, and where it is.

        Horizons at a block's boundary are left out. Where an exact one and the chosen operation are
        at the same place, the exact one is first: it stops the run before that operation.
        """
        found: tuple[Horizon, int] | None = None
        for horizon in (*self._exact, *self._chosen):
            at = horizon.at()
            if at < end and (found is None or at < found[1]):
                found = horizon, at
        return found
