"""The operations that a core begins after a mispredicted branch, and never retires.

Where a profile says that they belong to the sample population, each misprediction adds a walk to
it. The walk begins at the predicted address and follows the code in memory. It has as many
operations as a core begins before it finds the misprediction. The walk reads code and nothing else.
It follows a direct branch that is always taken, and takes a conditional branch for not taken. It
ends after an indirect branch, and before an operation that a core does not begin speculatively.

Python works a walk out once, and compiled code does the rest (``host.native.sampling.walks``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from spe_unicorn.arch.operation import Family, Instruction, Mark
from spe_unicorn.arch.ports import Cracker
from spe_unicorn.bits import signed
from spe_unicorn.decode import decode
from spe_unicorn.host.native.plans import cracked
from spe_unicorn.host.native.sampling.walks import (
    WALK,
    WALK_MEMBER,
    WALK_MEMBERS,
    WALKS,
    on_misprediction,
)
from spe_unicorn.host.native.state.transit import wrong_path_taken
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.spe.sampler import Sampler

_MASK: Final = (1 << 64) - 1
_NEVER_BEGUN: Final = frozenset(
    {
        Mark.MSR,
        Mark.MSR_IMMEDIATE,
        Mark.SYS,
        Mark.BARRIER,
        Mark.DSB,
        Mark.ISB,
        Mark.PSB_CSYNC,
        Mark.WFI,
        Mark.WFE,
        Mark.ERET,
        Mark.EXCEPTION,
        Mark.UNALLOCATED,
    }
)
"""Operations that wait until everything before them has retired, and words that are none."""


_PAGE: Final = 1 << 12
_MOST_WORDS: Final = 1 << 16
"""Words that are remembered."""


class _Begun(NamedTuple):
    """What it means to begin an instruction."""

    parts: Sequence[Instruction]
    """Its members; none if it is not begun speculatively."""
    step: int | None
    """How far it is to the next one; None where a core begins no other."""


class WrongPaths:
    """The walks of one PE, each of ``window`` operations at most.

    ``numbered`` gives an instruction its number in compiled code. Without it compiled code counts
    no walk.
    """

    DERIVED = ("_held",)

    def __init__(
        self,
        cpu: UnicornCPU,
        cracker: Cracker,
        window: int,
        numbered: Callable[[Instruction], int] | None = None,
    ) -> None:
        self._cpu = cpu
        self._cracker = cracker
        self._window = window
        self._numbered = numbered
        self._words: dict[int, _Begun] = {}
        self._table = np.full(WALKS, -1, WALK)
        self._members = np.zeros(WALK_MEMBERS, WALK_MEMBER)
        self._held = 0
        """How many members the walks in the table have, those that were replaced included."""
        cpu.state.wrong_paths = self._table.ctypes.data
        cpu.state.wrong_members = self._members.ctypes.data
        if cpu.model is not None:
            cpu.model.state.on_misprediction = on_misprediction.address

    def take(self) -> list[tuple[int, Instruction]]:
        """The members that compiled code left to Python of a walk: the PC and the instruction."""
        state = self._cpu.state
        wrong_path_taken(state)
        start = state.wrong_path & _MASK
        members = self.walk(start)
        if self._numbered is not None:
            self._keep(start, [(signed(pc), self._numbered(part)) for pc, part in members])
        return members[int(state.wrong_from) :]

    def _keep(self, start: int, members: list[tuple[int, int]]) -> None:
        """Put a walk into the table."""
        if self._held + len(members) > WALK_MEMBERS:
            self._table.fill(-1)
            self._held = 0
        first, count = self._held, len(members)
        if count > WALK_MEMBERS:
            return
        self._held += count
        self._members[first : self._held] = members
        row = signed(start), int(self._cpu.state.epoch), count, first
        self._table[start >> 2 & WALKS - 1] = row

    def walk(self, start: int) -> list[tuple[int, Instruction]]:
        """What a core begins from ``start`` on: the PC and the members of each operation."""
        found: list[tuple[int, Instruction]] = []
        pc, left = start, self._window
        while left > 0:
            in_page = max(_PAGE - pc % _PAGE >> 2, 1)
            words = self._cpu.virtual.code(pc, min(left, in_page))
            if words is None:
                break
            for word in words:
                parts, step = self._words.get(word) or self._learn(word)
                found += [(pc, part) for part in parts]
                if step is None:
                    return found
                pc = pc + step & _MASK
                left -= 1
                if step != 4:
                    break
        return found

    def _learn(self, word: int) -> _Begun:
        """Work out what it means to begin an instruction, and remember it."""
        instruction = decode(word)
        step: int | None = 4
        if instruction.mark in _NEVER_BEGUN:
            begun = _Begun((), None)
        else:
            if instruction.family is Family.BRANCH and not instruction.conditional:
                step = instruction.target_offset
            begun = _Begun(cracked(instruction, self._cracker), step)
        if len(self._words) >= _MOST_WORDS:
            self._words.clear()
        self._words[word] = begun
        return begun


def wrong_paths_of(
    cpu: UnicornCPU, unit: Sampler, numbered: Callable[[Instruction], int] | None = None
) -> WrongPaths | None:
    """The walks of a PE, where the population that ``unit`` samples has them; else None."""
    if unit.cracker is None or not unit.wrong_path:
        return None
    return WrongPaths(cpu, unit.cracker, unit.wrong_path, numbered)
