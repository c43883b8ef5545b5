"""Code that has not changed is not forgotten, and code that has is (ADR 0056)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from spe_unicorn.arch.pe import EL1, EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
VECTORS: Final = RAM + 0x1000
FUNCTION: Final = RAM + 0x2000
IC_IALLU: Final = a.sys(0, 7, 5, 0)
ADD_Z: Final = 0x04A1_0000
"""ADD Z0.S, Z0.S, Z1.S, which the engine executes."""
UNDEFINED: Final = 0


def forgotten(board: Board) -> list[None]:
    """Collects a None each time from now on that the engine forgets all its code."""
    times: list[None] = []
    board.cpu.engine.code_forgotten.wire(lambda: times.append(None))
    return times


@RUNNERS
def test_first_block_that_ended_in_an_exception_is_not_taken_for_known(
    runner: type[Runner],
) -> None:
    board = board_at([UNDEFINED, a.b(0)], runner=runner)
    board.cpu.registers.set_raw(system.VBAR_EL3, VECTORS)
    board.memory.fill(VECTORS, a.code([a.b(0)] * 512))
    assert board.run(1)
    assert board.cpu.pc == VECTORS + 0x200

    board.memory.fill(RAM, a.code([a.NOP, a.b(0)]))
    board.pes[0].resync()
    board.cpu.pc = RAM
    assert board.run(1)
    assert board.cpu.pc == RAM + 4


def rounds_of(change: bool, rounds: int) -> list[int]:
    """Calls a function that returns its number; makes another of it before each call, or not."""
    body = [
        *a.mov64(9, a.movz(0, 0)),
        *a.mov64(10, FUNCTION),
        *a.mov64(11, 0),
        a.movz(1, rounds),
    ]
    loop = [
        # movz x0, #round: a function of this word and a return
        a.add_imm(9, 9, 1 << 5) if change else a.NOP,
        a.str_(9, 10, 0, size=2),
        a.DSB_SY,
        IC_IALLU,
        a.DSB_SY,
        a.ISB,
        a.blr(10),
        a.add(11, 11, 0),
        a.subs_imm(1, 1, 1),
    ]
    back = a.b_cond(a.NE, -4 * len(loop))
    return [*body, *loop, back, a.b(0)]


@RUNNERS
def test_changed_code_is_executed_as_it_is_now(runner: type[Runner]) -> None:
    code = rounds_of(change=True, rounds=20)
    board = board_at(code, runner=runner)
    board.memory.fill(FUNCTION, a.code([UNDEFINED, a.RET]))
    board.run(400)
    assert board.cpu.pc == RAM + 4 * (len(code) - 1)
    assert board.cpu.engine.x(11) == sum(range(1, 21))


def test_code_that_is_the_same_is_not_forgotten() -> None:
    code = rounds_of(change=False, rounds=20)
    board = board_at(code)
    board.memory.fill(FUNCTION, a.code([UNDEFINED, a.RET]))
    board.run(60)
    times = forgotten(board)
    board.run(400)
    assert board.cpu.pc == RAM + 4 * (len(code) - 1)
    assert board.cpu.engine.x(11) == 0
    assert times == []


def test_without_the_accelerator_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPE_UNICORN_ACCELERATORS", "none")
    board = board_at(rounds_of(change=False, rounds=20))
    board.memory.fill(FUNCTION, a.code([UNDEFINED, a.RET]))
    board.run(60)
    times = forgotten(board)
    board.run(400)
    assert times


@RUNNERS
@pytest.mark.parametrize(
    ("el", "first"), [(EL3, a.smc(0)), (EL1, a.svc(0)), (EL1, UNDEFINED), (EL1, ADD_Z)]
)
def test_what_the_core_lacks_is_undefined_after_a_first_block_that_ends_in_an_exception(
    runner: type[Runner], el: int, first: int
) -> None:
    core = replace(load_core("neoverse-n1"), strict=True)
    board = board_at([first], runner=runner, core=core, el=el)
    registers = board.cpu.registers
    vbar, esr, elr = {
        EL1: (system.VBAR_EL1, system.ESR_EL1, system.ELR_EL1),
        EL3: (system.VBAR_EL3, system.ESR_EL3, system.ELR_EL3),
    }[el]
    registers.set_raw(vbar, VECTORS)
    registers.set_raw(system.CPACR_EL1, 3 << 20 | 3 << 16)
    registers.set_raw(system.CPTR_EL3, 1 << 8)
    # it marks that it came here, then executes what Neoverse N1 does not have
    board.memory.fill(VECTORS + 0x200, a.code([a.add_imm(11, 11, 1), ADD_Z, a.b(0)]))
    board.run(9)
    assert registers.raw(esr) == 1 << 25  # unknown reason, 32-bit word
    assert registers.raw(elr) == VECTORS + 0x204
    assert board.cpu.engine.x(11) > 1
