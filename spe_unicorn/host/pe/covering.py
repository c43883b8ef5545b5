"""Coverage of one PE: which operations it has executed, and which way conditional branches went.

With the fast runner compiled code marks blocks (``native.cover``). What it does not see is told
here: operations that the host executes, and those that a runner steps over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.operation import FELL, TAKEN
from spe_unicorn.bits import signed
from spe_unicorn.host.native.cover import (
    COVER_ROW,
    MOST,
    OTHER,
    ROWS,
    STACK_ROW,
    STACKS,
    branch_distance,
    note_answered,
    note_run,
    on_cover,
    on_covered_code,
    sp_step,
)
from spe_unicorn.host.native.state.report import RunReport

if TYPE_CHECKING:
    from spe_unicorn.host.pe.cpu import UnicornCPU

_MASK: Final = (1 << 64) - 1
_USED: Final = COVER_ROW.names.index("reached") if COVER_ROW.names else 0
"""The word of the last row that counts the rows in use."""
_SP: Final = 31
"""The place of SP among the general registers."""


class Covered(NamedTuple):
    """What was executed; addresses are virtual."""

    operations: frozenset[int]
    """The addresses of operations that were executed. One that ended in an exception counts."""
    ways: dict[int, int]
    """By the address of a conditional branch, the ways that it has gone: FELL, TAKEN."""


def merged(parts: Iterable[Covered]) -> Covered:
    """What any of several PEs or runs has executed."""
    operations: set[int] = set()
    ways: dict[int, int] = {}
    for part in parts:
        operations |= part.operations
        for branch, bits in part.ways.items():
            ways[branch] = ways.get(branch, 0) | bits
    return Covered(frozenset(operations), ways)


class Overflow(NamedTuple):
    """An operation that took SP from within a stack to below its lowest address."""

    low: int
    """That address."""
    pc: int
    sp: int
    """SP before the operation."""


class Covering:
    """Notes what one PE executes, from now on.

    ``by_blocks``: compiled code marks blocks. Else each operation is told to :meth:`stepped`.
    """

    DERIVED = ("_operations", "_overflows", "_stacks", "_table", "_ways")
    WIRING = ("_by_blocks",)

    def __init__(self, cpu: UnicornCPU, *, by_blocks: bool) -> None:
        self._cpu = cpu
        self._operations: set[int] = set()
        self._ways: dict[int, int] = {}
        self._stacks = np.zeros(STACKS, STACK_ROW)
        self._overflows: list[Overflow] = []
        self._by_blocks = by_blocks
        self._table = np.zeros((ROWS + 1 if by_blocks else 0, COVER_ROW.itemsize // 8), np.int64)
        if by_blocks:
            state = cpu.hooks.state
            state.cover_hook = state.cover_hook or on_cover.address
            cpu.hooks.add(uc_const.UC_HOOK_EDGE_GENERATED, on_covered_code.address)
            state.cover = self._table.ctypes.data
            cpu.engine.forget_all_code()

    def check_stacks(self, stacks: Sequence[tuple[int, int]]) -> None:
        """Look from now on where SP leaves one of these stacks by its lowest address.

        Each has its lowest address and its end. The first time is noted, of each.
        """
        for row, (low, high) in zip(self._stacks, stacks, strict=False):
            row["low"], row["high"] = signed(low), signed(high)
        if self._by_blocks:
            self._cpu.hooks.state.stacks = self._stacks.ctypes.data

    def overflows(self) -> Iterator[Overflow]:
        """The overflows so far. The PE is at rest, and the code is what it was."""
        yield from self._overflows
        for row in self._stacks:
            words = self._cpu.virtual.code(int(row["block"]) & _MASK, int(row["operations"]))
            sp = int(row["sp"])
            for n, word in enumerate(words or ()):
                after = sp + int(sp_step(word))
                if after < int(row["low"]):
                    pc = int(row["block"]) + 4 * n & _MASK
                    yield Overflow(int(row["low"]) & _MASK, pc, sp & _MASK)
                    break
                sp = after

    def _check_step(self, word: int, pc: int) -> None:
        """The operation ``word`` at ``pc`` was executed alone: see whether a stack ran over."""
        step = int(sp_step(word))
        if step >= 0 or step == OTHER or self._cpu.pc != pc + 4 & _MASK:
            return
        after = signed(self._cpu.engine.general()[_SP])
        for row in self._stacks:
            if row["low"] <= after - step <= row["high"] and after < row["low"]:
                low, sp = int(row["low"]) & _MASK, after - step & _MASK
                self._overflows.append(Overflow(low, pc, sp))
                row["high"] = 0

    def ran(self, report: RunReport) -> None:
        """A run of the engine has ended: note what it executed of its last block."""
        if not report.begun or report.before or report.done <= 0:
            return
        state = self._cpu.hooks.state
        block, operations = int(state.block), int(state.block_operations)
        following = signed(self._cpu.pc)
        if not note_run.called(state.address, block, operations, report.done, following):
            self._operations |= {(block + 4 * n) & _MASK for n in range(report.done)}

    def answered(self, pc: int) -> None:
        """In the midst of a run the host has executed the operation at ``pc``."""
        self._operations.add(pc)
        note_answered.called(self._cpu.hooks.state.address, signed(pc))

    def executed(self, pc: int) -> None:
        """The host executes the operation at ``pc``, or an operation there was stepped over."""
        self._operations.add(pc)

    def stepped(self, word: int, pc: int) -> None:
        """The operation ``word`` at ``pc`` was executed alone; the PE stands after it."""
        self._operations.add(pc)
        self._check_step(word, pc)
        distance = int(branch_distance(word))
        if distance != 0:
            following = self._cpu.pc
            way = FELL if following == pc + 4 & _MASK else 0
            if following == pc + distance & _MASK:
                way |= TAKEN
            self._ways[pc] = self._ways.get(pc, 0) | way

    @property
    def full(self) -> bool:
        """Whether the table has no room for more blocks: what they executed is not known."""
        return self._by_blocks and int(self._table[-1, _USED]) >= MOST

    def so_far(self) -> Covered:
        """What was executed so far. The PE is at rest."""
        operations, ways = set(self._operations), dict(self._ways)
        for address, reached, kind, end in self._rows():
            operations.update((address + 4 * n) & _MASK for n in range(reached))
            if kind & (FELL | TAKEN):
                branch = end - 4 & _MASK
                ways[branch] = ways.get(branch, 0) | kind & (FELL | TAKEN)
        return Covered(frozenset(operations), ways)

    def _rows(self) -> Iterator[tuple[int, int, int, int]]:
        table = self._table[:-1]
        used = table[(table[:, 1] != 0) & (table[:, 2] != 0)]
        for address, operations, reached, kind in used[:, :4].tolist():
            yield address, reached, kind, address + 4 * operations
