"""The operations that a core begins after a mispredicted branch, and never retires.

Where a profile says that they belong to the sample population, each misprediction adds a walk to
it. The walk begins at the predicted address and follows the code in memory. It has as many
operations as a core begins before it finds the misprediction. The walk reads code and nothing else.
It follows a direct branch that is always taken, and takes a conditional branch for not taken. It
ends after an indirect branch, and before an operation that a core does not begin speculatively.

How many members of the population a walk is depends only on its start, as long as the code stays.
So compiled code finds the number in a table at each misprediction. Python is asked only for starts
that are not in the table, and where a member of the walk is sampled.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.operation import Family, Instruction, Mark
from spe_unicorn.arch.ports import Cracker
from spe_unicorn.bits import signed
from spe_unicorn.compiled import Pointer, entry, layout, pointer_to, record_at
from spe_unicorn.decode import decode
from spe_unicorn.host.native.plans import cracked
from spe_unicorn.host.native.state.ledger import charge_members, grant_members
from spe_unicorn.host.native.state.transit import wrong_path_taken
from spe_unicorn.host.native.state.whole import LAYOUT
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.spe.sampler import Sampler

_MASK: Final = (1 << 64) - 1
_STARTS: Final = 1 << 12
"""Entries of the table of walks, direct-mapped by address."""


class Walk:
    """An entry of the table of walks."""

    start: int
    """Where it starts."""
    epoch: int
    members: int


WALK: Final = layout(Walk)
_WALK_BYTES: Final = WALK.itemsize
_FAR: Final = 1 << 61
"""More members than can be left. With this number taken away, the hook looks at every block."""
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


@entry("void", "pointer", "pointer", "int64", "int64", "int64")
def on_misprediction(
    engine: Pointer, user: Pointer, branch: int, predicted: int, actual: int
) -> None:
    """A branch was mispredicted: count the members of its walk, or have Python do so."""
    state = record_at(user, LAYOUT)
    if state.speculates == 0:
        return
    if state.weigh != 0:
        place = state.wrong_paths + (predicted >> 2 & (_STARTS - 1)) * _WALK_BYTES
        walk = record_at(pointer_to(place), WALK)
        if walk.start == predicted and walk.epoch == state.epoch and walk.members <= state.members:
            charge_members(state, walk.members)
            return
        # with so few members left the block hook looks at the next block
        grant_members(state, state.members_granted - state.members, state.members - _FAR)
    state.wrong = 1
    state.wrong_path = predicted


class WrongPaths:
    """The walks of one PE, each of ``window`` operations at most."""

    def __init__(self, cpu: UnicornCPU, cracker: Cracker, window: int) -> None:
        self._cpu = cpu
        self._cracker = cracker
        self._window = window
        self._table = np.full(_STARTS, -1, WALK)
        cpu.state.wrong_paths = self._table.ctypes.data
        if cpu.model is not None:
            cpu.model.state.on_misprediction = on_misprediction.address

    def take(self) -> list[tuple[int, Instruction]]:
        """The walk that compiled code left to Python: the PC and the members of each operation."""
        state = self._cpu.state
        wrong_path_taken(state)
        start = state.wrong_path & _MASK
        members = self.walk(start)
        self._table[start >> 2 & _STARTS - 1] = signed(start), state.epoch, len(members)
        return members

    def walk(self, start: int) -> list[tuple[int, Instruction]]:
        """What a core begins from ``start`` on: the PC and the members of each operation."""
        found = []
        pc = start
        for _ in range(self._window):
            words = self._cpu.virtual.code(pc, 1)
            if words is None:
                break
            instruction = decode(words[0])
            if instruction.mark in _NEVER_BEGUN:
                break
            found += [(pc, part) for part in cracked(instruction, self._cracker)]
            step = 4
            if instruction.family is Family.BRANCH and not instruction.conditional:
                if instruction.target_offset is None:
                    break
                step = instruction.target_offset
            pc = pc + step & _MASK
        return found


def wrong_paths_of(cpu: UnicornCPU, unit: Sampler) -> WrongPaths | None:
    """The walks of a PE, where the population that ``unit`` samples has them; else None."""
    if unit.cracker is None or not unit.wrong_path:
        return None
    return WrongPaths(cpu, unit.cracker, unit.wrong_path)
