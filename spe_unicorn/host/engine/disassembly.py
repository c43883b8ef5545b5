"""Instruction words as text."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import Final

_MRS: Final = 0xD520_0000
"""MRS X0 of the register whose encoding is 0."""
_FIRST: Final = 2 << 14
"""The first encoding of a System register, as ``Encoding.key`` has it."""


def disassemble(word: int, address: int) -> str:
    """The A64 instruction ``word`` at a virtual address, as assembly."""
    import capstone  # only a report needs it, and it takes a while to load

    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    for _, _, mnemonic, operands in engine.disasm_lite(struct.pack("<I", word), address, 1):
        return f"{mnemonic} {operands}".rstrip()
    return f".inst {word:#010x}"


@cache
def system_register_keys() -> Mapping[str, int]:
    """The encodings (``Encoding.key``) of all System registers that the disassembler names."""
    import capstone

    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    words = range(_FIRST, 1 << 16)
    code = b"".join(struct.pack("<I", _MRS | key << 5) for key in words)
    engine.skipdata = True
    names = {}
    for address, _, mnemonic, operands in engine.disasm_lite(code, 0):
        if mnemonic == "mrs":
            names[operands.rpartition(" ")[2].upper()] = _FIRST + address // 4
    return names
