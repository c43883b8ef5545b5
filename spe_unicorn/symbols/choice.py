"""Which ELF file a user names, and where it is."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class SymbolChoice:
    """An ELF file, and the address of its lowest byte in memory: None for where it belongs."""

    path: str
    address: int | None = None


def symbol_choice(text: str) -> SymbolChoice:
    """``FILE[@ADDRESS]``. Raises ValueError for an address that is none."""
    path, at, address = text.rpartition("@")
    if not at or os.path.exists(text):
        return SymbolChoice(text)
    try:
        value = int(address, 0)
    except ValueError:
        raise ValueError(f"{text!r}: {address!r} is no address; write 0x80000") from None
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{text!r}: an address has 64 bits")
    return SymbolChoice(path, value)
