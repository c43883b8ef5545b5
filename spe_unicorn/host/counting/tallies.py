"""Tallies: how often instructions have retired that make an event which is wanted.

Compiled code adds up what each block holds. A block has a row in a table beside the block table,
with two lanes of 32 bits in a word. Operations that do not run as a whole block are added by
:meth:`Tallies.add`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.ports import Cracker
from spe_unicorn.compiled import large_table
from spe_unicorn.decode import decode
from spe_unicorn.host.native.state.block_table import BLOCKS, LANES, ROW
from spe_unicorn.host.native.state.transit import way_known
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.host.native.tables import BlockTable
from spe_unicorn.plain import Bits16, Count
from spe_unicorn.pmu.words import (
    JUMP_EVENTS,
    PART_EVENTS,
    STORED_EVENTS,
    events_of,
    jumps_always,
    may_jump,
)
from spe_unicorn.stateful import Stateful

_LANE_BITS: Final = 32
_MASK: Final = (1 << 64) - 1
_MOST_NUMBERS: Final = 1 << 10
MOST_EVENTS: Final = LANES
"""Events of words that compiled code adds up at once."""


@dataclass(slots=True)
class TalliesState:
    """What is saved: the events that are wanted, and how often each has happened since."""

    wanted: tuple[Bits16, ...] = ()
    counts: dict[Bits16, Count] = field(default_factory=dict)


class Tallies(Stateful[TalliesState]):
    """The tallies of one PE, whose hooks share ``state``.

    ``cracker`` makes micro-operations of instructions, None where each is one.
    """

    DERIVED = ("_made_for", "_numbers", "_rows", "_stale", "_table", "_used")
    TRANSIT = ("straight", "straight_at", "straight_from")

    def __init__(self, state: State, blocks: BlockTable, cracker: Cracker | None = None) -> None:
        self.s = TalliesState()
        self.straight: Sequence[int] = ()
        """The words that run now and that the hooks do not add up."""
        self.straight_from = 0
        """How many operations were executed before them."""
        self.straight_at = 0
        """The address of the first of them."""
        self._state = state
        self._blocks = blocks
        self._cracker = cracker
        self._table = large_table(BLOCKS, ROW)
        self._made_for: tuple[Bits16, ...] = ()
        """The events that rows of the table are for."""
        self._stale = False
        """Whether some of them may be for other events than those that are wanted now."""
        self._rows: dict[tuple[Instruction, ...], tuple[int, ...]] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        """A number for each set of events that was wanted."""
        self._used = 0
        """The last of those numbers."""
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

    def save(self) -> TalliesState:
        """A copy of the state, with what compiled code has added up so far."""
        self._collect()
        return super().save()

    def put(self, state: TalliesState) -> None:
        """Take a state. Drop what compiled code has added up, which belongs to the state before."""
        self._state.take_tallied()
        super().put(state)

    def _derive(self) -> None:
        if self.s.wanted != self._made_for:
            self._rows.clear()
            self._stale = True

    def between_runs(self) -> None:
        """While the engine stands: if other events are wanted, have all blocks added anew."""
        if self._stale:
            self._stale = False
            self._made_for = self.s.wanted
            self._blocks.forget()  # each block that runs is then added anew

    @property
    def native(self) -> bool:
        """Whether compiled code adds up the events that are wanted."""
        return 0 < len(self.s.wanted) <= MOST_EVENTS

    @property
    def number(self) -> int:
        """``State.tally`` while compiled code adds up what is wanted, 0 while it does not."""
        if not self.native:
            return 0
        number = self._numbers.get(self.s.wanted)
        if number is None:
            if len(self._numbers) >= _MOST_NUMBERS:
                self._numbers.clear()
            self._used += 1
            number = self._numbers[self.s.wanted] = self._used
        return 2 * number + self._follows_jumps

    @property
    def stepwise(self) -> bool:
        """Whether too many events are wanted, so that each operation is looked at by itself."""
        return len(self.s.wanted) > MOST_EVENTS

    def add_block(self, slot: int, code: tuple[Instruction, ...]) -> None:
        """A block has been added to the block table."""
        if not self.native:
            return
        row = self._rows.get(code)
        if row is None:
            row = self._rows[code] = self._row(code)
        self._table[slot] = row

    def _row(self, code: tuple[Instruction, ...]) -> tuple[int, ...]:
        counts = [0] * LANES
        for instruction in code:
            for lane, event in enumerate(self.s.wanted):
                counts[lane] += self._made(instruction, event)
        lanes = (counts[2 * n] | counts[2 * n + 1] << _LANE_BITS for n in range(ROW - 1))
        # the engine makes a block of no operation where a software step is to be taken at once
        jumps = self._follows_jumps and code and may_jump(code[-1])
        return (*lanes, -1 if jumps else 0)

    @property
    def _follows_jumps(self) -> bool:
        return not JUMP_EVENTS.isdisjoint(self.s.wanted)

    def _made(self, instruction: Instruction, event: int) -> int:
        """How often an instruction makes an event, wherever it branches to."""
        if event in JUMP_EVENTS:
            return jumps_always(instruction)
        if event in PART_EVENTS:
            return 1 if self._cracker is None else len(self._cracker.parts(instruction))
        return event in events_of(instruction)

    def of(self, event: int, ahead: Sequence[int] = (), behind: Sequence[int] = ()) -> int:
        """How often an event has happened.

        ``ahead`` are words that have been added up and not executed, ``behind`` are words that have
        been executed and not added up.
        """
        self._collect()
        count = self.s.counts.get(event, 0)
        return count - self._count(event, ahead) + self._count(event, behind)

    def add(self, words: Iterable[int], sign: int = 1) -> None:
        """Add words that have retired and that hooks have not added up; -1 takes them away."""
        counts = self.s.counts
        for word in words:
            instruction = decode(word)
            for event in self.s.wanted:
                counts[event] += sign * self._made(instruction, event)

    def jumped(self, count: int = 1) -> None:
        """Count conditional branches, already added, that were taken."""
        for event in JUMP_EVENTS.intersection(self.s.wanted):
            self.s.counts[event] += count

    def failed(self) -> None:
        """A store-exclusive, already added, did not store."""
        for event in STORED_EVENTS.intersection(self.s.wanted):
            self.s.counts[event] -= 1

    def count(self, events: Iterable[int]) -> None:
        """Count events of an operation that its word does not say, as far as they are wanted."""
        for event in set(events).intersection(self.s.wanted):
            self.s.counts[event] += 1

    def after_block(self, *, executed: bool, pc: int) -> None:
        """The engine stands at ``pc``; the last block, if any, was ``executed`` to its end."""
        if self._state.falls_to:
            if executed and pc != self._state.falls_to & _MASK:
                self.jumped()
            way_known(self._state)

    def _collect(self) -> None:
        """Take what compiled code has added up."""
        if not self.native:
            return
        counts = self.s.counts
        lanes, jumps = self._state.take_tallied()
        for event, count in zip(self.s.wanted, lanes, strict=False):
            counts[event] += count
        self.jumped(jumps)

    def _count(self, event: int, words: Sequence[int]) -> int:
        return sum(self._made(decode(word), event) for word in words)
