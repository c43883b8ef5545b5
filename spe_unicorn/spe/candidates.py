"""Sampling by events that an operation shows only once it has been executed.

Between two runs of the engine it is known how often the event has happened. One operation makes a
limited number of events, so some of the next operations cannot make the chosen event. Each
operation after them is a candidate: it is executed, and the number of events then says whether it
made the chosen one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import PE
from spe_unicorn.plain import Count
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.interval import Distances
from spe_unicorn.spe.sampler import Goal, SampledCore
from spe_unicorn.stateful import Stateful

_FAR: Final = 1 << 60
"""Members to go while a candidate has been executed and not been judged: none is reached."""


@dataclass(slots=True)
class CandidateState:
    """What is saved of an interval that chooses candidates."""

    until: Count
    """Events up to and including the chosen one."""
    left: Count
    """Members up to and including the next candidate."""
    seen: Count = 0
    """The total of events at the last look."""
    owed: bool = False
    """The chosen event has happened, and the next candidate is sampled for it."""


class CandidateInterval(Stateful[CandidateState]):
    """Chooses the candidates for every ``period``-th event; a member makes at most ``most``."""

    WIRING = ("reach",)

    def __init__(self, period: int, most: int) -> None:
        self._period = period
        self._most = most
        self.reach: Callable[[int], int] | None = None
        """How many members go by until the event has happened so often, where that is known."""
        self.s = CandidateState(period, 1)
        self.aim()

    def enable(self) -> None:
        """Nothing to load: the count simply goes on."""

    def until_hit(self) -> int:
        """How many members go by up to and including the next candidate, at least 1."""
        return self.s.left

    def advance(self, members: int) -> bool:
        """Let ``members`` go by. True if the last is a candidate; ValueError if an earlier is."""
        if members > self.s.left:
            raise ValueError(f"a member is a candidate {members - self.s.left} before the last")
        self.s.left -= members
        if self.s.left:
            return False
        self.s.left = _FAR
        return True

    def count_events(self, total: int, *, counts: bool) -> tuple[int, bool]:
        """Take note that the event has happened ``total`` times.

        Returns how many of these are new, and whether the chosen event is among them. Without
        ``counts`` the new events belong to operations that are not profiled: they count for none.
        """
        state = self.s
        made, state.seen = (total - state.seen if counts else 0), total
        state.until -= made
        chosen = state.until <= 0
        if chosen:
            state.until = self._period - -state.until % self._period
        self.aim()
        return made, chosen

    def pass_hits(self, hits: int) -> int:
        """Raises RuntimeError: each candidate is judged by itself."""
        raise RuntimeError(f"{hits} candidates in one step: each is judged by itself")

    def following(self, count: int) -> Distances:
        """Far away: the distances depend on events that have not happened."""
        return np.full(count, _FAR)

    def owe(self) -> None:
        """The chosen event has happened: the next member is sampled for it."""
        self.s.owed = True
        self.s.left = 1

    def aim(self) -> None:
        """Work out the next candidate. There is none for an event that never happens."""
        state = self.s
        if state.owed:
            state.left = 1
        elif self.reach is not None:
            state.left = max(self.reach(state.seen + state.until), 1)
        else:
            state.left = -(-state.until // self._most) if self._most else _FAR


class CandidateSampler(ExternalSampler):
    """Samples operations that make every ``period``-th of the events that :attr:`total` counts.

    A member makes at most ``most`` of them. An operation that makes more than one chosen event is
    sampled once.
    """

    WIRING = ("close", "goal", "total")

    def __init__(self, pe: PE, asked: Asked, core: SampledCore, *, most: int = 1) -> None:
        self._candidates = CandidateInterval(asked.period, most)
        self.total: Callable[[], int] = lambda: 0
        """How often the event has happened."""
        self.goal: int | None = None
        """The number of the event, where the engine can stop as it happens."""
        self.close: int | None = None
        """So many events before the chosen one, and closer, it can; None: always."""
        super().__init__(pe, asked, core, self._candidates)

    def foresee_by(self, reach: Callable[[int], int]) -> None:
        """It is known which member makes an event: see ``CandidateInterval.reach``."""
        self._candidates.reach = reach
        self._candidates.aim()

    def advance(self, members: int) -> bool:
        """Let ``members`` go by, at most :meth:`until_hit`. True if the last is a candidate."""
        if not self._candidates.advance(members):
            return False
        self._sampling.append((self._recorders, self._filter))
        return True

    def awaited(self) -> Goal | None:
        """The event, and its total at the chosen operation; None for one that is no goal yet."""
        state = self._candidates.s
        if self.goal is None or state.owed:
            return None
        if self.close is not None and state.until > self.close:
            return None
        return Goal(self.goal, state.seen + state.until)

    @property
    def owes(self) -> bool:
        """Whether the chosen event has happened, and its operation is not yet sampled."""
        return self._candidates.s.owed

    def choose_last(self) -> None:
        """The last member that has gone by is sampled: it made the event that is owed."""
        self._sampling.append((self._recorders, self._filter))

    def pass_by(self, members: int) -> bool:
        """Let ``members`` go by that the engine has executed, any number with :attr:`waits`."""
        if self.waits and members >= self._candidates.s.left:
            members = self._candidates.s.left - 1
        return self.advance(members)

    def complete(self, operation: Operation, did: int | None = None) -> None:
        """The candidate is done: make its record if it made the chosen event.

        Raises RuntimeError without a candidate.
        """
        if self._count_events() or self._candidates.s.owed:
            self._candidates.s.owed = False
            self._candidates.aim()
            self.statistics.selected += 1
            super().complete(operation, did)
        elif self._sampling:
            self._sampling.popleft()

    def told(self) -> None:
        """All executed operations have been reported: see how often the event has happened."""
        if self._count_events():
            self._candidates.owe()

    def refresh(self) -> None:
        """Look again at which Exception level the PE is. Cheap while nothing has changed."""
        if self._pe.el != self._el:
            self.told()
        super().refresh()

    def quiet_records(self) -> int:
        """None: each candidate is judged by itself."""
        return 0

    def _count_events(self) -> bool:
        made, chosen = self._candidates.count_events(self.total(), counts=self.enabled)
        self.statistics.population += made
        return chosen
