"""A guest at EL1 under code at EL2 that counts what it takes, and goes on after it."""

from __future__ import annotations

from dataclasses import astuple

from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

GUEST, VECTORS, APPLICATION = RAM + 0x1000, RAM + 0x2000, RAM + 0x4000
EL1H, EL0T = 0x3C5, 0x3C0
FROM_LOWER = 0x400
SPSR, ELR = (3, 0, 4, 0, 0), (3, 0, 4, 0, 1)


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def board(
    traps: dict[type[SysReg], int],
    guest: list[int],
    runner: type[Runner],
    application: list[int] | None = None,
    skips: int = 4,
    **options: object,
) -> Board:
    """EL2 sets traps and enters the guest; its vector counts in X20 and skips the operation.

    X21 is the syndrome of the last exception, X22 its address.
    """
    code = [*put(system.VBAR_EL2, VECTORS), *put(system.SCTLR_EL1, 0x30D0_0800 | 1 << 26 | 1 << 14)]
    for register, value in traps.items():
        code += put(register, value)
    code += [*put(system.SPSR_EL2, EL1H), *put(system.ELR_EL2, GUEST), a.ERET]
    handler = [
        a.add_imm(20, 20, 1),
        a.mrs(21, astuple(system.ESR_EL2.encoding)),
        a.mrs(22, astuple(system.ELR_EL2.encoding)),
        a.add_imm(23, 22, skips),
        a.msr(astuple(system.ELR_EL2.encoding), 23),
        a.ERET,
    ]
    result = board_at(code, el=EL2, runner=runner, **options)
    result.memory.fill(VECTORS + FROM_LOWER, a.code(handler))
    result.memory.fill(GUEST, a.code([*guest, a.b(0)]))
    result.memory.fill(APPLICATION, a.code([*(application or []), a.b(0)]))
    return result


def run(subject: Board, operations: int = 200) -> tuple[int, int, int]:
    """To the branch to itself; how many traps there were, the last syndrome and its address."""
    assert subject.run(operations) is Ending.LIMIT
    assert subject.cpu.virtual.code(subject.cpu.pc, 1) == (a.b(0),)
    x = subject.cpu.engine.x
    return x(20), x(21), x(22)


def enter_application() -> list[int]:
    """To EL0, at APPLICATION."""
    return [
        *[*a.mov64(0, APPLICATION), a.msr(ELR, 0), *a.mov64(0, EL0T), a.msr(SPSR, 0)],
        a.ERET,
    ]
