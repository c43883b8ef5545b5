"""Code at one Exception level that another one debugs, and the log of what it takes."""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import NamedTuple

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import system as s
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

CODE, VECTORS, LOG, DATA = RAM + 0x1000, RAM + 0x2000, RAM + 0x20000, RAM + 0x8000
MDE, KDE, TDE = 1 << 15, 1 << 13, 1 << 8
UNMASKED = 0x1C0
IL = 1 << 25
EL0_AND_EL1 = 3 << 1
EL2_ALONE = 1 << 13 | 3 << 14
LOADS, STORES, BOTH = 1 << 3, 2 << 3, 3 << 3
EIGHT = 0xFF << 5


class Taken(NamedTuple):
    """An exception: where it was taken, with the address as an offset into the code."""

    place: int
    esr: int
    far: int


def encoding(register: type[SysReg]) -> tuple[int, int, int, int, int]:
    return astuple(register.encoding)  # type: ignore[return-value]


def put_all(registers: dict[type[SysReg], int]) -> list[int]:
    return [word for register, value in registers.items() for word in put(register, value)]


def board(
    code: list[int],
    registers: dict[type[SysReg], int],
    runner: type[Runner],
    at: int = 1,
    el: int = 1,
    spsr: int = UNMASKED,
    **options: object,
) -> tuple[Board, int]:
    """A board on which the code at ``at`` begins after so many operations, and ends in a loop.

    What it takes to ``el`` is logged, and the operation is then skipped.
    """

    def own(name: str) -> type[SysReg]:
        register: type[SysReg] = getattr(s, f"{name}_EL{el}")
        return register

    start = [
        *put(own("VBAR"), VECTORS),
        a.msr(encoding(d.OSLAR_EL1), 31),
        *put_all({d.MDSCR_EL1: MDE | KDE, **registers}),
        *(put(s.MDCR_EL2, TDE | 3 << 12) if el == 2 else []),
        *put(own("SPSR"), at << 2 | bool(at) | spsr),
        *put(own("ELR"), CODE),
        *a.mov64(19, LOG),
        *a.mov64(6, DATA),
        a.ERET,
    ]
    handler = [
        *(a.mrs(n, encoding(own(name))) for n, name in ((20, "ELR"), (21, "ESR"), (22, "FAR"))),
        *[a.str_(20, 19), a.str_(21, 19, 8), a.str_(22, 19, 16), a.add_imm(19, 19, 24)],
        *[a.add_imm(20, 20, 4), a.msr(encoding(own("ELR")), 20), a.ERET],
    ]
    made = board_at(start, el=el, runner=runner, **options)
    made.memory.fill(CODE, a.code([*code, a.b(0)]))
    made.memory.fill(DATA, bytes(range(256)))
    for offset in (0x200, 0x400):
        made.memory.fill(VECTORS + offset, a.code(handler))
    return made, len(start)


def taken(
    code: list[int],
    registers: dict[type[SysReg], int],
    runner: type[Runner],
    at: int = 1,
    el: int = 1,
    **options: object,
) -> tuple[list[Taken], Board]:
    """What the code takes until its last loop, and the board."""
    made, before = board(code, registers, runner, at, el, **options)
    assert made.run(before + 400) is Ending.LIMIT
    assert made.cpu.virtual.code(made.cpu.pc, 1) == (a.b(0),)
    count = (made.cpu.engine.x(19) - LOG) // 24
    log = made.memory.read(LOG, 24 * count)
    assert log is not None
    return [Taken(pc - CODE, esr, far) for pc, esr, far in struct.iter_unpack("<3Q", log)], made
