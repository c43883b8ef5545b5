"""A guest of a few instructions: it says that it is ready, reads a line, and tells a status."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.support import a64
from tests.support.small_programs import program

_UART, _FLAGS = 0x0900_0000, 0x18
_RX_EMPTY = 4


def _prints(text: bytes) -> list[int]:
    return [word for byte in text for word in (a64.movz(0, byte), a64.str_(0, 1, size=2))]


def _read_byte() -> list[int]:
    return [a64.ldr(0, 1, _FLAGS, size=2), a64.tbnz(0, _RX_EMPTY, -4), a64.ldr(0, 1, size=2)]


_END = _prints(b"\r\n")
_WAITS = [*a64.mov64(1, _UART), *_prints(b"=== ready\r\n")]
_TELLS = [
    *_prints(b"=== exit status "),
    # the last digit before the end of the line is the status: "run\0" "1\0" "3\0" is ...3300
    a64.movz(2, 0),
    a64.movz(3, 0),
    a64.movz(4, 0),
    *_read_byte(),
    a64.subs_imm(31, 0, 10),
    a64.b_cond(0, 20),
    a64.add_imm(4, 3, 0),
    a64.add_imm(3, 2, 0),
    a64.add_imm(2, 0, 0),
    a64.b(-32),
    a64.str_(4, 1, size=2),
    *_END,
    a64.movz(0, 0x18),
    a64.adr(1, 8),
    0xD45E0000,  # SYS_EXIT
]


def kernel(folder: Path, doing: Sequence[int] = ()) -> str:
    """The file of the guest; ``doing`` is code that it executes before it reads the line."""
    code = a64.code([*_WAITS, *doing, *_TELLS])
    return program(folder, code + struct.pack("<QQ", 0x20026, 0))
