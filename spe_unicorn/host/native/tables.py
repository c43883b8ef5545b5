"""The tables that compiled hooks read. Each belongs to one class here; others ask its methods.

The hooks know a table by its address, which a field of ``Wiring`` holds. They write samples, code
lines, values of registers, and which blocks are harmless. Only Python writes everything else,
between two runs of the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from ctypes import c_int64
from itertools import starmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.access.fine_grained_traps import TRAP_IDS
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.bits import signed
from spe_unicorn.compiled import large_table
from spe_unicorn.host.native.marks import MARK_TRAP
from spe_unicorn.host.native.rules import trap_id
from spe_unicorn.host.native.state.actions import KEYS, Action
from spe_unicorn.host.native.state.block_table import BLOCKS, slot_of
from spe_unicorn.host.native.state.plan_row import PLAN_WORDS, PLANS
from spe_unicorn.host.native.state.sample_row import PENDING, SAMPLE, SAMPLES, Pending
from spe_unicorn.host.native.state.steer import set_trapping
from spe_unicorn.host.native.state.transit import samples_taken
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.host.native.state.wiring import ENTRY_PSTATE, LINES

_MASK: Final = (1 << 64) - 1
_LEAST_SAMPLES: Final = 1 << 6
"""The least number of samples that are allowed at once."""
_GROWTH: Final = 8
"""The next batch may have at most this many times the samples of the last one. With random
intervals the lengths of batches differ widely, and an early stop of the engine costs more than
distances."""


def trap_table(trapped: Iterable[Collection[int]]) -> NDArray[np.uint8]:
    """What traps at each Exception level from EL0 up: a byte for each number, a bit for each."""
    table = np.zeros(TRAP_IDS, np.uint8)
    for el, numbers in enumerate(trapped):
        table[list(numbers)] |= 1 << el
    return table


class BlockTable:
    """The blocks that compiled code knows, each in the slot that ``slot_of`` gives it.

    A block that the table does not hold stops the engine (``Stop.UNSEEN``), and is then added.
    """

    DERIVED = (
        "_epochs",
        "_free",
        "_harmless",
        "_keys",
        "_marks",
        "_members",
        "_places",
        "_plans",
        "_known_traps",
        "_trapped",
        "_trapping",
    )

    def __init__(self, state: State) -> None:
        self._state = state
        self._keys = large_table(BLOCKS)
        """Address XOR number of operations; -1 for an empty slot."""
        self._epochs = large_table(BLOCKS)
        self._marks = large_table(BLOCKS)
        self._members = large_table(BLOCKS)
        """How many members of the population each block has."""
        self._places = large_table(BLOCKS)
        """Where each block's plans begin in the pool."""
        self._plans = large_table(PLANS)
        """The pool: the plans of a block, then its code."""
        self._free = 0
        """The first word of the pool that no block has."""
        self._harmless = large_table(BLOCKS)
        """Blocks that the hook has found to need no second look; the hook fills it."""
        self._trapped = np.zeros(TRAP_IDS, np.uint8)
        """1 for traps that are or were on, as ``arch.access.fine_grained_traps`` numbers them."""
        self._known_traps: frozenset[int] = frozenset()
        """The numbers of the traps that are or were on, as a set."""
        self._trapping = np.zeros(TRAP_IDS, np.uint8)
        """Which of them trap now, as :func:`trap_table` makes it."""
        self.forget()
        state.block_keys = self._keys.ctypes.data
        state.block_epochs = self._epochs.ctypes.data
        state.block_marks = self._marks.ctypes.data
        state.block_plans = self._places.ctypes.data
        state.trapped = self._trapped.ctypes.data
        set_trapping(state, self._trapping.ctypes.data)
        state.weights = self._members.ctypes.data
        state.plans = self._plans.ctypes.data
        state.quick = self._harmless.ctypes.data

    def forget(self) -> None:
        """Forget all blocks: each is added anew before it runs again."""
        self._keys.fill(-1)
        self.forget_harmless()

    def forget_harmless(self) -> None:
        """Forget which blocks are harmless: what a run has to look out for has changed."""
        self._harmless.fill(-1)

    def mark_traps(self, trapped: frozenset[int]) -> bool:
        """Give ``MARK_TRAP`` to blocks with an operation of ``trapped``, known blocks included.

        What was trapped before keeps its mark, as guests switch traps on and off. Only for a trap
        that is new all blocks are forgotten. The result is then True.
        """
        if trapped <= self._known_traps:
            return False
        self._known_traps |= trapped
        self._trapped[list(trapped)] = 1
        self.forget()
        return True

    def trap(self, trapping: NDArray[np.uint8]) -> None:
        """What traps now, as :func:`trap_table` makes it. :meth:`mark_traps` knows all of it."""
        self._trapping = trapping
        set_trapping(self._state, trapping.ctypes.data)

    def add(
        self,
        address: int,
        words: Sequence[int],
        plans: NDArray[np.int64],
        *,
        marks: int,
        members: int,
    ) -> int:
        """Add the block of ``words`` at ``address`` for the epoch that is now; return its slot.

        ``plans`` is an array of 64-bit words: a plan for each of the block's ``members``, then the
        code, then recipes. A block that had the slot is forgotten. If the pool is full, all blocks
        are forgotten.
        """
        if self._free + len(plans) > PLANS:
            self.forget()
            self._free = 0
        self._plans[self._free : self._free + len(plans)] = plans
        if any(self._trapped[trap_id(word)] for word in words):
            marks |= MARK_TRAP
        slot = slot_of(address, len(words))
        self._keys[slot] = signed(address) ^ len(words)
        self._epochs[slot] = self._state.epoch
        self._marks[slot] = marks
        self._places[slot] = self._free
        self._members[slot] = members
        self._harmless[slot] = -1
        self._free += len(plans)
        return slot

    def find(self, address: int, operations: int) -> int | None:
        """The slot of a block, by its address and its length; None if it is not known."""
        slot = slot_of(address, operations)
        if (
            self._keys[slot] != signed(address) ^ operations
            or self._epochs[slot] != self._state.epoch
        ):
            return None
        return slot

    def address(self, slot: int, operations: int) -> int:
        """The address of the block in a slot, which has that number of operations."""
        return (int(self._keys[slot]) ^ operations) & _MASK

    def set_plan(self, slot: int, member: int, how: int, access: int) -> None:
        """Replace the plan of a member of the block in a slot, words of ``plan_row.PLAN``."""
        place = int(self._places[slot]) + PLAN_WORDS * member
        self._plans[place : place + 2] = how, access


class AccessTable:
    """What the hooks do with each encoding of MRS, MSR and SYS, and the values that they know."""

    DERIVED = ("_actions", "_aliases", "_cells", "_in_memory", "_watched", "_withheld")

    def __init__(self, state: State) -> None:
        self._actions = np.zeros((3, KEYS), np.uint8)
        """An ``Action`` for each of READ, WRITE and SYSTEM and each ``Encoding.key``."""
        self._cells = np.zeros(KEYS, np.int64)
        self._in_memory = (c_int64 * KEYS).from_address(self._cells.ctypes.data)
        """The memory of ``_cells`` for ctypes, which writes one number much faster than NumPy."""
        self._watched = np.full(KEYS, -1, np.int64)
        self._withheld = np.zeros(KEYS, np.int64)
        self._aliases = np.zeros(KEYS, np.uint16)
        """``Encoding.key`` of what the names of EL1 mean to a host at EL2."""
        state.aliases = self._aliases.ctypes.data
        state.actions = self._actions.ctypes.data
        state.cells = self._cells.ctypes.data
        state.matters = self._watched.ctypes.data
        state.withheld = self._withheld.ctypes.data

    def act(self, action: Action, encoding: Encoding, *kinds: int, cell: int = 0) -> None:
        """Choose what the hooks do with an encoding, for each of READ, WRITE and SYSTEM named.

        ``cell`` is the encoding's value from now on (see :meth:`set_cell`).
        """
        for kind in kinds:
            self._actions[kind, encoding.key] = action
        self.set_cell(encoding, cell)

    def change(self, action: Action, encoding: Encoding, kind: int) -> None:
        """Choose what the hooks do with an encoding; its value stays."""
        self._actions[kind, encoding.key] = action

    def alias(self, encoding: Encoding, to: Encoding) -> None:
        """Have ``encoding`` mean ``to`` at EL2, where its action is one of ``Action.ALIAS``."""
        self._aliases[encoding.key] = to.key

    def action(self, encoding: Encoding, kind: int) -> Action:
        """What the hooks do with an encoding."""
        return Action(self._actions[kind, encoding.key])

    def leave_to_engine(self, *actions: Action) -> None:
        """Have the engine execute all accesses for which the hooks have one of these actions."""
        self._actions[np.isin(self._actions, actions)] = Action.ENGINE

    def set_cell(self, encoding: Encoding, value: int) -> None:
        """Set the value of an encoding.

        ``Action.CELL`` reads it, ``Action.COUNT`` subtracts it, ``Action.NOTICE`` compares a write
        with it.
        """
        self.set_cell_at(encoding.key, value)

    def set_cell_at(self, key: int, value: int) -> None:
        """Set the value of the encoding with this ``Encoding.key``, as :meth:`set_cell` does."""
        self._in_memory[key] = value  # ctypes keeps the low 64 bits of any integer

    def cell(self, encoding: Encoding) -> int:
        """The value of an encoding: the one set, or what the guest wrote after that."""
        return int(self._cells[encoding.key]) & _MASK

    def save(self) -> dict[int, int]:
        """The values that are not 0, by ``Encoding.key``: some are what the guest wrote last."""
        used = np.flatnonzero(self._cells)
        return dict(zip(used.tolist(), self._cells[used].tolist(), strict=True))

    def restore(self, cells: dict[int, int]) -> None:
        """Take the values that :meth:`save` gave."""
        self._cells.fill(0)
        for key, value in cells.items():
            self._cells[key] = value

    def stop_for(self, encoding: Encoding, bits: int) -> None:
        """Have ``Action.NOTICE`` stop only for a change of these bits of the register."""
        self._watched[encoding.key] = signed(bits)

    def withhold(self, encoding: Encoding, bits: int) -> None:
        """Have the engine get 0 for these bits of a register whose writes are noticed.

        The value of the encoding keeps them.
        """
        self._withheld[encoding.key] = signed(bits)


class SampleRing:
    """Samples that the hook takes by itself, and how far apart they are."""

    TRANSIT = ("_chosen", "_gaps", "_rows", "worth")

    def __init__(self, state: State) -> None:
        self._state = state
        self._rows = np.zeros(SAMPLES, SAMPLE)
        self._gaps = np.zeros(SAMPLES, np.int64)
        self._chosen = np.zeros(SAMPLES, PENDING)
        self.worth = _LEAST_SAMPLES
        """How many samples to allow. The distances after the last sample of a batch are worked out
        in vain, so that follows the number of samples in the last batch."""
        state.samples = self._rows.ctypes.data
        state.gaps = self._gaps.ctypes.data
        state.chosen = self._chosen.ctypes.data

    def allow(self, gaps: NDArray[np.int64]) -> None:
        """Let the hook take a sample for each of ``gaps``, an array of members to the next one."""
        self._gaps[: len(gaps)] = gaps
        self._state.samples_allowed = len(gaps)

    def take(self) -> NDArray[np.void]:
        """The samples taken, rows of ``sample_row.SAMPLE``, good until the engine runs again."""
        count = int(self._state.samples_in_ring)
        rows = self._rows[:count]
        self.worth = max(_LEAST_SAMPLES, min(_GROWTH * count, SAMPLES))
        samples_taken(self._state)
        return rows

    def pending(self) -> list[Pending]:
        """Those of the block that ran last, in order."""
        return list(starmap(Pending, self._chosen[: self._state.pending].tolist()))


class CodeLines:
    """Physical addresses of lines of instruction caches that the guest has invalidated."""

    TRANSIT = ("_lines",)

    def __init__(self, state: State) -> None:
        self._state = state
        self._lines = np.zeros(LINES, np.int64)
        state.code_lines = self._lines.ctypes.data

    def noted(self) -> tuple[int, ...]:
        """The lines of which the other PEs have not been told."""
        return tuple(self._lines[: self._state.line_count].tolist())


class EntryTable:
    """What an exception makes of PSTATE, by the Exception level that it is taken to."""

    DERIVED = ("_words",)

    def __init__(self, state: State) -> None:
        self._words = np.zeros(ENTRY_PSTATE, np.int64)
        state.entry_pstate = self._words.ctypes.data

    @property
    def words(self) -> NDArray[np.int64]:
        """The whole table: ``ENTRY_PSTATE`` words."""
        return self._words

    def set(self, el: int, kept: int, added: int) -> None:
        """An exception taken to ``el`` leaves the bits ``kept`` of PSTATE, and sets ``added``."""
        self._words[2 * el : 2 * el + 2] = signed(kept), signed(added)
