"""Code at one Exception level that another one debugs, and the log of what it takes."""

from __future__ import annotations

import struct
from dataclasses import astuple
from random import Random
from typing import NamedTuple

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import system
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
OPERATIONS = 240
"""How many of random code are executed."""


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
        register: type[SysReg] = getattr(system, f"{name}_EL{el}")
        return register

    start = [
        *put(own("VBAR"), VECTORS),
        a.msr(encoding(d.OSLAR_EL1), 31),
        *put_all({d.MDSCR_EL1: MDE | KDE, **registers}),
        *(put(system.MDCR_EL2, TDE | 3 << 12) if el == 2 else []),
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


def random_registers(random: Random) -> dict[type, int]:
    """Some breakpoints and watchpoints, near the code and the data, often enabled."""
    found: dict[type, int] = {d.MDSCR_EL1: random.choice((0xA000, 0xA000, 0xA000, 0x2000))}
    levels = (3 << 1, 1 << 1, 1 << 13 | 3 << 1, 1 << 13 | 3 << 14)
    for n in range(d.BREAKPOINTS):
        if random.random() < 0.4:
            bt = random.choice((0, 0, 0, 1, 2, 3, 4, 8, 10, 12))
            value = CODE + 4 * random.randrange(40) if bt < 2 else random.randrange(3)
            control = bt << 20 | random.randrange(6) << 16 | random.choice(levels)
            found |= {d.DBGBVRS[n]: value, d.DBGBCRS[n]: control | 0xF << 5 | 1}
    for n in range(d.WATCHPOINTS):
        if random.random() < 0.5:
            control = random.choice(levels) | random.randrange(4) << 3 | 1
            control |= random.choice((0xFF, 0x0F, 0x3C, 0x80, 0x81)) << 5
            control |= random.choice((0, 0, 3, 6)) << 24
            found |= {d.DBGWVRS[n]: DATA + 4 * random.randrange(32), d.DBGWCRS[n]: control}
    return found


def random_code(random: Random) -> list[int]:
    """Loads, stores, atomics, and writes of what is looked for, some of them over and over."""
    makers = (
        lambda: a.ldr(random.randrange(5), 6, 8 * random.randrange(16)),
        lambda: a.str_(random.randrange(5), 6, 8 * random.randrange(16)),
        lambda: a.pair(bool(random.randrange(2)), 1, 2, 6, 8 * random.randrange(8)),
        lambda: a.ldadd(1, 2, 6),
        lambda: a.ldxr(3, 6),
        lambda: a.stxr(4, 3, 6),
        lambda: a.add_imm(1, 1, 3),
        lambda: a.svc(1),
        lambda: a.brk(1),
        lambda: a.daifset(8),
        lambda: a.daifclr(8),
        lambda: a.msr((3, 0, 13, 0, 1), random.choice((8, 31))),
        lambda: a.msr(encoding(d.OSLAR_EL1), random.choice((8, 31, 31))),
        lambda: a.msr(encoding(random.choice(d.DBGWVRS)), 6),
        lambda: a.mrs(2, encoding(d.MDSCR_EL1)),
        lambda: a.ISB,
        lambda: a.fadd(0, 0, 0),
        lambda: a.dc_zva(6),
        lambda: a.b(8),
    )
    words = [random.choice(makers)() for _ in range(40)]
    return [a.movz(8, 1), *words, a.sub_imm(9, 9, 1), a.cbnz(9, -4 * 42)]
