"""Programs that count: writes and reads of the registers of the Performance Monitors."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import board_at

MAX = load_core("max")
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
CYCLES = 1 << 31


def enc(register: type[SysReg]) -> tuple[int, int, int, int, int]:
    op0, op1, crn, crm, op2 = astuple(register.encoding)
    return op0, op1, crn, crm, op2


def put(register: type[SysReg], value: int) -> list[int]:
    """Through X0."""
    return [*a.mov64(0, value), a.msr(enc(register), 0)]


def get(register: type[SysReg], rt: int) -> int:
    return a.mrs(rt, enc(register))


def counters(*events: int, control: int = 1, filters: int = 0) -> list[int]:
    """All stopped and cleared, then programmed to count ``events``, and enabled."""
    code = [*put(r.PMCNTENCLR_EL0, (1 << 33) - 1), *put(r.PMOVSCLR_EL0, (1 << 33) - 1)]
    code += [*put(r.PMINTENCLR_EL1, (1 << 33) - 1), *put(r.PMCR_EL0, 0b110)]
    code += put(r.PMCCFILTR_EL0, filters)
    for number, event in enumerate(events):
        code += put(r.PMEVTYPERS[number], event | filters)
    code += put(r.PMCNTENSET_EL0, (1 << len(events)) - 1 | CYCLES)
    return [*code, *put(r.PMCR_EL0, control)]


def ran(code: list[int], runner: type[Runner], core: Core = MAX, operations: int = 2000) -> Board:
    """After that many operations of ``code`` and a branch to itself, at EL1."""
    board = board_at([*code, a.b(0)], el=1, runner=runner, core=core)
    board.run(operations)
    return board


def x(board: Board, *numbers: int) -> list[int]:
    return [board.cpu.engine.x(n) for n in numbers]
