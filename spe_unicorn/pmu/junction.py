"""The one junction through which every PMU event of a PE passes."""

from __future__ import annotations


class EventJunction:
    """Counts events by their number; an ``arch.ports.EventSink``.

    A set of events that happened together is counted as such and taken apart when somebody asks,
    since the sets that occur are few and one look-up is all that a sample can spare.
    """

    def __init__(self) -> None:
        self._single: dict[int, int] = {}
        self._together: dict[tuple[int, ...], int] = {}

    def event(self, number: int, count: int = 1) -> None:
        """PMU event ``number`` happened ``count`` times."""
        self._single[number] = self._single.get(number, 0) + count

    def events(self, numbers: tuple[int, ...], count: int = 1) -> None:
        """Each of ``numbers`` happened ``count`` times."""
        self._together[numbers] = self._together.get(numbers, 0) + count

    @property
    def counts(self) -> dict[int, int]:
        """How often each event has happened, by its number, in ascending order."""
        counts = self._single.copy()
        for numbers, count in self._together.items():
            for number in numbers:
                counts[number] = counts.get(number, 0) + count
        return dict(sorted(counts.items()))
