"""How often operations are sampled at each place, as a check on the interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.plain import Bits32, Bits64, Count
from spe_unicorn.stateful import Stateful

_ALL: Final = 1024
"""The first samples, which are all counted. Then one window in eight is."""
_WINDOW: Final = 6
"""Samples in a window, as a power of two."""
_MOST: Final = 1 << 16
"""The most places that are counted."""


@dataclass(slots=True)
class TallyState:
    """What is saved of a tally."""

    samples: Count = 0
    counts: dict[tuple[Bits64, Bits32], Count] = field(default_factory=dict)
    """By address and instruction word."""


class Tally(Stateful[TallyState]):
    """Counts samples by place, before any filter.

    To be cheap it counts a part of them, in windows of 64. Which part depends on the numbers of the
    samples alone, so neighbours in a loop are still counted alike.
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

    def counted(self, number: int) -> list[slice]:
        """Which of the next ``number`` samples are counted; the next sample is 0."""
        first = self.s.samples
        found: list[slice] = []
        start = first
        while start < first + number:
            window = start >> _WINDOW
            if start >= _ALL and window & 7:
                start = (window | 7) + 1 << _WINDOW
                continue
            end = min(window + 1 << _WINDOW, first + number)
            found.append(slice(start - first, end - first))
            start = end
        return found

    def several(self, number: int, places: Iterable[tuple[int, int, int]]) -> None:
        """``number`` operations were sampled; ``places`` are those of :meth:`counted`.

        A place is an address, an instruction word, and how many samples were there.
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
