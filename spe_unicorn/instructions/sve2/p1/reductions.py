"""Reductions of FEAT_SVE2p1: of the elements at one place of each quadword, to one quadword."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Table, array_at, int64, pointer_to, routine
from spe_unicorn.instructions.floats import (
    added,
    default_nan,
    extreme,
    infinity,
    rounding_mode,
)
from spe_unicorn.instructions.lanes import (
    active,
    clear_above,
    copy,
    ones,
    put,
    sign_extended,
    unsigned,
)
from spe_unicorn.instructions.registers import (
    PREDICATE_WORDS,
    PREDICATES,
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.floating import exponent_bits
from spe_unicorn.instructions.sve2.numbers import less_unsigned

_NEEDS, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE2P1, Unit.SVE2P1_REDUCTIONS
INTEGERS, FLOATS = 1, 2
"""Forms."""
ADD, OR, EXCLUSIVE_OR, AND, SIGNED_MOST, UNSIGNED_MOST, SIGNED_LEAST, UNSIGNED_LEAST = range(8)
"""Kinds of INTEGERS."""
FLOAT_ADD, FLOAT_MOST, FLOAT_LEAST, NUMBER_MOST, NUMBER_LEAST = range(5)
"""Kinds of FLOATS."""
_N, _SEGMENTS = 0, 1
"""Scratch rows: the operand, and the elements of one place."""
_QUADWORD: Final = 128


def _of_integers(name: str, code: int, kind: int) -> Row:
    """``code`` is bits 20:16."""
    return row(name, f"0000 0100 ss0 {code:05b} 001g ggnn nnnd dddd", _NEEDS, _UNIT, INTEGERS, kind)


def _of_floats(name: str, code: int, kind: int) -> Row:
    """``code`` is bits 18:16."""
    pattern = f"0110 0100 tt01 0{code:03b} 101g ggnn nnnd dddd"
    return row(name, pattern, _NEEDS, _UNIT, FLOATS, kind, Uses.FP)


ROWS: Final[tuple[Row, ...]] = (
    _of_integers("ADDQV", 0b00101, ADD),
    _of_integers("SMAXQV", 0b01100, SIGNED_MOST),
    _of_integers("UMAXQV", 0b01101, UNSIGNED_MOST),
    _of_integers("SMINQV", 0b01110, SIGNED_LEAST),
    _of_integers("UMINQV", 0b01111, UNSIGNED_LEAST),
    _of_integers("ORQV", 0b11100, OR),
    _of_integers("EORQV", 0b11101, EXCLUSIVE_OR),
    _of_integers("ANDQV", 0b11110, AND),
    _of_floats("FADDQV", 0, FLOAT_ADD),
    _of_floats("FMAXNMQV", 4, NUMBER_MOST),
    _of_floats("FMINNMQV", 5, NUMBER_LEAST),
    _of_floats("FMAXQV", 6, FLOAT_MOST),
    _of_floats("FMINQV", 7, FLOAT_LEAST),
)


@routine
def _of_two(kind: int, a: int, b: int, size: int) -> int:
    """What an operation makes of two elements, given as unsigned ones."""
    if kind == ADD:
        return a + b
    if kind == OR:
        return a | b
    if kind == EXCLUSIVE_OR:
        return a ^ b
    if kind == AND:
        return a & b
    if kind in (SIGNED_MOST, SIGNED_LEAST):
        less = sign_extended(a, size) < sign_extended(b, size)
    else:
        less = less_unsigned(a, b)
    if kind in (SIGNED_MOST, UNSIGNED_MOST):
        return b if less else a
    return a if less else b


@routine
def _identity(kind: int, size: int) -> int:
    """What stands for an element that is not active."""
    if kind in (AND, UNSIGNED_LEAST):
        return ones(size)
    if kind == SIGNED_MOST:
        return int64(1) << size - 1
    return ones(size - 1) if kind == SIGNED_LEAST else int64(0)


@routine
def _float_identity(kind: int, e_bits: int, f_bits: int) -> int:
    """What stands for an element that is not active."""
    if kind == FLOAT_ADD:
        return int64(0)
    if kind in (NUMBER_MOST, NUMBER_LEAST):
        return default_nan(e_bits, f_bits)
    return infinity(1 if kind == FLOAT_MOST else 0, e_bits, f_bits)


@routine
def _reduced(r: RegistersRecord, t: Table, kind: int, segments: int, size: int) -> int:
    """FPReduce() of the elements in a scratch row: of both halves, each reduced before.

    Elements of halves that are not there, where ``segments`` is no power of two, are identities.
    """
    e_bits = exponent_bits(size)
    f_bits = size - 1 - e_bits
    while segments & segments - 1:
        put(t, _SEGMENTS, segments, size, _float_identity(kind, e_bits, f_bits))
        segments += 1
    while segments > 1:
        segments >>= 1
        # neighbours first, as halves are reduced before they are combined
        for s in range(segments):
            a = unsigned(t, _SEGMENTS, 2 * s, size)
            b = unsigned(t, _SEGMENTS, 2 * s + 1, size)
            if kind == FLOAT_ADD:
                value = added(r, a, b, e_bits, f_bits, r.fpcr, rounding_mode(r.fpcr))
            else:
                least = 1 if kind in (FLOAT_LEAST, NUMBER_LEAST) else 0
                number = 1 if kind in (NUMBER_MOST, NUMBER_LEAST) else 0
                value = extreme(r, a, b, e_bits, f_bits, r.fpcr, least, number)
            put(t, _SEGMENTS, s, size, value)
    return unsigned(t, _SEGMENTS, 0, size)


@routine
def carry_reductions(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, g, size = word & 31, word >> 10 & 7, int64(8) << (word >> 22 & 3)
    each, segments = _QUADWORD // size, r.bytes >> 4
    copy(t, _N, z, word >> 5 & 31, r.bytes)
    clear_above(z, d, 16, r.bytes)
    for e in range(each):
        total = _identity(kind, size)
        if form == FLOATS:
            identity = _float_identity(kind, exponent_bits(size), size - 1 - exponent_bits(size))
        for s in range(segments):
            at = s * each + e
            there = active(p, g, at, size)
            if form == FLOATS:
                value = unsigned(t, _N, at, size) if there else identity
                put(t, _SEGMENTS, s, size, value)
            elif there:
                total = _of_two(kind, total, unsigned(t, _N, at, size), size)
        if form == FLOATS:
            total = _reduced(r, t, kind, segments, size)
        put(z, d, e, size, total)
