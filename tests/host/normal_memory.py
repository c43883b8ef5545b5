"""A guest at EL3 with RAM as Normal memory, whose vector counts what it takes, and goes on."""

from __future__ import annotations

from spe_unicorn.arch.pe import EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

TABLE, VECTORS, DATA = RAM + 0x8000, RAM + 0x2000, RAM + 0xA000
SCTLR = 0x30C5_0830 & ~8
LOAD_FAULT, STORE_FAULT = 0x9600_0021, 0x9600_0061
"""Syndromes of Alignment faults at EL3."""
ELR = (3, 6, 4, 0, 1)


def machine(
    words: list[int], runner: type[Runner], checks: bool = True, core: str = "generic"
) -> Board:
    """At EL3, with RAM as Normal memory. The vector counts in X20 and skips the operation."""
    code = [
        *[*put(system.VBAR_EL3, VECTORS), *put(system.MAIR_EL3, 0xFF00)],
        *[*put(system.TCR_EL3, 25 | 1 << 16), *put(system.TTBR0_EL3, TABLE)],
        *[*put(system.SCTLR_EL3, SCTLR | 0b101), *words, a.b(0)],
    ]
    handler = [
        *[a.add_imm(20, 20, 1), a.mrs(21, (3, 6, 5, 2, 0)), a.mrs(23, (3, 6, 6, 0, 0))],
        *[a.mrs(22, ELR), a.add_imm(22, 22, 4), a.msr(ELR, 22), a.ERET],
    ]
    loaded = load_core(core)
    board = board_at(code, el=EL3, runner=runner, check_alignment=checks, core=loaded)
    board.memory.fill(VECTORS + 0x200, a.code(handler))
    block = RAM | 1 << 10 | 1 << 2 | 1  # AF, Attr1: Normal memory
    board.memory.fill(TABLE + 8, block.to_bytes(8, "little"))
    board.memory.fill(DATA, bytes(range(1, 65)))
    return board


def map_pages(board: Board, at: int, end: int) -> None:
    """Map only the pages from the start of RAM to ``end``; their table is ``at``."""
    board.memory.fill(TABLE + 8, (TABLE + 0x1000 | 3).to_bytes(8, "little"))
    board.memory.fill(TABLE + 0x1000, (at | 3).to_bytes(8, "little"))
    for n in range((end - RAM) // 0x1000):
        page = RAM + 0x1000 * n | 1 << 10 | 1 << 2 | 3  # as the block of the machine
        board.memory.fill(at + 8 * n, page.to_bytes(8, "little"))
