"""Exclusives and atomics that are not aligned: within 16 bytes FEAT_LSE2 allows them."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64MMFR2_EL1
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.host.normal_memory import DATA, SCTLR, TABLE, machine
from tests.support import a64 as a
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
LOAD_FAULT = 0x9600_0021
X1, SIZE = 1 << 5, 30
LDXR, LDAXR, STXR = 0x085F_7C00 | X1 | 3, 0x085F_FC00 | X1 | 3, 0x0805_7C00 | X1 | 4
LDXP_W, STXP_W = 0x887F_0000 | X1 | 3 | 6 << 10, 0x8825_0000 | X1 | 4 | 7 << 10
CAS, CASP_W = 0x08A8_7C00 | X1 | 4, 0x0828_7C00 | X1 | 4  # X8 and X4; W8, W9 and W4, W5
ATOMICS = {
    "LDADD": 0x3824_0000,
    "LDCLR": 0x3824_1000,
    "LDEOR": 0x3824_2000,
    "LDSET": 0x3824_3000,
    "LDSMAX": 0x3824_4000,
    "LDSMIN": 0x3824_5000,
    "LDUMAX": 0x3824_6000,
    "LDUMIN": 0x3824_7000,
    "SWP": 0x3824_8000,
}
"""Of X4, with the result in X3."""
BYTES = bytes(range(1, 65))


def ran(words: list[int], runner: type[Runner], core: str = "max") -> Board:
    board = machine(words, runner, checks=False, core=core)
    assert board.run(200) is Ending.LIMIT
    return board


def at(offset: int, **registers: int) -> list[int]:
    """X1 is where the access goes; others by name."""
    words = a.mov64(1, DATA + offset)
    for name, value in registers.items():
        words += a.mov64(int(name[1:]), value)
    return words


def stored(board: Board, offset: int, size: int) -> int:
    """What is there now; what stands around it is as it was."""
    found = board.memory.read(DATA, 64)
    assert found[:offset] + found[offset + size :] == BYTES[:offset] + BYTES[offset + size :]
    return int.from_bytes(found[offset : offset + size], "little")


@RUNNERS
@pytest.mark.parametrize(
    ("name", "size", "operand", "expected"),
    [
        ("LDADD", 3, 0xFF, 0x0908_0706_0504_0401),
        ("LDCLR", 2, 0xF0F0_F0F2, 0x0504_0300),
        ("LDEOR", 2, 0xFFFF_FFFF, 0xFAFB_FCFD),
        ("LDSET", 1, 0x8080, 0x8382),
        ("LDSMAX", 1, 0x8000, 0x0302),
        ("LDSMIN", 1, 0x8000, 0x8000),
        ("LDUMAX", 2, 0x8000_0000, 0x8000_0000),
        ("LDUMIN", 2, 0x8000_0000, 0x0504_0302),
        ("SWP", 3, 0x1234_5678_9ABC_DEF0, 0x1234_5678_9ABC_DEF0),
    ],
)
def test_an_atomic(name: str, size: int, operand: int, expected: int, runner: type[Runner]) -> None:
    """Arm ARM C6.2 has what each stores of what is there, and of Xs."""
    word = ATOMICS[name] | size << SIZE | X1 | 3
    board = ran([*at(1, x4=operand), word], runner)
    old = int.from_bytes(BYTES[1 : 1 + (1 << size)], "little")
    x = board.cpu.engine.x
    assert (x(20), x(3), x(4), x(0)) == (0, old, operand, SCTLR | 0b101)  # X0 as before
    assert stored(board, 1, 1 << size) == expected


@RUNNERS
@pytest.mark.parametrize(("compared", "success"), [(0x0504_0302, True), (0x0504_0303, False)])
def test_compare_and_swap(compared: int, success: bool, runner: type[Runner]) -> None:
    board = ran([*at(1, x8=compared, x4=0xAAAA_BBBB), CAS | 2 << SIZE], runner)
    assert (board.cpu.engine.x(20), board.cpu.engine.x(8)) == (0, 0x0504_0302)
    assert stored(board, 1, 4) == (0xAAAA_BBBB if success else 0x0504_0302)


@RUNNERS
def test_compare_and_swap_of_a_pair(runner: type[Runner]) -> None:
    registers = {"x8": 0x0807_0605, "x9": 0x0C0B_0A09, "x4": 0x1111_2222, "x5": 0x3333_4444}
    board = ran([*at(4, **registers), CASP_W], runner)  # aligned to 4, not to 8
    assert board.cpu.engine.x(20) == 0
    assert stored(board, 4, 8) == 0x3333_4444_1111_2222
    board = ran([*at(4, **{**registers, "x9": 1}), CASP_W], runner)
    x = board.cpu.engine.x
    assert (x(20), x(8), x(9)) == (0, 0x0807_0605, 0x0C0B_0A09)
    assert stored(board, 4, 8) == 0x0C0B_0A09_0807_0605


@RUNNERS
@pytest.mark.parametrize("load", [LDXR, LDAXR])
def test_exclusives(load: int, runner: type[Runner]) -> None:
    """A store-exclusive stores once after its load-exclusive, and only where that was."""
    load, store = load | 3 << SIZE, STXR | 3 << SIZE
    again = [a.orr(6, 31, 5), store]
    board = ran([*at(3, x4=0x55), load, store, *again], runner)
    x = board.cpu.engine.x
    assert (x(20), x(3), x(6), x(5)) == (0, 0x0B0A_0908_0706_0504, 0, 1)
    assert stored(board, 3, 8) == 0x55
    elsewhere = ran([*at(3, x4=0x55), load, a.add_imm(1, 1, 1), store], runner)
    assert (elsewhere.cpu.engine.x(20), elsewhere.cpu.engine.x(5)) == (0, 1)
    written = ran([*at(3, x4=0x55), load, a.str_(4, 1, size=0), store], runner)
    assert (written.cpu.engine.x(20), written.cpu.engine.x(5)) == (0, 1)


@RUNNERS
def test_exclusives_of_a_pair(runner: type[Runner]) -> None:
    board = ran([*at(4, x4=0xAAAA, x7=0xBBBB), LDXP_W, STXP_W], runner)
    x = board.cpu.engine.x
    assert (x(20), x(3), x(6), x(5)) == (0, 0x0807_0605, 0x0C0B_0A09, 0)
    assert stored(board, 4, 8) == 0xBBBB_0000_AAAA


@RUNNERS
@pytest.mark.parametrize(
    ("core", "offset", "controls"),
    [("max", 9, 0), ("max", 1, 1 << 1), ("max", 1, 1 << 6), ("neoverse-n1", 1, 0)],
)
def test_across_16_bytes_with_checks_or_without_the_feature_they_fault(
    core: str, offset: int, controls: int, runner: type[Runner]
) -> None:
    """SCTLR_ELx.A has all misaligned ones fault; nAA has no say in exclusives and atomics."""
    set_up = put(system.SCTLR_EL3, SCTLR | 0b101 | controls)
    words = [ATOMICS["LDADD"] | 3 << SIZE | X1 | 3, CAS | 3 << SIZE, LDXR | 3 << SIZE]
    board = ran([*set_up, *at(offset, x4=1, x3=7, x8=9), *words], runner, core)
    x = board.cpu.engine.x
    allowed = controls == 1 << 6  # within 16 bytes
    assert (x(20), x(3) == 7) == (0 if allowed else 3, not allowed)
    if not allowed:
        assert (x(21) & ~(1 << 6), x(23)) == (LOAD_FAULT, DATA + offset)
        assert board.memory.read(DATA, 64) == BYTES


@RUNNERS
def test_in_device_memory_they_fault(runner: type[Runner]) -> None:
    board = machine(
        [*at(1, x4=1), ATOMICS["LDADD"] | 3 << SIZE | X1 | 3], runner, checks=False, core="max"
    )
    block = RAM | 1 << 10 | 1  # AF, Attr0: Device-nGnRnE
    board.memory.fill(TABLE + 8, block.to_bytes(8, "little"))
    assert board.run(200) is Ending.LIMIT
    assert board.cpu.engine.x(20) == 1
    assert board.memory.read(DATA, 64) == BYTES


def test_id_registers_show_it() -> None:
    for core, there in (("neoverse-n1", 0), ("neoverse-v1", 1), ("cortex-x4", 1), ("generic", 0)):
        read = machine([], Runner, core=core).cpu.registers.read
        shown = read(ID_AA64MMFR2_EL1).AT
        assert shown == there, core
