"""Programs of a few instructions, assembled by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.support.elf_builder import RAM, Elf, Load, Sym

_READ_WRITE_EXECUTE = 7


def words(*code: int) -> bytes:
    return struct.pack(f"<{len(code)}I", *code)


EXIT_7 = words(
    0x52800300,  # mov w0, #0x18 (SYS_EXIT)
    0x10000041,  # adr x1, . + 8
    0xD45E0000,  # hlt #0xf000
) + struct.pack("<QQ", 0x20026, 7)

LOOP = words(0x14000000)  # b .

SLEEP = words(
    0xD503201F,  # nop
    0xD503207F,  # wfi
)

NEWLINES = words(
    0x52800060,  # 0: mov w0, #3 (SYS_WRITEC)
    0x10000061,  #    adr x1, . + 12
    0xD45E0000,  #    hlt #0xf000
    0x17FFFFFD,  #    b 0b
    0x0000000A,
)

ECHO = words(
    0x528000E0,  # 0: mov w0, #7 (SYS_READC)
    0xD45E0000,  #    hlt #0xf000
    0x2A0003E9,  #    mov w9, w0
    0x10000121,  #    adr x1, . + 36
    0x39000020,  #    strb w0, [x1]
    0x52800060,  #    mov w0, #3 (SYS_WRITEC)
    0xD45E0000,  #    hlt #0xf000
    0x3100053F,  #    cmn w9, #1
    0x54FFFF01,  #    b.ne 0b
    0x52800300,  #    mov w0, #0x18 (SYS_EXIT)
    0x10000081,  #    adr x1, . + 16
    0xD45E0000,  #    hlt #0xf000
) + struct.pack("<QQQ", 0, 0x20026, 0)
"""Copies its input to its output, then 0xff for the end of it, and exits."""

COMMAND_LINE = words(
    0x528002A0,  # mov w0, #0x15 (SYS_GET_CMDLINE)
    0x10000161,  # adr x1, . + 44
    0x10000242,  # adr x2, . + 72
    0xF9000022,  # str x2, [x1]
    0xD45E0000,  # hlt #0xf000
    0x52800080,  # mov w0, #4 (SYS_WRITE0)
    0x100001C1,  # adr x1, . + 56
    0xD45E0000,  # hlt #0xf000
    0x52800300,  # mov w0, #0x18 (SYS_EXIT)
    0x100000E1,  # adr x1, . + 28
    0xD45E0000,  # hlt #0xf000
    0xD503201F,
) + struct.pack("<QQQQ64x", 0, 64, 0x20026, 0)

CRASH = words(
    0x10000400,  # _start: adr x0, . + 128
    0x9100001F,  #         mov sp, x0
    0xAA1F03FD,  #         mov x29, xzr
    0xAA1F03FE,  #         mov x30, xzr
    0x94000001,  #         bl main
    0xA9BF7BFD,  # main:   stp x29, x30, [sp, #-16]!
    0x910003FD,  #         mov x29, sp
    0x94000001,  #         bl leaf
    0xD2BBD5A1,  # leaf:   mov x1, #0xdead0000
    0xB9000420,  #         str w0, [x1, #4]
).ljust(128, b"\0")
CRASH_SYMBOLS = (
    Sym("_start", RAM, 0x14),
    Sym("main", RAM + 0x14, 0xC),
    Sym("leaf", RAM + 0x20, 8),
)

ACCESSES = (
    words(
        0xD518991F,  # 00: msr pmscr_el1, xzr
        0xD2800440,  # 04: mov x0, #0x22 (TS, E1SPE)
        0xD5189900,  # 08: msr pmscr_el1, x0
        0xD5389901,  # 0c: mrs x1, pmscr_el1
        0xD28004C0,  # 10: mov x0, #0x26 (bit 2 is RES0)
        0xD5189900,  # 14: msr pmscr_el1, x0
        0x10003F42,  # 18: adr x2, . + 0x7e8
        0xD518C002,  # 1c: msr vbar_el1, x2
        0xD40000A1,  # 20: svc #5
        0xD53C9903,  # 24: mrs x3, pmscr_el2
    ).ljust(0xA00, b"\0")
    + words(0xD69F03E0)  # eret, at the vector of synchronous exceptions from EL1h
)


def program(folder: Path, code: bytes, symbols: Sequence[Sym] = ()) -> str:
    """An ELF file that is executed from its first byte on; its path."""
    file = folder / "program.elf"
    load = Load(RAM, code, flags=_READ_WRITE_EXECUTE)
    file.write_bytes(Elf([load], symbols=list(symbols)).build())
    return str(file)


EXIT_WITH_LEVEL = words(
    0x100000E1,  # adr x1, . + 28
    0xD5384242,  # mrs x2, CurrentEL
    0xD342FC42,  # lsr x2, x2, #2
    0xF9000422,  # str x2, [x1, #8]
    0x52800300,  # mov w0, #0x18 (SYS_EXIT)
    0xD45E0000,  # hlt #0xf000
    0xD503201F,
) + struct.pack("<QQ", 0x20026, 0)


def printing(text: str, status: int | None = 0) -> bytes:
    """Code that prints a text and exits with a status, or for None goes on for ever."""
    ending = (
        LOOP
        if status is None
        else words(
            0x52800300,  # mov w0, #0x18 (SYS_EXIT)
            0x10000081,  # adr x1, . + 16
            0xD45E0000,  # hlt #0xf000
        )
    )
    head = words(
        0x52800080,  # mov w0, #4 (SYS_WRITE0)
        0x10000161,  # adr x1, . + 44
        0xD45E0000,  # hlt #0xf000
    )
    block = struct.pack("<QQ", 0x20026, status or 0)
    return (head + ending).ljust(32, b"\0") + block + text.encode() + b"\0"
