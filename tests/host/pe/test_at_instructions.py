"""AT as it is executed: PAR_EL1 as a whole, by hand from Arm's page of it."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

TABLE, RESULTS = RAM + 0x8000, RAM + 0x4000
VALID, AF, NS, INNER, READ_ONLY = 1, 1 << 10, 1 << 5, 3 << 8, 1 << 7
RES1 = 1 << 11
MAIR = 0xFF_44_00
"""Attribute 0 Device-nGnRnE, 1 Normal Non-cacheable, 2 Normal Write-Back."""
BLOCKS = {
    0: VALID | AF | INNER,
    1: RAM | VALID | AF | INNER | 2 << 2,
    2: RAM | VALID | AF | INNER | 1 << 2,
    3: RAM | VALID | AF | INNER | 2 << 2 | NS | READ_ONLY,
}
GIB = 1 << 30
READS, WRITES = a.sys(6, 7, 8, 0, 1), a.sys(6, 7, 8, 1, 1)


def outer(attr: int, pa: int) -> int:
    return attr << 56 | pa | RES1 | 2 << 7


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(
    ("at", "va", "par"),
    [
        (READS, 0x0900_0123, outer(0x00, 0x0900_0000)),  # devices are Outer Shareable
        (READS, GIB + 0x1234, 0xFF << 56 | RAM + 0x1000 | RES1 | 3 << 7),
        (WRITES, GIB + 0x1234, 0xFF << 56 | RAM + 0x1000 | RES1 | 3 << 7),
        (READS, 2 * GIB, outer(0x44, RAM)),  # so is what is not cached
        (READS, 3 * GIB, 0xFF << 56 | RAM | RES1 | 3 << 7 | 1 << 9),
        (WRITES, 3 * GIB, RES1 | 0x0D << 1 | 1),  # permission fault, level 1
        (READS, 4 * GIB, RES1 | 0x05 << 1 | 1),  # translation fault, level 1
        (READS, 1 << 39, RES1 | 0x04 << 1 | 1),
    ],
)
def test_par_says_what_a_walk_finds(runner: type[Runner], at: int, va: int, par: int) -> None:
    code = [
        *put(system.MAIR_EL3, MAIR),
        *put(system.TCR_EL3, 25 | 1 << 16),
        *put(system.TTBR0_EL3, TABLE),
        *put(system.SCTLR_EL3, 0x30C5_0835),
        *a.mov64(1, va),
        a.movz(5, 1),
        at,
        a.add_imm(5, 5, 1),
        a.mrs(6, (3, 0, 7, 4, 0)),
        a.b(0),
    ]
    board = board_at(code, el=EL3, runner=runner)
    board.memory.fill(TABLE, b"".join(BLOCKS.get(n, 0).to_bytes(8, "little") for n in range(512)))
    assert board.run(len(code) + 4) is Ending.LIMIT
    assert (board.cpu.engine.x(5), board.cpu.engine.x(6)) == (2, par)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_at_of_a_higher_level_is_undefined(runner: type[Runner]) -> None:
    board = board_at([READS, a.b(0)], el=1, runner=runner)
    assert board.run(10) is Ending.FAILED
    assert board.cpu.registers.raw(system.ESR_EL1) == 0x0200_0000
