"""Carrying out an instruction on registers in memory, in compiled code."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import Pointer, entry, record_at
from spe_unicorn.instructions.bf16 import carry_bf16
from spe_unicorn.instructions.i8mm import carry_i8mm
from spe_unicorn.instructions.registers import REGISTERS
from spe_unicorn.instructions.rows import Unit

_I8MM: Final = int(Unit.I8MM)


@entry("void", "pointer", "int64", "int64", "int64", "int64")
def carry_out(registers: Pointer, word: int, unit: int, form: int, kind: int) -> None:
    """Carry out ``word``, of whose row the rest is, on a ``RegistersRecord``."""
    r = record_at(registers, REGISTERS)
    if unit == _I8MM:
        carry_i8mm(r, word, form, kind)
    else:
        carry_bf16(r, word, form, kind)
