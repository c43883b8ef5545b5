"""Tallies: how often instructions have retired that make events of those that somebody wants.

Compiled code adds up what blocks hold, in lanes of 32 bits, two to a word: each block has its row
in a table beside the block table. What it does not run as a whole block is told here by its words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.decode import decode
from spe_unicorn.host.native.state import BLOCKS, LANES, State
from spe_unicorn.host.native.tables import BlockTable
from spe_unicorn.pmu.words import events_of
from spe_unicorn.stateful import Stateful

_LANE_BITS: Final = 32
_WORDS: Final = LANES // 2
MOST_EVENTS: Final = LANES
"""Events of words that compiled code adds up at once."""


@dataclass(slots=True)
class TalliesState:
    """What is saved: the events that are wanted, and how often each has happened since."""

    wanted: tuple[int, ...] = ()
    counts: dict[int, int] = field(default_factory=dict)


class Tallies(Stateful[TalliesState]):
    """The tallies of one PE, whose hooks share ``state``."""

    DERIVED = ("_rows", "_stale", "_table")
    TRANSIT = ("straight", "straight_from")

    def __init__(self, state: State, blocks: BlockTable) -> None:
        self.s = TalliesState()
        self.straight: Sequence[int] = ()
        """The words that run now without being added up by the hooks."""
        self.straight_from = 0
        """Operations executed before them."""
        self._state = state
        self._blocks = blocks
        self._table = np.zeros((BLOCKS, _WORDS), np.int64)
        self._stale = False
        """Whether the rows are those of other events than are wanted now."""
        self._rows: dict[tuple[Instruction, ...], tuple[int, ...]] = {}
        state.tallies = self._table.ctypes.data

    def want(self, events: Iterable[int]) -> None:
        """From now on tally these events, and no others."""
        wanted = tuple(sorted(events))
        if wanted == self.s.wanted:
            return
        self._collect()
        self.s.wanted = wanted
        for event in wanted:
            self.s.counts.setdefault(event, 0)
        self._derive()

    def _derive(self) -> None:
        self._rows.clear()
        self._stale = True

    def between_runs(self) -> None:
        """The engine stands: blocks that it knows get new rows if other events are wanted."""
        if self._stale:
            self._stale = False
            self._blocks.forget()  # each block that runs is then entered anew

    @property
    def native(self) -> bool:
        """Whether compiled code adds up."""
        return 0 < len(self.s.wanted) <= MOST_EVENTS

    @property
    def stepwise(self) -> bool:
        """Whether there are too many events for that, so that each operation is told by itself."""
        return len(self.s.wanted) > MOST_EVENTS

    def enter(self, slot: int, code: tuple[Instruction, ...]) -> None:
        """A block has been entered into the block table."""
        if not self.native:
            return
        row = self._rows.get(code)
        if row is None:
            row = self._rows[code] = self._row(code)
        self._table[slot] = row

    def _row(self, code: tuple[Instruction, ...]) -> tuple[int, ...]:
        counts = [0] * LANES
        for instruction in code:
            events = events_of(instruction)
            for lane, event in enumerate(self.s.wanted):
                counts[lane] += event in events
        return tuple(counts[2 * n] | counts[2 * n + 1] << _LANE_BITS for n in range(_WORDS))

    def of(self, event: int, ahead: Sequence[int] = (), behind: Sequence[int] = ()) -> int:
        """How often an event has happened.

        ``ahead`` are words that have been added up and not executed, ``behind`` the opposite.
        """
        self._collect()
        count = self.s.counts.get(event, 0)
        return count - _count(event, ahead) + _count(event, behind)

    def add(self, words: Iterable[int], sign: int = 1) -> None:
        """Words have retired that the hooks have not added up; with ``sign`` -1 the opposite."""
        counts = self.s.counts
        for word in words:
            events = events_of(decode(word))
            for event in self.s.wanted:
                if event in events:
                    counts[event] += sign

    def _collect(self) -> None:
        """Take what compiled code has added up."""
        if not self.native:
            return
        counts = self.s.counts
        for event, count in zip(self.s.wanted, self._state.take_tallied(), strict=False):
            counts[event] += count


def _count(event: int, words: Sequence[int]) -> int:
    return sum(event in events_of(decode(word)) for word in words)
