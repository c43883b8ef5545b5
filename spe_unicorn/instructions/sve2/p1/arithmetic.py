"""Arithmetic of FEAT_SVE2p1: clamping, dot products of pairs, and narrowing of two vectors.

BFMLSLB and BFMLSLT are with their like, in ``bf16``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.floats import (
    DOWN,
    INFINITE,
    IOC,
    QUIET,
    SIGNALLING,
    ZERO,
    added,
    converted_nan,
    default_nan,
    extreme,
    infinity,
    product,
    rounded,
    rounding_mode,
    summed,
    unpack,
    zero,
)
from spe_unicorn.instructions.lanes import copy, put, taken, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.floating import exponent_bits
from spe_unicorn.instructions.sve2.numbers import (
    less_unsigned,
    saturated_signed,
    saturated_unsigned,
    shifted_right,
)

_NEEDS, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE2P1, Unit.SVE2P1_ARITHMETIC
CLAMP, FLOAT_CLAMP, DOT, DOT_BY_ELEMENT, FLOAT_DOT, FLOAT_DOT_BY_ELEMENT, NARROW, NARROW_SHIFT = (
    range(1, 9)
)
"""Forms."""
SIGNED, UNSIGNED_RESULT = 1, 2
"""Bits of a kind: elements are signed, and what signed ones are saturated to is not."""
_N, _M, _A = 0, 1, 2
"""Scratch rows; where two vectors are narrowed, the first two are these."""
_HALF: Final = 16


def _signs(name: str, pattern: str, form: int) -> tuple[Row, ...]:
    """Signed and unsigned; ``u`` in the pattern is 1 for the second one."""
    return tuple(
        row(f"{sign}{name}", pattern.replace("u", bit), _NEEDS, _UNIT, form, kind)
        for sign, bit, kind in (("S", "0", SIGNED), ("U", "1", 0))
    )


def _narrow(name: str, pattern: str, form: int, kind: int) -> Row:
    return row(name, f"0100 0101 {pattern}nn nn0d dddd", _NEEDS, _UNIT, form, kind)


ROWS: Final[tuple[Row, ...]] = (
    *_signs("CLAMP", "0100 0100 ss0m mmmm 1100 0unn nnnd dddd", CLAMP),
    *_signs("DOT (2-way, vectors)", "0100 0100 000m mmmm 1100 1unn nnnd dddd", DOT),
    *_signs("DOT (2-way, indexed)", "0100 0100 100i immm 1100 1unn nnnd dddd", DOT_BY_ELEMENT),
    row("FCLAMP", "0110 0100 tt1m mmmm 0010 01nn nnnd dddd", _NEEDS, _UNIT, FLOAT_CLAMP, 0,
        Uses.FP),
    row("FDOT (2-way, vectors)", "0110 0100 001m mmmm 1000 00nn nnnd dddd", _NEEDS, _UNIT,
        FLOAT_DOT, 0, Uses.FP),
    row("FDOT (2-way, indexed)", "0110 0100 001i immm 0100 00nn nnnd dddd", _NEEDS, _UNIT,
        FLOAT_DOT_BY_ELEMENT, 0, Uses.FP),
    _narrow("SQCVTN", "0011 0001 0100 00", NARROW, SIGNED),
    _narrow("UQCVTN", "0011 0001 0100 10", NARROW, 0),
    _narrow("SQCVTUN", "0011 0001 0101 00", NARROW, SIGNED | UNSIGNED_RESULT),
    _narrow("SQRSHRN", "1011 iiii 0010 10", NARROW_SHIFT, SIGNED),
    _narrow("UQRSHRN", "1011 iiii 0011 10", NARROW_SHIFT, 0),
    _narrow("SQRSHRUN", "1011 iiii 0000 10", NARROW_SHIFT, SIGNED | UNSIGNED_RESULT),
)  # fmt: skip


@routine
def _clamped(value: int, least: int, most: int, kind: int) -> int:
    """Min(Max(value, least), most)."""
    if kind & SIGNED:
        return min(max(value, least), most)
    value = least if less_unsigned(value, least) else value
    return most if less_unsigned(most, value) else value


@routine
def _dotted_nan(
    r: RegistersRecord, a0: int, a1: int, b0: int, b1: int, fpcr: int, signalling: int
) -> int:
    """FPProcessNaNs4(): the first signalling NaN, or the first quiet one, in single precision.

    -1 if there is none such.
    """
    for n in range(4):
        value = a0 if n == 0 else (a1 if n == 1 else (b0 if n == 2 else b1))
        kind, _sign, _exponent, _significand = unpack(r, value, 5, 10, fpcr)
        if kind == (SIGNALLING if signalling else QUIET):
            return converted_nan(r, value, kind, 5, 10, 8, 23, fpcr)
    return int64(-1)


@routine
def dotted(r: RegistersRecord, a0: int, a1: int, b0: int, b1: int, fpcr: int) -> int:
    """FPDot(): ``a0 * b0 + a1 * b1`` of half-precision numbers, rounded once to a single one."""
    for signalling in (1, 0):
        nan = _dotted_nan(r, a0, a1, b0, b1, fpcr, signalling)
        if nan >= 0:
            return nan
    kind_a0, sign_a0, exponent_a0, significand_a0 = unpack(r, a0, 5, 10, fpcr)
    kind_a1, sign_a1, exponent_a1, significand_a1 = unpack(r, a1, 5, 10, fpcr)
    kind_b0, sign_b0, exponent_b0, significand_b0 = unpack(r, b0, 5, 10, fpcr)
    kind_b1, sign_b1, exponent_b1, significand_b1 = unpack(r, b1, 5, 10, fpcr)
    sign_0, sign_1 = sign_a0 ^ sign_b0, sign_a1 ^ sign_b1
    infinite_0 = kind_a0 == INFINITE or kind_b0 == INFINITE
    infinite_1 = kind_a1 == INFINITE or kind_b1 == INFINITE
    zero_0, zero_1 = kind_a0 == ZERO or kind_b0 == ZERO, kind_a1 == ZERO or kind_b1 == ZERO
    invalid = (infinite_0 and zero_0) or (infinite_1 and zero_1)
    if invalid or (infinite_0 and infinite_1 and sign_0 != sign_1):
        r.fpsr |= IOC
        return default_nan(8, 23)
    if infinite_0 or infinite_1:
        return infinity(sign_0 if infinite_0 else sign_1, 8, 23)
    mode = rounding_mode(fpcr)
    nothing = 1 if mode == DOWN else 0
    if zero_0 and zero_1:
        return zero(sign_0 if sign_0 == sign_1 else nothing, 8, 23)
    exponent_0, total_0 = product(exponent_a0, significand_a0, exponent_b0, significand_b0)
    exponent_1, total_1 = product(exponent_a1, significand_a1, exponent_b1, significand_b1)
    if zero_1:
        return rounded(r, sign_0, exponent_0, total_0, 8, 23, fpcr, mode)
    if zero_0:
        return rounded(r, sign_1, exponent_1, total_1, 8, 23, fpcr, mode)
    sign, exponent, total = summed(sign_0, exponent_0, total_0, sign_1, exponent_1, total_1)
    if total == 0:
        return zero(nothing, 8, 23)
    return rounded(r, sign, exponent, total, 8, 23, fpcr, mode)


@routine
def _narrowed(value: int, kind: int, shift: int) -> int:
    """A rounded number of 32 bits, saturated to 16."""
    if shift:
        value = shifted_right(value, shift, kind & SIGNED, 1)
    if kind == SIGNED:
        return saturated_signed(value, _HALF)
    return saturated_unsigned(value, _HALF)


@routine
def carry_arithmetic(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    size, index, shift = int64(32), int64(-1), int64(0)
    is_signed = kind & SIGNED
    if form in (CLAMP, FLOAT_CLAMP):
        size = int64(8) << (word >> 22 & 3)
    elif form in (DOT_BY_ELEMENT, FLOAT_DOT_BY_ELEMENT):
        m, index = word >> 16 & 7, int64(word >> 19 & 3)
    elif form in (NARROW, NARROW_SHIFT):
        m = n + 1
        shift = int64(0) if form == NARROW else 16 - (word >> 16 & 15)
    copy(t, _N, z, n, r.bytes)
    copy(t, _M, z, m, r.bytes)
    copy(t, _A, z, d, r.bytes)
    e_bits = exponent_bits(size)
    f_bits = size - 1 - e_bits
    for e in range((r.bytes << 3) // size):
        a, b, total = taken(t, _N, e, size, is_signed), taken(t, _M, e, size, is_signed), int64(0)
        if form not in (NARROW, NARROW_SHIFT):
            total = taken(t, _A, e, size, is_signed)
        if form == CLAMP:
            put(z, d, e, size, _clamped(total, a, b, kind))
        elif form == FLOAT_CLAMP:
            most = extreme(r, a, total, e_bits, f_bits, r.fpcr, 0, 1)
            put(z, d, e, size, extreme(r, most, b, e_bits, f_bits, r.fpcr, 1, 1))
        elif form in (DOT, DOT_BY_ELEMENT):
            other = e if index < 0 else e & -4 | index
            for i in range(2):
                one = taken(t, _N, 2 * e + i, _HALF, is_signed)
                total += one * taken(t, _M, 2 * other + i, _HALF, is_signed)
            put(z, d, e, size, total)
        elif form in (FLOAT_DOT, FLOAT_DOT_BY_ELEMENT):
            other = e if index < 0 else e & -4 | index
            a0, a1 = unsigned(t, _N, 2 * e, _HALF), unsigned(t, _N, 2 * e + 1, _HALF)
            b0, b1 = unsigned(t, _M, 2 * other, _HALF), unsigned(t, _M, 2 * other + 1, _HALF)
            both = dotted(r, a0, a1, b0, b1, r.fpcr)
            mode = rounding_mode(r.fpcr)
            put(z, d, e, size, added(r, total, both, 8, 23, r.fpcr, mode))
        else:
            put(z, d, 2 * e, _HALF, _narrowed(a, kind, shift))
            put(z, d, 2 * e + 1, _HALF, _narrowed(b, kind, shift))
