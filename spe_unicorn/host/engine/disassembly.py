"""Instruction words as text."""

from __future__ import annotations

import struct


def disassemble(word: int, address: int) -> str:
    """The A64 instruction ``word`` at a virtual address, as assembly."""
    import capstone  # only a report needs it, and it takes a while to load

    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    for _, _, mnemonic, operands in engine.disasm_lite(struct.pack("<I", word), address, 1):
        return f"{mnemonic} {operands}".rstrip()
    return f".inst {word:#010x}"
