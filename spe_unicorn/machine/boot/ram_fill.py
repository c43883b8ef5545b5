"""What RAM holds before anything is loaded."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.host.engine.memory import Ram

_PIECE: Final = 1 << 20
"""Bytes that are made at once; random ones repeat after so many."""


def fill_ram(ram: Ram, fill: str, seed: int) -> None:
    """Fill RAM as the option ``ram_fill`` says; zeros are there anyway."""
    if fill == "zero":
        return
    size = min(_PIECE, ram.size)
    if fill == "random":
        piece = RandomSource(seed).stream("RAM").ahead(size // 8).tobytes()
    else:
        piece = bytes([int(fill, 16)]) * size
    for at in range(0, ram.size, size):
        ram.bytes[at : at + size] = piece[: ram.size - at]
