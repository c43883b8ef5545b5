"""FEAT_CSSC by hand: QEMU 7.2 lacks it."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR2_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

LEAST, MOST = 1 << 63, (1 << 63) - 1
MINUS = (1 << 64) - 1
LOW = 0xFFFF_FFFF
WIDE = 1 << 31
OPERANDS = 1 << 5 | 2 << 16 | 3  # X3, X1, X2
ABS, CNT, CTZ = 0x5AC0_2000, 0x5AC0_1C00, 0x5AC0_1800
SMAX, UMAX, SMIN, UMIN = 0x1AC0_6000, 0x1AC0_6400, 0x1AC0_6800, 0x1AC0_6C00
SMAX_I, UMAX_I, SMIN_I, UMIN_I = 0x11C0_0000, 0x11C4_0000, 0x11C8_0000, 0x11CC_0000


def immediate(word: int, value: int) -> int:
    return word | (value & 0xFF) << 10


CASES = [
    (WIDE | ABS, MINUS, 0, 1),
    (WIDE | ABS, LEAST, 0, LEAST),
    (WIDE | ABS, 5, 0, 5),
    (ABS, MINUS << 32 & MINUS | 0x8000_0001, 0, 0x7FFF_FFFF),
    (ABS, 0x8000_0000, 0, 0x8000_0000),
    (WIDE | CNT, MINUS, 0, 64),
    (WIDE | CNT, LEAST | 1, 0, 2),
    (CNT, MINUS, 0, 32),
    (WIDE | CTZ, 0, 0, 64),
    (WIDE | CTZ, LEAST, 0, 63),
    (CTZ, 1 << 32, 0, 32),
    (CTZ, 0x50, 0, 4),
    (WIDE | SMAX, MINUS, 1, 1),
    (WIDE | UMAX, MINUS, 1, MINUS),
    (WIDE | SMIN, LEAST, MOST, LEAST),
    (WIDE | UMIN, LEAST, MOST, MOST),
    (SMAX, 0x8000_0000, 7, 7),
    (UMAX, 0x8000_0000, 7, 0x8000_0000),
    (SMIN, 0x1_0000_0003, LOW, LOW),
    (UMIN, 0x1_0000_0003, LOW, 3),
    (immediate(WIDE | SMAX_I, -2), MINUS - 6, 0, MINUS - 1),
    (immediate(WIDE | UMAX_I, 254), 3, 0, 254),
    (immediate(WIDE | SMIN_I, -128), 5, 0, MINUS - 127),
    (immediate(WIDE | UMIN_I, 254), MINUS, 0, 254),
    (immediate(SMAX_I, -1), LEAST, 0, 0),
    (immediate(SMIN_I, -1), 0, 0, LOW),
]
"""The word without operands, X1, X2, and X3 after it."""


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_each_as_its_page_says(runner: type[Runner]) -> None:
    """FP and SVE are trapped all the while: these are neither."""
    for word, first, second, expected in CASES:
        operands = OPERANDS if word & 0x1FE0_F000 == 0x1AC0_6000 else OPERANDS & ~(2 << 16)
        code = [*a.mov64(1, first), *a.mov64(2, second), word | operands, word | operands]
        board = board_at([*code, a.b(0)], el=1, core=load_core("max"), runner=runner)
        board.run(len(code))
        assert board.cpu.engine.x(3) == expected, hex(word)
        assert (board.cpu.pc, board.executed) == (RAM + 4 * len(code), len(code))


def test_the_zero_register_reads_as_zero_and_is_not_written() -> None:
    code = [a.movz(1, 9), WIDE | SMIN | 31 << 5 | 1 << 16 | 3, WIDE | SMAX | 1 << 5 | 1 << 16 | 31]
    board = board_at([*code, a.b(0)], el=1, core=load_core("max"))
    board.run(3)
    assert board.cpu.engine.x(3) == 0
    assert board.cpu.pc == RAM + 12


@pytest.mark.parametrize("core", ["generic", "cortex-x4", "max,FEAT_CMPBR=off,FEAT_CSSC=off"])
def test_others_have_not(core: str) -> None:
    vbar = (3, 0, 12, 0, 0)
    code = [*a.mov64(0, RAM + 0x800), a.msr(vbar, 0), WIDE | CNT | OPERANDS & 0xFFFF]
    board = board_at(code, el=1, core=load_core(core))
    board.run(len(code))
    assert board.cpu.pc == RAM + 0xA00
    assert board.cpu.registers.raw(system.ESR_EL1) == 1 << 25
    assert board.cpu.registers.read(ID_AA64ISAR2_EL1).CSSC == 0


def test_its_field_shows_it() -> None:
    board = board_at([a.b(0)], el=1, core=load_core("max,FEAT_CMPBR=off"))
    assert board.cpu.registers.read(ID_AA64ISAR2_EL1).CSSC == 1
    assert board.cpu.registers.read(ID_AA64ISAR2_EL1).CLRBHB == 1
