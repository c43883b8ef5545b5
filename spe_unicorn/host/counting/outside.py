"""Counts from outside: what happens on one PE, by Exception level, with none of its counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from spe_unicorn.host.counting.totals import EventTotals
from spe_unicorn.stateful import Stateful


@dataclass(slots=True)
class OutsideState:
    """What is saved: by event, how often it has happened at each Exception level."""

    counts: dict[int, list[int]] = field(default_factory=dict)


class OutsideCounts(Stateful[OutsideState]):
    """Counts ``events``; ``by_level``: the Exception level of each matters, not only the sum."""

    DERIVED = ("_seen",)

    def __init__(self, totals: EventTotals, events: Iterable[int], *, by_level: bool) -> None:
        self.s = OutsideState({event: [0] * 4 for event in events})
        self.by_level = by_level
        self._totals = totals
        self._seen: dict[int, int] = {}

    @property
    def events(self) -> frozenset[int]:
        """What is counted."""
        return frozenset(self.s.counts)

    def begin(self) -> None:
        """From here on it counts."""
        self._seen = {event: self._totals.of(event) for event in self.s.counts}

    def _derive(self) -> None:
        self._seen = {}

    def count(self, el: int) -> None:
        """What has happened since the last call happened at ``el``."""
        if not self._seen:
            self.begin()
        for event, counts in self.s.counts.items():
            total = self._totals.of(event)
            counts[el] += total - self._seen[event]
            self._seen[event] = total
