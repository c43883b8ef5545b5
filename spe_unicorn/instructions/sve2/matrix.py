"""FEAT_F32MM and FEAT_F64MM: products of matrices of single and double precision, for SVE."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.floats import (
    INFINITE,
    IOC,
    QUIET,
    ZERO,
    added,
    default_nan,
    infinity,
    nan_of_two,
    product,
    rounded,
    rounding_mode,
    unpack,
    zero,
)
from spe_unicorn.instructions.lanes import copy, put, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Unit, Uses, row

_N, _M, _A = 0, 1, 2
"""Scratch rows."""
ROWS: Final = (
    row("FMMLA (single-precision)", "0110 0100 101m mmmm 1110 01nn nnnd dddd",
        Needs.SVE | Needs.F32MM, Unit.MATRIX, 1, 32, Uses.FP),
    row("FMMLA (double-precision)", "0110 0100 111m mmmm 1110 01nn nnnd dddd",
        Needs.SVE | Needs.F64MM, Unit.MATRIX, 1, 64, Uses.FP | Uses.LONG_VECTORS),
)  # fmt: skip


@routine
def _multiplied(
    r: RegistersRecord, a: int, b: int, exponent_bits: int, fraction_bits: int, fpcr: int
) -> int:
    """FPMul()."""
    kind_a, sign_a, exponent_a, significand_a = unpack(r, a, exponent_bits, fraction_bits, fpcr)
    kind_b, sign_b, exponent_b, significand_b = unpack(r, b, exponent_bits, fraction_bits, fpcr)
    if kind_a >= QUIET or kind_b >= QUIET:
        return nan_of_two(r, a, kind_a, b, kind_b, exponent_bits, fraction_bits, fpcr)
    sign = sign_a ^ sign_b
    if kind_a == INFINITE or kind_b == INFINITE:
        if kind_a == ZERO or kind_b == ZERO:
            r.fpsr |= IOC
            return default_nan(exponent_bits, fraction_bits)
        return infinity(sign, exponent_bits, fraction_bits)
    if kind_a == ZERO or kind_b == ZERO:
        return zero(sign, exponent_bits, fraction_bits)
    exponent, significand = product(exponent_a, significand_a, exponent_b, significand_b)
    mode = rounding_mode(fpcr)
    return rounded(r, sign, exponent, significand, exponent_bits, fraction_bits, fpcr, mode)


@routine
def carry_matrix(r: RegistersRecord, word: int, size: int) -> None:
    """FPMatMulAdd() of each four elements of ``size`` bits.

    A row of Zn by a row of Zm is added to an element of Zda. What is beyond the last four is zeros.
    """
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, fpcr = word & 31, r.fpcr
    rounding = rounding_mode(fpcr)
    e_bits = 8 if size == 32 else 11
    f_bits = size - 1 - e_bits
    copy(t, _N, z, word >> 5 & 31, r.bytes)
    copy(t, _M, z, word >> 16 & 31, r.bytes)
    copy(t, _A, z, d, r.bytes)
    elements = (r.bytes << 3) // size
    for e in range(elements):
        if e >= elements & -4:
            put(z, d, e, size, 0)
            continue
        n, m = e & -4 | e & 2, e & -4 | (e & 1) << 1
        first, second = int64(0), int64(0)
        for k in range(2):
            a, b = unsigned(t, _N, n + k, size), unsigned(t, _M, m + k, size)
            first, second = second, _multiplied(r, a, b, e_bits, f_bits, fpcr)
        both = added(r, first, second, e_bits, f_bits, fpcr, rounding)
        addend = unsigned(t, _A, e, size)
        put(z, d, e, size, added(r, addend, both, e_bits, f_bits, fpcr, rounding))
