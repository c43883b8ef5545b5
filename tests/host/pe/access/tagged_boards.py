"""Boards at EL1 with Allocation Tags: pages that are Tagged, and others."""

from __future__ import annotations

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import Core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.host.pe.access.tag_words import (
    ATA,
    BLOCK,
    CORE,
    MSR_TCO,
    SCTLR,
    TABLES,
    TBI0,
    VECTORS,
)
from tests.support import a64 as a
from tests.support.small_boards import MIB, RAM, board_at

GCR, RGSR = (3, 0, 1, 0, 6), (3, 0, 1, 0, 5)
UNTAGGED, READ_ONLY, UNMAPPED = RAM + BLOCK, RAM + 2 * BLOCK, RAM + 3 * BLOCK
"""From RAM on a block that is Tagged, one that is not, one that is Tagged and read, and nothing."""
USER = RAM + BLOCK - 0x1000


def tagged(
    code: list[int],
    runner: type[Runner],
    sctlr: int = ATA,
    tcr: int = TBI0,
    user: list[int] | None = None,
    core: Core = CORE,
) -> tuple[Board, int]:
    """A board at EL1 with tags, before ``code``, and how many operations it has executed.

    ``user`` is put where EL0 can execute it. Vectors wait.
    """
    start = [
        *[*put(system.VBAR_EL1, VECTORS), *put(system.MAIR_EL1, 0xF0FF)],
        *[*put(system.TTBR0_EL1, TABLES), *put(system.TCR_EL1, 25 | 1 << 23 | tcr), a.ISB],
        *[*put(system.SCTLR_EL1, SCTLR | sctlr), a.ISB],
        *[a.msr(GCR, 31), a.msr(RGSR, 31), MSR_TCO[0]],
    ]
    board = board_at([*start, *code], el=1, core=core, runner=runner, ram=8 * MIB)
    for place, value in (
        (TABLES + 8, TABLES + 0x1000 | 3),  # 1 GiB from RAM on
        (TABLES + 0x1000, TABLES + 0x2000 | 3),
        (TABLES + 0x1008, UNTAGGED | 0x701),
        (TABLES + 0x1010, READ_ONLY | 0x785),
    ):
        board.memory.fill(place, value.to_bytes(8, "little"))
    for page in range(0, BLOCK, 4096):
        bits = 0x747 if RAM + page in (USER, USER - 0x1000) else 0x707
        board.memory.fill(TABLES + 0x2000 + page // 512, (RAM + page | bits).to_bytes(8, "little"))
    for vector in (0x200, 0x400):
        board.memory.fill(VECTORS + vector, a.code([a.b(0)]))
    board.memory.fill(USER, a.code(user or [a.b(0)]))
    board.run(len(start))
    assert board.cpu.pc == RAM + 4 * len(start)
    return board, len(start)
