"""How often operations are sampled at each place, as a check on the interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.stateful import Stateful

_ALL: Final = 1024
"""So many samples are counted at first; then those of one window in eight."""
_WINDOW: Final = 6
"""Samples in a window, as a power of two."""
_MOST: Final = 1 << 16
"""Places that are told apart."""


@dataclass(slots=True)
class TallyState:
    """What is saved of a tally."""

    samples: int = 0
    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    """By address and instruction word."""


class Tally(Stateful[TallyState]):
    """Samples by place, before any filter: of a part of them, in runs of 64, so that it is cheap.

    :attr:`counts` are by address and instruction word. That neighbours in a loop are counted alike
    holds for every part of the samples that goes by their numbers alone.
    """

    def __init__(self) -> None:
        self.s = TallyState()

    @property
    def samples(self) -> int:
        """How many there were."""
        return self.s.samples

    @property
    def counts(self) -> dict[tuple[int, int], int]:
        """Those of them that were counted, by address and instruction word."""
        return self.s.counts

    @property
    def counting(self) -> bool:
        """Whether the next sample is counted."""
        return self.s.samples < _ALL or not self.s.samples >> _WINDOW & 7

    def one(self, pc: int, word: int) -> None:
        """An operation was sampled."""
        if self.counting:
            self._count(pc, word)
        self.s.samples += 1

    def counted(self, number: int) -> list[int]:
        """Which of the next ``number`` samples are counted, from 0."""
        first = self.s.samples
        found: list[int] = []
        start = first
        while start < first + number:
            window = start >> _WINDOW
            end = min(window + 1 << _WINDOW, first + number)
            if start < _ALL or not window & 7:
                found.extend(range(start - first, end - first))
            start = end
        return found

    def several(self, number: int, places: Iterable[tuple[int, int, int]]) -> None:
        """So many operations were sampled; ``places`` are those of :meth:`counted`.

        Each is an address, an instruction word, and how many they were there.
        """
        for pc, word, times in places:
            self._count(pc, word, times)
        self.s.samples += number

    def _count(self, pc: int, word: int, times: int = 1) -> None:
        counts = self.s.counts
        key = pc, word
        if key in counts:
            counts[key] += times
        elif len(counts) < _MOST:
            counts[key] = times
