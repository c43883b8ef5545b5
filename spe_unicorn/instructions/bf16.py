"""FEAT_BF16: BFloat16, Advanced SIMD and SVE; and BFMLSLB and BFMLSLT of FEAT_SVE2p1."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine
from spe_unicorn.instructions.floats import (
    DN,
    FINITE,
    FZ,
    INFINITE,
    IOC,
    QUIET,
    SIGNALLING,
    TO_ODD_INFINITE,
    ZERO,
    added,
    default_nan,
    infinity,
    multiplied_and_added,
    product,
    rounded,
    rounding_mode,
    unpack,
    zero,
)
from spe_unicorn.instructions.lanes import active, clear_above, copy, put, unsigned
from spe_unicorn.instructions.registers import (
    PREDICATE_WORDS,
    PREDICATES,
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Unit, Uses, row

CONVERT_ONE, CONVERT_LOW, CONVERT_HIGH, CONVERT, CONVERT_TOP = 1, 2, 3, 4, 5
DOT, DOT_BY_ELEMENT, MATRIX, LONG, LONG_BY_ELEMENT = 6, 7, 8, 9, 10
"""Forms."""
TOP, SUBTRACT, SCALABLE = 1, 2, 4
"""Bits of a kind: whether it takes odd elements, whether products are subtracted, and whether
vectors are those of SVE."""
_N, _M = 0, 1
"""Scratch rows."""
_SIMD, _SVE, _UNIT, _FP = Needs.BF16, Needs.BF16 | Needs.SVE, Unit.BF16, Uses.FP
_SVE2P1: Final = Needs.SVE | Needs.SVE2 | Needs.SVE2P1
_OWN: Final = DN | FZ
"""FPCR of BFDotAdd(): what software has chosen does not matter, and FPSR stays as it is."""

ROWS: Final = (
    row("BFCVT", "0001 1110 0110 0011 0100 00nn nnnd dddd", _SIMD, _UNIT, CONVERT_ONE, 0, _FP),
    row("BFCVTN", "0000 1110 1010 0001 0110 10nn nnnd dddd", _SIMD, _UNIT, CONVERT_LOW, 0, _FP),
    row("BFCVTN2", "0100 1110 1010 0001 0110 10nn nnnd dddd", _SIMD, _UNIT, CONVERT_HIGH, 0, _FP),
    row("BFDOT (vector)", "0q10 1110 010m mmmm 1111 11nn nnnd dddd", _SIMD, _UNIT, DOT),
    row("BFDOT (by element)", "0q00 1111 01lm mmmm 1111 h0nn nnnd dddd", _SIMD, _UNIT,
        DOT_BY_ELEMENT),
    row("BFMMLA", "0110 1110 010m mmmm 1110 11nn nnnd dddd", _SIMD, _UNIT, MATRIX),
    row("BFMLALB (vector)", "0010 1110 110m mmmm 1111 11nn nnnd dddd", _SIMD, _UNIT, LONG, 0, _FP),
    row("BFMLALT (vector)", "0110 1110 110m mmmm 1111 11nn nnnd dddd", _SIMD, _UNIT, LONG, TOP,
        _FP),
    row("BFMLALB (by element)", "0000 1111 11lm mmmm 1111 h0nn nnnd dddd", _SIMD, _UNIT,
        LONG_BY_ELEMENT, 0, _FP),
    row("BFMLALT (by element)", "0100 1111 11lm mmmm 1111 h0nn nnnd dddd", _SIMD, _UNIT,
        LONG_BY_ELEMENT, TOP, _FP),
    row("BFCVT (SVE)", "0110 0101 1000 1010 101g ggnn nnnd dddd", _SVE, _UNIT, CONVERT, SCALABLE,
        _FP),
    row("BFCVTNT", "0110 0100 1000 1010 101g ggnn nnnd dddd", _SVE, _UNIT, CONVERT_TOP, SCALABLE,
        _FP),
    row("BFDOT (vectors, SVE)", "0110 0100 011m mmmm 1000 00nn nnnd dddd", _SVE, _UNIT, DOT,
        SCALABLE),
    row("BFDOT (indexed, SVE)", "0110 0100 011i immm 0100 00nn nnnd dddd", _SVE, _UNIT,
        DOT_BY_ELEMENT, SCALABLE),
    row("BFMMLA (SVE)", "0110 0100 011m mmmm 1110 01nn nnnd dddd", _SVE, _UNIT, MATRIX, SCALABLE),
    row("BFMLALB (vectors, SVE)", "0110 0100 111m mmmm 1000 00nn nnnd dddd", _SVE, _UNIT, LONG,
        SCALABLE, _FP),
    row("BFMLALT (vectors, SVE)", "0110 0100 111m mmmm 1000 01nn nnnd dddd", _SVE, _UNIT, LONG,
        TOP | SCALABLE, _FP),
    row("BFMLALB (indexed, SVE)", "0110 0100 111i immm 0100 i0nn nnnd dddd", _SVE, _UNIT,
        LONG_BY_ELEMENT, SCALABLE, _FP),
    row("BFMLALT (indexed, SVE)", "0110 0100 111i immm 0100 i1nn nnnd dddd", _SVE, _UNIT,
        LONG_BY_ELEMENT, TOP | SCALABLE, _FP),
    row("BFMLSLB (vectors, SVE)", "0110 0100 111m mmmm 1010 00nn nnnd dddd", _SVE2P1, _UNIT, LONG,
        SUBTRACT | SCALABLE, _FP),
    row("BFMLSLT (vectors, SVE)", "0110 0100 111m mmmm 1010 01nn nnnd dddd", _SVE2P1, _UNIT, LONG,
        TOP | SUBTRACT | SCALABLE, _FP),
    row("BFMLSLB (indexed, SVE)", "0110 0100 111i immm 0110 i0nn nnnd dddd", _SVE2P1, _UNIT,
        LONG_BY_ELEMENT, SUBTRACT | SCALABLE, _FP),
    row("BFMLSLT (indexed, SVE)", "0110 0100 111i immm 0110 i1nn nnnd dddd", _SVE2P1, _UNIT,
        LONG_BY_ELEMENT, TOP | SUBTRACT | SCALABLE, _FP),
)  # fmt: skip


@routine
def converted(r: RegistersRecord, value: int, fpcr: int) -> int:
    """FPConvertBF(): a number of single precision as a BFloat16."""
    kind, sign, exponent, significand = unpack(r, value, 8, 23, fpcr)
    if kind >= QUIET:
        if kind == SIGNALLING:
            r.fpsr |= IOC
        if fpcr & DN:
            return default_nan(8, 7)
        return sign << 15 | 0x7FC0 | value >> 16 & 0x3F
    if kind == INFINITE:
        return infinity(sign, 8, 7)
    if kind == ZERO:
        return zero(sign, 8, 7)
    return rounded(r, sign, exponent, significand, 8, 7, fpcr, rounding_mode(fpcr))


@routine
def _multiplied(r: RegistersRecord, a: int, b: int) -> int:
    """BFMulH(): a number of single precision."""
    kind_a, sign_a, exponent_a, significand_a = unpack(r, a, 8, 7, _OWN)
    kind_b, sign_b, exponent_b, significand_b = unpack(r, b, 8, 7, _OWN)
    sign = sign_a ^ sign_b
    if kind_a == FINITE and kind_b == FINITE:
        exponent, significand = product(exponent_a, significand_a, exponent_b, significand_b)
        return rounded(r, sign, exponent, significand, 8, 23, _OWN, TO_ODD_INFINITE)
    nan = kind_a >= QUIET or kind_b >= QUIET
    infinite = kind_a == INFINITE or kind_b == INFINITE
    if nan or (infinite and (kind_a == ZERO or kind_b == ZERO)):
        return default_nan(8, 23)
    return infinity(sign, 8, 23) if infinite else zero(sign, 8, 23)


@routine
def dotted(r: RegistersRecord, addend: int, a0: int, a1: int, b0: int, b1: int) -> int:
    """BFDotAdd(): ``addend + (a0 * b0 + a1 * b1)``, rounded to odd after each operation."""
    fpsr = r.fpsr
    both = added(r, _multiplied(r, a0, b0), _multiplied(r, a1, b1), 8, 23, _OWN, TO_ODD_INFINITE)
    result = added(r, addend, both, 8, 23, _OWN, TO_ODD_INFINITE)
    r.fpsr = fpsr
    return result


@routine
def carry_bf16(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction of FEAT_BF16."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    fpcr = r.fpcr
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    simd = kind & SCALABLE == 0
    size = r.bytes
    if simd:
        size = 8 << (word >> 30 & 1) if form in (DOT, DOT_BY_ELEMENT) else 16
    index = -1
    if form == DOT_BY_ELEMENT:
        if simd:
            index = word >> 10 & 2 | word >> 21 & 1
        else:
            m, index = word >> 16 & 7, word >> 19 & 3
    elif form == LONG_BY_ELEMENT:
        if simd:
            m, index = word >> 16 & 15, word >> 9 & 4 | word >> 20 & 3
        else:
            m, index = word >> 16 & 7, word >> 18 & 6 | word >> 11 & 1
    copy(t, _N, z, n, max(size, 16))
    copy(t, _M, z, m, max(size, 16))
    if form == CONVERT_ONE:
        z[d, 0] = converted(r, unsigned(t, _N, 0, 32), fpcr)
        clear_above(z, d, 8, r.bytes)
    elif form in (CONVERT_LOW, CONVERT_HIGH):
        for e in range(4):
            place = e if form == CONVERT_LOW else e + 4
            put(z, d, place, 16, converted(r, unsigned(t, _N, e, 32), fpcr))
        clear_above(z, d, 8 if form == CONVERT_LOW else 16, r.bytes)
    elif form in (CONVERT, CONVERT_TOP):
        g = word >> 10 & 7
        for e in range(size >> 2):
            if active(p, g, e, 32):
                result = converted(r, unsigned(t, _N, e, 32), fpcr)
                if form == CONVERT:
                    put(z, d, e, 32, result)
                else:
                    put(z, d, 2 * e + 1, 16, result)
    elif form in (DOT, DOT_BY_ELEMENT):
        for e in range(size >> 2):
            other = 2 * e if index < 0 else 2 * (e & -4 | index)
            a0, a1 = unsigned(t, _N, 2 * e, 16), unsigned(t, _N, 2 * e + 1, 16)
            b0, b1 = unsigned(t, _M, other, 16), unsigned(t, _M, other + 1, 16)
            put(z, d, e, 32, dotted(r, unsigned(z, d, e, 32), a0, a1, b0, b1))
    elif form == MATRIX:
        for e in range(size >> 2):
            first, second = 8 * (e >> 2) + 4 * (e >> 1 & 1), 8 * (e >> 2) + 4 * (e & 1)
            total = unsigned(z, d, e, 32)
            for k in range(0, 4, 2):
                a0, a1 = unsigned(t, _N, first + k, 16), unsigned(t, _N, first + k + 1, 16)
                b0, b1 = unsigned(t, _M, second + k, 16), unsigned(t, _M, second + k + 1, 16)
                total = dotted(r, total, a0, a1, b0, b1)
            put(z, d, e, 32, total)
    else:
        for e in range(size >> 2):
            other = 2 * e + (kind & TOP) if index < 0 else 2 * (e & -4) | index
            a = unsigned(t, _N, 2 * e + (kind & TOP), 16)
            b = unsigned(t, _M, other, 16)
            if kind & SUBTRACT:
                a ^= 1 << 15
            put(z, d, e, 32, multiplied_and_added(
                r, unsigned(z, d, e, 32), a << 16, b << 16, 8, 23, fpcr
            ))  # fmt: skip
    if simd and form >= DOT:
        clear_above(z, d, size, r.bytes)
