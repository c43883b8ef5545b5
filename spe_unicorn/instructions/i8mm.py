"""FEAT_I8MM: dot products and matrix products of 8-bit integers, Advanced SIMD and SVE."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine
from spe_unicorn.instructions.lanes import clear_above, copy, put, taken, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Unit, row

MATRIX, DOT, DOT_BY_ELEMENT = 1, 2, 3
"""Forms."""
SIGNED_N, SIGNED_M, SCALABLE = 1, 2, 4
"""Bits of a kind: which operands are signed, and whether vectors are those of SVE."""
_N, _M = 0, 1
"""Scratch rows."""
_SIMD, _SVE, _UNIT = Needs.I8MM, Needs.I8MM | Needs.SVE, Unit.I8MM
_BOTH: Final = SIGNED_N | SIGNED_M

ROWS: Final = (
    row("SMMLA (vector)", "0100 1110 100m mmmm 1010 01nn nnnd dddd", _SIMD, _UNIT, MATRIX, _BOTH),
    row("UMMLA (vector)", "0110 1110 100m mmmm 1010 01nn nnnd dddd", _SIMD, _UNIT, MATRIX),
    row("USMMLA (vector)", "0100 1110 100m mmmm 1010 11nn nnnd dddd", _SIMD, _UNIT, MATRIX,
        SIGNED_M),
    row("USDOT (vector)", "0q00 1110 100m mmmm 1001 11nn nnnd dddd", _SIMD, _UNIT, DOT, SIGNED_M),
    row("USDOT (by element)", "0q00 1111 10lm mmmm 1111 h0nn nnnd dddd", _SIMD, _UNIT,
        DOT_BY_ELEMENT, SIGNED_M),
    row("SUDOT (by element)", "0q00 1111 00lm mmmm 1111 h0nn nnnd dddd", _SIMD, _UNIT,
        DOT_BY_ELEMENT, SIGNED_N),
    row("SMMLA (SVE)", "0100 0101 000m mmmm 1001 10nn nnnd dddd", _SVE, _UNIT, MATRIX,
        _BOTH | SCALABLE),
    row("USMMLA (SVE)", "0100 0101 100m mmmm 1001 10nn nnnd dddd", _SVE, _UNIT, MATRIX,
        SIGNED_M | SCALABLE),
    row("UMMLA (SVE)", "0100 0101 110m mmmm 1001 10nn nnnd dddd", _SVE, _UNIT, MATRIX, SCALABLE),
    row("USDOT (vectors, SVE)", "0100 0100 100m mmmm 0111 10nn nnnd dddd", _SVE, _UNIT, DOT,
        SIGNED_M | SCALABLE),
    row("USDOT (indexed, SVE)", "0100 0100 101i immm 0001 10nn nnnd dddd", _SVE, _UNIT,
        DOT_BY_ELEMENT, SIGNED_M | SCALABLE),
    row("SUDOT (indexed, SVE)", "0100 0100 101i immm 0001 11nn nnnd dddd", _SVE, _UNIT,
        DOT_BY_ELEMENT, SIGNED_N | SCALABLE),
)  # fmt: skip


@routine
def carry_i8mm(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction of FEAT_I8MM."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, n = word & 31, word >> 5 & 31
    m = word >> 16 & 31
    size = r.bytes
    if kind & SCALABLE == 0:
        size = 8 << (word >> 30 & 1)
    index = -1
    if form == DOT_BY_ELEMENT:
        if kind & SCALABLE:
            m, index = word >> 16 & 7, word >> 19 & 3
        else:
            index = word >> 10 & 2 | word >> 21 & 1
    copy(t, _N, z, n, size)
    copy(t, _M, z, m, 16 if index >= 0 and size < 16 else size)
    signed_n, signed_m = kind & SIGNED_N, kind & SIGNED_M
    if form == MATRIX:
        for e in range(size >> 2):
            total = unsigned(z, d, e, 32)
            # element e of a segment is row e<1> of the first matrix by row e<0> of the second
            first, second = 16 * (e >> 2) + 8 * (e >> 1 & 1), 16 * (e >> 2) + 8 * (e & 1)
            for k in range(8):
                total += taken(t, _N, first + k, 8, signed_n) * taken(
                    t, _M, second + k, 8, signed_m
                )
            put(z, d, e, 32, total)
    else:
        for e in range(size >> 2):
            total = unsigned(z, d, e, 32)
            other = 4 * e if index < 0 else 4 * (e & -4 | index)
            for k in range(4):
                total += taken(t, _N, 4 * e + k, 8, signed_n) * taken(t, _M, other + k, 8, signed_m)
            put(z, d, e, 32, total)
    if kind & SCALABLE == 0:
        clear_above(z, d, size, r.bytes)
