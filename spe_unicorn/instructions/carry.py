"""Carrying out an instruction on registers in memory, in compiled code."""

from __future__ import annotations

from spe_unicorn.compiled import Pointer, entry, record_at
from spe_unicorn.instructions.bf16 import carry_bf16
from spe_unicorn.instructions.company import carry_company
from spe_unicorn.instructions.cssc import carry_cssc
from spe_unicorn.instructions.i8mm import carry_i8mm
from spe_unicorn.instructions.lookup import carry_lookup
from spe_unicorn.instructions.registers import REGISTERS
from spe_unicorn.instructions.rows import Unit
from spe_unicorn.instructions.sve2.aes import carry_aes
from spe_unicorn.instructions.sve2.floating import carry_floating
from spe_unicorn.instructions.sve2.lanewise import carry_lanewise
from spe_unicorn.instructions.sve2.matrix import carry_matrix
from spe_unicorn.instructions.sve2.p1.arithmetic import carry_arithmetic
from spe_unicorn.instructions.sve2.p1.predicates import carry_predicates
from spe_unicorn.instructions.sve2.p1.reductions import carry_reductions
from spe_unicorn.instructions.sve2.p1.segments import carry_segments
from spe_unicorn.instructions.sve2.quadwords import carry_quadwords
from spe_unicorn.instructions.sve2.selecting import carry_selecting
from spe_unicorn.instructions.sve2.sm4 import carry_sm4
from spe_unicorn.instructions.sve2.widening import carry_widening
from spe_unicorn.instructions.tags import carry_tags

_FLOATING, _AES = int(Unit.SVE2_FLOATING), int(Unit.SVE_AES)
_WIDENING, _SELECTING = int(Unit.SVE2_WIDENING), int(Unit.SVE2_SELECTING)
_I8MM, _BF16, _LANEWISE = int(Unit.I8MM), int(Unit.BF16), int(Unit.SVE2_LANEWISE)
_COMPANY, _SM4 = int(Unit.COMPANY), int(Unit.SVE_SM4)
_MATRIX, _CSSC, _TAGS = int(Unit.MATRIX), int(Unit.CSSC), int(Unit.TAGS)
_QUADWORDS, _LOOKUP = int(Unit.QUADWORDS), int(Unit.LOOKUP)
_PREDICATES, _REDUCTIONS = int(Unit.SVE2P1_PREDICATES), int(Unit.SVE2P1_REDUCTIONS)
_SEGMENTS, _ARITHMETIC = int(Unit.SVE2P1_SEGMENTS), int(Unit.SVE2P1_ARITHMETIC)


@entry("void", "pointer", "int64", "int64", "int64", "int64")
def carry_out(registers: Pointer, word: int, unit: int, form: int, kind: int) -> None:
    """Carry out ``word``, of whose row the rest is, on a ``RegistersRecord``."""
    r = record_at(registers, REGISTERS)
    if unit == _I8MM:
        carry_i8mm(r, word, form, kind)
    elif unit == _BF16:
        carry_bf16(r, word, form, kind)
    elif unit == _LANEWISE:
        carry_lanewise(r, word, form, kind)
    elif unit == _WIDENING:
        carry_widening(r, word, form, kind)
    elif unit == _SELECTING:
        carry_selecting(r, word, form, kind)
    elif unit == _FLOATING:
        carry_floating(r, word, form, kind)
    elif unit == _AES:
        carry_aes(r, word, form)
    elif unit == _COMPANY:
        carry_company(r, word, form)
    elif unit == _SM4:
        carry_sm4(r, word, form)
    elif unit == _MATRIX:
        carry_matrix(r, word, kind)
    elif unit == _QUADWORDS:
        carry_quadwords(r, word, form, kind)
    elif unit == _LOOKUP:
        carry_lookup(r, word, form, kind)
    elif unit == _PREDICATES:
        carry_predicates(r, word, form, kind)
    elif unit == _REDUCTIONS:
        carry_reductions(r, word, form, kind)
    elif unit == _SEGMENTS:
        carry_segments(r, word, form, kind)
    elif unit == _ARITHMETIC:
        carry_arithmetic(r, word, form, kind)
    elif unit == _CSSC:
        carry_cssc(r, word, form, kind)
    elif unit == _TAGS:
        carry_tags(r, word, form)
