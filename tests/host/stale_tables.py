"""Guests with the MMU on that change their translation tables without TLB maintenance.

Each of their pages has a place of its own in the engine's TLB, which is chosen by bits 15:10 of the
address if the TLB has 64 entries. So no entry gives way to another.
"""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import Final

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from tests.support import a64 as a

CODE, FUNCTION, VECTORS = 0x4000_0000, 0x4001_0800, 0x4008_0000
LEVEL1, LEVEL2, LEVEL3 = 0x4010_0000, 0x4010_1000, 0x4010_2000
PAGES: Final = 0x8000_0000
"""Where the pages of the level 3 table are."""
MEMORY: Final = 0x4060_0000
"""Where the memory of these pages is; all other memory is at its own address."""
PAGE: Final = 0x1000
ROWS: Final = 512
FURTHER: Final = PAGES + ROWS * PAGE
"""The first address after them: nothing is there."""
_ACCESSED, _BLOCK, _TABLE, _DEVICE, _NEVER_EXECUTED = 1 << 10, 0b01, 0b11, 1 << 2, 3 << 53
TLBI_VMALLE1: Final = a.sys(0, 8, 7, 0)


def put(register: type[SysReg], value: int) -> list[int]:
    """Write a register, by X0."""
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def page(number: int, executed: bool = False) -> int:
    """The descriptor of a page of MEMORY, by its number."""
    never = 0 if executed else _NEVER_EXECUTED
    return MEMORY + PAGE * number | _ACCESSED | _TABLE | never


def tables(rows: dict[int, int] | None = None) -> dict[int, bytes]:
    """The tables, by address. ``rows`` are those of level 3; by default each page is its own."""
    if rows is None:
        rows = {number: page(number) for number in range(ROWS)}
    level1 = {0: _ACCESSED | _BLOCK | _DEVICE | _NEVER_EXECUTED, 1: CODE | _ACCESSED | _BLOCK}
    level1[2] = LEVEL2 | _TABLE
    return {
        at: struct.pack(f"<{ROWS}Q", *(table.get(n, 0) for n in range(ROWS)))
        for at, table in ((LEVEL1, level1), (LEVEL2, {0: LEVEL3 | _TABLE}), (LEVEL3, rows))
    }


def mapped(sctlr: int = 0) -> list[int]:
    """Switch translation by these tables on, with more bits of SCTLR_EL1 if any are given."""
    tcr = system.TCR_EL1.of(T0SZ=25, EPD1=1, SH0=3, ORGN0=1, IRGN0=1, IPS=2)
    return [
        *put(system.MAIR_EL1, 0xFF),
        *put(system.TCR_EL1, tcr.value),
        *put(system.TTBR0_EL1, LEVEL1),
        *put(system.VBAR_EL1, VECTORS),
        a.ISB,
        *put(system.SCTLR_EL1, 0x34D0_5805 | sctlr),
        a.ISB,
    ]


def load(register: int, address: int) -> list[int]:
    """Load a doubleword, by X4."""
    return [*a.mov64(4, address), a.ldr(register, 4)]


def map_to(number: int, other: int) -> list[int]:
    """Have the table say another page of MEMORY, by X6 and X7. Nothing is told of that."""
    return [*a.mov64(6, LEVEL3 + 8 * number), *a.mov64(7, page(other)), a.str_(7, 6)]


def loop(times: int, body: list[int]) -> list[int]:
    """Execute ``body`` so often, by X9."""
    return [*a.mov64(9, times), *body, a.subs_imm(9, 9, 1), a.b_cond(a.NE, -4 * len(body) - 4)]
