"""Guests that know the UART."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.support import a64 as a

UART = 0x0900_0000
DR, FR, LCR_H, IMSC, RIS, MIS, ICR = 0x00, 0x18, 0x2C, 0x38, 0x3C, 0x40, 0x44
REGISTERS = (DR, FR, LCR_H, IMSC, RIS, MIS, ICR)
TXFE, RXFE = 1 << 7, 1 << 4
NE = 1
BUSY = [a.ldr(3, 1, FR, size=1), a.str_(2, 1, DR, size=1)]
"""As Linux prints a character: it looks for room, and sends."""


def random_accesses(source: random.Random) -> Iterator[int]:
    """Accesses of a guest that knows the UART, most of them such as compiled code answers."""
    for _ in range(60):
        kind = source.random()
        if kind < 0.6:
            yield a.movz(2, source.choice((*b"abcdef", 0x0A)))
            yield from BUSY
        elif kind < 0.8:
            offset = source.choice(REGISTERS)
            yield a.ldr(source.randrange(8, 29), 1, offset, size=2)
        else:
            yield a.movz(
                7, source.choice((0, 0x10, 0x20, 0x30, 0x50, 0x7FF, source.getrandbits(11)))
            )
            yield a.str_(7, 1, source.choice(REGISTERS), size=2)
            if source.random() < 0.5:
                yield a.ldr(7, 1, IMSC, size=source.choice((1, 2)))
                yield a.str_(7, 1, IMSC, size=source.choice((0, 1, 2)))
        if source.random() < 0.1:
            yield a.b(4)
