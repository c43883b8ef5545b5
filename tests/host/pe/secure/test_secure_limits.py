"""What docs/reference/limits.md says of Secure memory: accesses that are not refused."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.console_ends import ConsoleEnds
from tests.host.pe.secure.test_secure_memory import (
    AF,
    ALIAS,
    BLOCK_NS,
    DATA,
    EXTERNAL_LOAD,
    HCE,
    LOAD,
    MMU_ON,
    NS,
    RAM,
    RES1,
    RUNNERS,
    RW,
    SECURE,
    TABLE,
    VALID,
    XN,
    caught,
    drop,
    put,
    run_at_once,
    secure_board,
    tables,
)
from tests.support import a64 as a

CPTR_EL3, CPACR_EL1 = (3, 6, 1, 1, 2), (3, 0, 1, 0, 2)
DSB, ISB, TLBI_ALLE3 = 0xD503_3F9F, 0xD503_3FDF, 0xD50E_871F
HLT_F000 = 0xD45E_0000
PTRUE_P0_D, LD1D_Z0_P0_X1 = 0x25D8_E3E0, 0xA5E0_A020
SCTLR, SCR = 0x30C5_0831, NS | HCE | RW | RES1 | 1 << 3
OWN = TABLE + 8 * (ALIAS >> 30)
"""The descriptor of the mapping as Non-secure."""


@RUNNERS
def test_a_walk_of_non_secure_state_reads_tables_in_secure_memory(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    there, value = SECURE + 0x1_0000, RAM + 0x9000
    lower = [*put(system.MAIR_EL1, 0), *put(system.TCR_EL1, 25 | 1 << 23 | 2 << 32)]
    lower += [*put(system.TTBR0_EL1, there), *put(system.SCTLR_EL1, 0x30D0_0801)]
    board = secure_board(drop(), runner, [*lower, *a.mov64(1, value), a.ldr(2, 1)])
    board.memory.fill(there, tables())
    board.memory.fill(value, b"\x77")
    run_at_once(board)
    assert (board.cpu.engine.x(2), caught(board)) == (0x77, (0, 0))


@RUNNERS
def test_secure_state_fetches_through_its_non_secure_mapping(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    function = SECURE + 0x1000
    board = secure_board([*MMU_ON, *a.mov64(11, function + ALIAS), a.blr(11)], runner)
    board.memory.fill(OWN, (VALID | AF | BLOCK_NS).to_bytes(8, "little"))
    board.memory.fill(function, a.code([a.movz(2, 5), a.ret()]))
    run_at_once(board)
    assert (board.cpu.engine.x(2), caught(board)) == (5, (0, 0))


@RUNNERS
def test_an_sve_load_of_consecutive_elements_reads_it_and_so_do_loads_behind_it(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    vector = [PTRUE_P0_D, LD1D_Z0_P0_X1, a.fmov_to_x(3, 0)]
    enabled = [*a.mov64(0, 3 << 20 | 3 << 16), a.msr(CPACR_EL1, 0), ISB]
    lower = [*enabled, *LOAD, a.add_imm(4, 2, 0), *vector, a.ldr(2, 1)]
    code = [*a.mov64(0, 1 << 8), a.msr(CPTR_EL3, 0), *drop()]
    board = secure_board(code, runner, lower, core=load_core("max"))
    run_at_once(board)
    x = board.cpu.engine.x
    assert (x(4), x(3), x(2)) == (7, DATA, DATA)
    assert caught(board) == (1, EXTERNAL_LOAD)


@RUNNERS
@pytest.mark.parametrize(
    ("then", "refused"),
    [
        ([], 0),
        (put(system.SCTLR_EL3, SCTLR), 0),
        (put(system.SCTLR_EL3, SCTLR | 1 << 12), 1),
        (put(system.SCR_EL3, SCR | 1 << 1), 1),
    ],
    ids=["maintenance", "SCTLR_EL3 as it was", "SCTLR_EL3", "SCR_EL3"],
)
def test_a_new_non_secure_mapping_counts_from_the_next_change_of_sctlr_or_scr(
    runner: type[ReferenceRunner] | type[Runner], then: list[int], refused: int
) -> None:
    new = [*a.mov64(7, OWN), *a.mov64(8, VALID | AF | XN | BLOCK_NS), a.str_(8, 7)]
    code = [*MMU_ON, *a.mov64(5, SECURE + ALIAS), *new, DSB, TLBI_ALLE3, DSB, ISB, *then]
    board = secure_board([*code, *a.mov64(6, 7), a.ldr(6, 5)], runner)
    board.memory.fill(OWN, bytes(8))
    run_at_once(board)
    assert (board.cpu.engine.x(6), caught(board)[0]) == ([DATA, 7][refused], refused)


def test_semihosting_of_non_secure_state_reads_it() -> None:
    """SYS_WRITE0 (4) prints a string."""
    said = bytearray()
    lower = [*a.mov64(1, SECURE), a.movz(0, 4), HLT_F000]
    board = secure_board(drop(), Runner, lower, console=ConsoleEnds(said.extend))
    board.memory.fill(SECURE, b"secret\0")
    run_at_once(board)
    assert (said, caught(board)) == (b"secret", (0, 0))
