"""What each translated block holds, and how its operations can be sampled.

A block is a run of code that the engine translated as one. Two questions are asked of it. Does it
end with an ERET, which changes the Exception level without any hook? What does it take to describe
operation ``k`` of it, if that is the chosen one? Mostly the instruction words and two or three
registers suffice, with their values at the block's start or at its end. Then the block can simply
run. Otherwise the plan says EXACT, and the host steps to the operation.

Where the population is micro-operations there is a plan for each of those, and a block weighs as
much as it has of them.

The table is keyed by epoch and virtual address. Plans follow from the code at that place, so a
block that the guest rewrites must be added anew. Instruction cache maintenance starts a new epoch
for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.operation import Family, Instruction
from spe_unicorn.arch.ports import Cracker
from spe_unicorn.decode import decode
from spe_unicorn.host.counting.tallies import Tallies
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.marks import MARK_MEND, is_absent, marks_of
from spe_unicorn.host.native.plans import RUNS_ON, Plan, by_registers, plan_block, tests_flags
from spe_unicorn.host.native.state.block_table import BLOCKS, slot_of
from spe_unicorn.host.native.state.plan_row import PLAN_PROBE, PLAN_WORDS
from spe_unicorn.instructions.known.finding import TABLE

_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its code, decoded, and the plan of each member of the population in it."""

    code: tuple[Instruction, ...]
    plans: tuple[Plan, ...]
    marks: int
    """The marks of its words, as ``native.marks`` numbers them."""
    words: NDArray[np.int64]
    """Its plans and its code as the compiled hook reads them: an array of 64-bit words."""

    def suits_probe(self, member: int) -> bool:
        """Whether registers at its operation are all that is missing to describe a member."""
        plan = self.plans[member]
        instruction = plan.instruction
        return (
            plan.exact
            and not plan.divided
            and all(i.mark in RUNS_ON for i in self.code)
            and by_registers(instruction)
            and (
                instruction.access is not None
                or tests_flags(instruction)
                or instruction.family is Family.OTHER
                or (instruction.family is Family.BRANCH and instruction.target_offset != 4)
            )
        )


class Blocks:
    """The blocks seen, here for Python and in the compiled hooks' table.

    ``cracker`` makes micro-operations of instructions, None where each is one member of the
    population. ``tallies`` adds up what blocks hold. ``loads`` and ``modelled`` are as in
    ``plans.plan_block``.
    """

    DERIVED = ("_known", "_led", "_numbers", "_slots", "instructions")

    def __init__(
        self,
        hooks: NativeHooks,
        cracker: Cracker | None,
        tallies: Tallies,
        *,
        loads: bool,
        modelled: bool = False,
    ) -> None:
        self._tallies = tallies
        self._loads = loads
        self._modelled = modelled
        self._table = hooks.blocks
        self._state = hooks.state
        self._cracker = cracker
        self.instructions: list[Instruction] = []
        """By the numbers that plans give them in the table."""
        self._numbers: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[int, ...], Block] = {}
        self._led = False
        """Whether the known plans say when frame records are read."""
        self._slots: list[Block | None] = [None] * BLOCKS
        self._table.forget()  # an earlier runner on this engine numbered instructions otherwise

    def add(self, address: int, words: tuple[int, ...]) -> Block:
        """Add the block of ``words`` at ``address`` to the table of this epoch."""
        state = self._state
        led = state.led != 0 and not state.call_stacks and not state.unwinding
        if led is not self._led:
            self._led = led
            self._known.clear()
        block = self._known.get(words)
        if block is None:
            code = tuple(decode(word) for word in words)
            plans = tuple(
                plan_block(code, self._cracker, loads=self._loads, modelled=self._modelled, led=led)
            )
            marks = 0
            for word in words:
                marks |= marks_of(word)
                if is_absent(TABLE, self._state.absent, word):
                    marks |= MARK_MEND
            block = Block(code, plans, marks, self._flat(plans, words))
            self._known[words] = block
        slot = self._table.add(
            address, words, block.words, marks=block.marks, members=len(block.plans)
        )
        self._slots[slot] = block
        self._tallies.add_block(slot, block.code)
        return block

    def _flat(self, plans: Sequence[Plan], words: Sequence[int]) -> NDArray[np.int64]:
        """The words of a block's plans, its code, and then its recipes."""
        rows: list[int] = []
        recipes: list[int] = []
        before = PLAN_WORDS * len(plans) + len(words)
        for plan in plans:
            recipe = 0
            if plan.recipe is not None:
                recipe = plan.recipe.at(before + len(recipes))
                recipes += plan.recipe.words
            rows += *plan.words, self.numbered(plan.instruction), recipe
        return np.array([*rows, *words, *recipes], np.int64)

    def numbered(self, instruction: Instruction) -> int:
        """The number of an instruction, or of a part of one."""
        key = instruction.word, instruction.part
        number = self._numbers.setdefault(key, len(self.instructions))
        if number == len(self.instructions):
            self.instructions.append(instruction)
        return number

    def find(self, address: int, operations: int) -> Block | None:
        """The block of that many operations that this epoch's table holds for ``address``."""
        slot = self._table.find(address, operations)
        return None if slot is None else self._slots[slot]

    def begun(self) -> Block | None:
        """The block that began last, or before which the engine stopped; None if it is unknown."""
        return self.find(self._state.block & _MASK, int(self._state.block_operations))

    def probe(self, address: int, block: Block, member: int) -> None:
        """Have a probe at its operation describe a member of the block at ``address``."""
        slot = slot_of(address, len(block.code))
        plan = block.plans[member]
        word, detail = Plan(plan.instruction, plan.place, exact=False).words
        self._table.set_plan(slot, member, word | PLAN_PROBE, detail)

    def at(self, slot: int) -> tuple[Block, int]:
        """The block in a slot of the table, and its address. No other may have taken the slot."""
        block = self._slots[slot]
        if block is None:
            raise RuntimeError(f"slot {slot:#x} of the table holds no block")
        return block, self._table.address(slot, len(block.code))
