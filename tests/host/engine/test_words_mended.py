"""Words that the engine executes and should not, and FCVTZS of a half-precision scalar."""

from __future__ import annotations

import pytest
from unicorn import arm64_const as regs

from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
VECTORS = RAM + 0x2000
ESR_EL1, ELR_EL1, CPACR_EL1 = (3, 0, 5, 2, 0), (3, 0, 4, 0, 1), (3, 0, 1, 0, 2)
UNALLOCATED = {
    **dict.fromkeys((0x7EF8_F906, 0x7EF8_F800), "FNEG of a half-precision scalar"),
    **dict.fromkeys((0x2F02_FE2F, 0x2F01_FE40, 0x6F00_FC00), "modified immediate"),
    **dict.fromkeys((0x0EF0_F800, 0x4E70_F820, 0x0E70_C800, 0x4EF0_C81F), "FMAXV and the like"),
    **dict.fromkeys((0x9BC0_0000, 0x9BC2_7820, 0x9B42_0020), "UMULH, SMULH with another Ra"),
}
ALLOCATED = {
    0x2EF8_F800: "FNEG V0.4H, V0.4H",
    0x7EF9_D800: "FRSQRTE H0, H0",
    0x0E30_F800: "FMAXV H0, V0.4H",
    0x4EB0_C800: "FMINNMV H0, V0.8H",
    0x0F00_FC00: "FMOV V0.4H, #2.0",
    0x6F00_F400: "FMOV V0.2D, #2.0",
    0x9BC2_7C20: "UMULH X0, X1, X2",
    0x9B42_7C20: "SMULH X0, X1, X2",
}
HANDLER = [
    *[a.add_imm(20, 20, 1), a.mrs(21, ELR_EL1), a.mrs(22, ESR_EL1), a.add_imm(21, 21, 4)],
    *[a.msr(ELR_EL1, 21), a.ERET],
]
FP_ON = [*a.mov64(9, 3 << 20), a.msr(CPACR_EL1, 9), a.ISB]


def start(fp: bool = True) -> list[int]:
    return [*put(system.VBAR_EL1, VECTORS), *(FP_ON if fp else [])]


@RUNNERS
@pytest.mark.parametrize("fp", [True, False])
@pytest.mark.parametrize("word", UNALLOCATED, ids=hex)
def test_what_is_no_instruction_is_undefined(word: int, fp: bool, runner: type[Runner]) -> None:
    """That comes before a trap of FP and SIMD."""
    code = [*start(fp), a.NOP, a.add_imm(1, 1, 3), word, a.add_imm(1, 1, 3), a.b(0)]
    board = board_at(code, el=1, runner=runner)
    board.memory.fill(VECTORS + 0x200, a.code(HANDLER))
    board.run(len(code) + len(HANDLER))
    x = board.cpu.engine.x
    assert (x(20), x(22), x(1)) == (1, 1 << 25, 6)
    assert x(21) == RAM + 4 * (code.index(word) + 1)


@RUNNERS
@pytest.mark.parametrize("word", ALLOCATED, ids=ALLOCATED.values())
def test_their_neighbours_are_instructions(word: int, runner: type[Runner]) -> None:
    code = [*start(), word, a.b(0)]
    board = board_at(code, el=1, runner=runner)
    board.memory.fill(VECTORS + 0x200, a.code(HANDLER))
    board.run(len(code) + 4)
    assert board.cpu.engine.x(20) == 0
    assert board.cpu.pc == RAM + 4 * (len(code) - 1)


def fcvtzs(rd: int, rn: int, fbits: int) -> int:
    """FCVTZS Hd, Hn, #fbits."""
    return 0x5F00_FC00 | (32 - fbits) << 16 | rn << 5 | rd


@RUNNERS
@pytest.mark.parametrize(
    ("half", "fbits", "result"),
    [
        (0xBC00, 1, 0xFFFE),  # -1.0
        (0xBC00, 15, 0x8000),
        (0xFBFF, 4, 0x8000),  # -65504 saturates
        (0xFC00, 1, 0x8000),  # minus infinity
        (0x3C00, 8, 0x0100),  # 1.0
        (0x8000, 1, 0),
    ],
)
@pytest.mark.parametrize("rd", [0, 31])
def test_fcvtzs_leaves_nothing_above_its_result(
    rd: int, half: int, fbits: int, result: int, runner: type[Runner]
) -> None:
    code = [*start(), a.NOP, fcvtzs(rd, 3, fbits), a.b(0)]
    board = board_at(code, el=1, runner=runner)
    uc = board.cpu.engine.uc
    every = (1 << 128) - 1
    uc.reg_write(regs.UC_ARM64_REG_Q3, every << 16 & every | half)
    uc.reg_write(regs.UC_ARM64_REG_Q0 + rd, every)
    board.run(len(code))
    assert uc.reg_read(regs.UC_ARM64_REG_Q0 + rd) == result


@pytest.mark.parametrize("period", [1, 3, 4])
def test_both_runners_sample_the_same(period: int) -> None:
    loop = [0x9BC0_0000, a.add_imm(1, 1, 1), fcvtzs(0, 3, 1), 0x2F02_FE2F, a.b(-16)]
    memory = {RAM: a.code([*start(), *loop]), VECTORS + 0x200: a.code(HANDLER)}
    runners: tuple[type[Runner], ...] = (Runner, ReferenceRunner)
    fast, reference = (
        Machine(image_of(memory, RAM), runner=runner, period=period, ram=1 << 20)
        for runner in runners
    )
    assert fast.run(200).differences(reference.run(200)) == {}
