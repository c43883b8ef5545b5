"""Programs that count: writes and reads of the registers of the Performance Monitors."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import spe
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

MAX = load_core("max")
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
CYCLES = 1 << 31
BUFFER = RAM + 0x8_0000
"""Where :func:`profiling` has records written."""


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


def profiling(interval: int, limit: int = 0x4_0000) -> list[int]:
    """SPE at EL1 and EL0, with a buffer of ``limit`` bytes at :data:`BUFFER`."""
    return [
        *[
            *put(spe.PMBSR_EL1, 0),
            *put(spe.PMBPTR_EL1, BUFFER),
            *put(spe.PMBLIMITR_EL1, BUFFER + limit | 1),
        ],
        *[*put(spe.PMSIRR_EL1, interval), *put(spe.PMSICR_EL1, 0), *put(spe.PMSFCR_EL1, 0)],
        *[*put(spe.PMSLATFR_EL1, 0), *put(spe.PMSEVFR_EL1, 0), *put(spe.PMSCR_EL1, 0b11)],
    ]


def ran(code: list[int], runner: type[Runner], core: Core = MAX, operations: int = 2000) -> Board:
    """After that many operations of ``code`` and a branch to itself, at EL1."""
    board = board_at([*code, a.b(0)], el=1, runner=runner, core=core)
    board.run(operations)
    return board


def x(board: Board, *numbers: int) -> list[int]:
    return [board.cpu.engine.x(n) for n in numbers]


VECTORS, HANDLER = RAM + 0x800, RAM + 0x800 + 0x200
ESR, ELR, SPSR = (3, 0, 5, 2, 0), (3, 0, 4, 0, 1), (3, 0, 4, 0, 0)
SYNC = 1 << 58
ALL_BITS = 1 << 64
MSR_PM = (0xD501_421F, 0xD501_431F)
"""MSR PM, #0 and #1."""
PPEND, PM = 1 << 33, 1 << 32
SYNCHRONOUS, ASYNCHRONOUS = 0xF600_0001, 0xF600_0000
"""ESR_EL1: class 0x3D, IL, SYNC or not."""
REPORT = [
    *(a.mrs(9, ESR), a.mrs(10, ELR), a.mrs(12, SPSR), get(r.PMIAR_EL1, 11)),
    *(get(r.PMEVCNTRS[0], 13), get(r.PMOVSSET_EL0, 14), a.b(0)),
]
LOOP = [a.movz(4, 0), a.add_imm(4, 4, 1), a.b(-4)]
"""X4 counts how often its branch is about to be executed."""


def prepared(event: int, value: int, noticed: int = 1) -> list[int]:
    """Counter 0 from ``value`` on, its overflow an exception to EL1; PSTATE.PM is 1 at a start."""
    return [
        *[*a.mov64(0, VECTORS), a.msr((3, 0, 12, 0, 0), 0)],
        *counters(event),
        *put(r.PMINTENSET_EL1, noticed),
        *put(r.PMECR_EL1, 0b111),  # KPME, PMEE
        *put(r.PMEVCNTRS[0], value % ALL_BITS),
    ]
