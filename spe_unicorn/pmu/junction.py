"""The one junction through which every PMU event of a PE passes."""

from __future__ import annotations

from dataclasses import dataclass, field

from spe_unicorn.plain import Bits16, Count
from spe_unicorn.stateful import Stateful


@dataclass(slots=True)
class JunctionState:
    """What is saved of a junction: counts."""

    single: dict[Bits16, Count] = field(default_factory=dict)
    """By the number of the event."""
    together: dict[tuple[Bits16, ...], Count] = field(default_factory=dict)
    """Of sets of events that happened together."""


Told = tuple[dict[int, int], dict[tuple[int, ...], int]]
"""Counts at one moment: of single events, and of sets of events that happened together."""


class EventJunction(Stateful[JunctionState]):
    """Counts events by their number; an ``arch.ports.EventSink``.

    A set of events that happened together is counted as such and taken apart when somebody asks,
    since the sets that occur are few and one look-up is all that a sample can spare.
    """

    def __init__(self) -> None:
        self.s = JunctionState()

    def event(self, number: int, count: int = 1) -> None:
        """PMU event ``number`` happened ``count`` times."""
        single = self.s.single
        single[number] = single.get(number, 0) + count

    def events(self, numbers: tuple[int, ...], count: int = 1) -> None:
        """Each of ``numbers`` happened ``count`` times."""
        together = self.s.together
        together[numbers] = together.get(numbers, 0) + count

    def count_of(self, number: int) -> int:
        """How often one event has happened."""
        return count_in((self.s.single, self.s.together), number)

    def told(self) -> Told:
        """The counts of now, for :func:`count_in`; they do not move on."""
        return self.s.single.copy(), self.s.together.copy()

    @property
    def counts(self) -> dict[int, int]:
        """How often each event has happened, by its number, in ascending order."""
        counts = self.s.single.copy()
        for numbers, count in self.s.together.items():
            for number in numbers:
                counts[number] = counts.get(number, 0) + count
        return dict(sorted(counts.items()))


def count_in(told: Told, number: int) -> int:
    """How often one event had happened."""
    single, together = told
    return single.get(number, 0) + sum(n for those, n in together.items() if number in those)
