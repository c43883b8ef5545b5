"""Runs a guest that uses much of something, as ``growth`` asks.

    python growth_guest.py KIND SIZE FACTOR

The guests are a few instructions, written here, as no assembler is needed to measure. Exit status
0 if the guest has done all of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import spe_unicorn
from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, Segment
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.symbols.table import SymbolTable

PAGE = 0x1000
DATA = RAM_BASE + (2 << 20)
LOOP = 4_000_000
"""Turns of each PE's loop."""
CPU_ON, SYSTEM_OFF = 0xC400_0003, 0x8400_0008
HVC = 0xD400_0002
ADD_2_1 = 0x9100_0442
"""ADD X2, X2, #1; X13 counts turns down."""
SUB_13_1 = 0xD100_05AD


def move(register: int, value: int) -> list[int]:
    """MOVZ and MOVK of 64 bits."""
    return [
        (0xF280_0000 if n else 0xD280_0000) | n << 21 | (value >> 16 * n & 0xFFFF) << 5 | register
        for n in range(4)
    ]


def cbnz(register: int, words: int) -> int:
    """CBNZ to so many words on."""
    return 0xB500_0000 | (words & (1 << 19) - 1) << 5 | register


_START = 4 * (3 * 4 + 1)
"""Bytes of a call that turns a PE on."""
OFF = [*move(0, SYSTEM_OFF), HVC]


def pes(number: int, factor: int) -> list[int]:
    """So many PEs, each with a loop of nine operations; the first one turns the machine off."""
    loop = [*move(13, LOOP * factor), *[ADD_2_1] * 7, SUB_13_1, cbnz(13, -8), *OFF]
    begin = RAM_BASE + _START * (number - 1)
    start: list[int] = []
    for pe in range(1, number):
        start += [*move(0, CPU_ON), *move(1, pe), *move(2, begin), HVC]
    return [*start, *loop]


def ram(mebibytes: int, _: int) -> list[int]:
    """A store to each page."""
    pages = mebibytes << 20 >> 12
    store = [0xF900_0021, 0x9140_0421, SUB_13_1, cbnz(13, -3)]
    """STR X1, [X1]; ADD X1, X1, #0x1000"""
    return [*move(1, DATA), *move(13, pages), *store, *OFF]


def blocks(number: int, _: int) -> list[int]:
    """Blocks of an addition and a branch to the next word, twice."""
    loop = [ADD_2_1, 0x1400_0001] * number
    back = [SUB_13_1, 0xB400_0040 | 13, 0x1400_0000 | -(len(loop) + 2) & 0x3FF_FFFF]
    """CBZ past the branch back, as one to the loop's begin reaches farther."""
    return [*move(13, 2), *loop, *back, *OFF]


KINDS = {"pes": pes, "ram": ram, "blocks": blocks}


def run(name: str, size: int, factor: int) -> spe_unicorn.Outcome:
    """What a guest comes to."""
    words = KINDS[name](size, factor)
    data = b"".join(word.to_bytes(4, "little") for word in words)
    segment = Segment(RAM_BASE, data, len(data), RAM_BASE, READ | WRITE | EXECUTE, 0)
    image = Image(Path(name), RAM_BASE, (segment,), SymbolTable())
    room = (size << 20 if name == "ram" else len(data) & -PAGE) + (16 << 20)
    smp = size if name == "pes" else 1
    return spe_unicorn.Machine(image, ram=room, smp=smp, records=False).run()


if __name__ == "__main__":
    status = run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).exit_status
    sys.exit(0 if status == 0 else 1)
