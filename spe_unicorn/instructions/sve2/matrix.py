"""FEAT_F32MM: products of matrices of single precision, for SVE.

FEAT_F64MM is not there: it has loads of 32 bytes as well, and no core here has it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine
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
        Needs.SVE | Needs.F32MM, Unit.F32MM, 1, 0, Uses.FP),
)  # fmt: skip


@routine
def _multiplied(r: RegistersRecord, a: int, b: int, fpcr: int) -> int:
    """FPMul() of single precision."""
    kind_a, sign_a, exponent_a, significand_a = unpack(r, a, 8, 23, fpcr)
    kind_b, sign_b, exponent_b, significand_b = unpack(r, b, 8, 23, fpcr)
    if kind_a >= QUIET or kind_b >= QUIET:
        return nan_of_two(r, a, kind_a, b, kind_b, 8, 23, fpcr)
    sign = sign_a ^ sign_b
    if kind_a == INFINITE or kind_b == INFINITE:
        if kind_a == ZERO or kind_b == ZERO:
            r.fpsr |= IOC
            return default_nan(8, 23)
        return infinity(sign, 8, 23)
    if kind_a == ZERO or kind_b == ZERO:
        return zero(sign, 8, 23)
    exponent, significand = product(exponent_a, significand_a, exponent_b, significand_b)
    return rounded(r, sign, exponent, significand, 8, 23, fpcr, rounding_mode(fpcr))


@routine
def carry_matrix(r: RegistersRecord, word: int) -> None:
    """FPMatMulAdd() of each 128 bits: a row of Zn by a row of Zm, added to an element of Zda."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, fpcr = word & 31, r.fpcr
    rounding = rounding_mode(fpcr)
    copy(t, _N, z, word >> 5 & 31, r.bytes)
    copy(t, _M, z, word >> 16 & 31, r.bytes)
    copy(t, _A, z, d, r.bytes)
    for e in range(r.bytes >> 2):
        n, m = e & -4 | e & 2, e & -4 | (e & 1) << 1
        first = _multiplied(r, unsigned(t, _N, n, 32), unsigned(t, _M, m, 32), fpcr)
        second = _multiplied(r, unsigned(t, _N, n + 1, 32), unsigned(t, _M, m + 1, 32), fpcr)
        both = added(r, first, second, 8, 23, fpcr, rounding)
        put(z, d, e, 32, added(r, unsigned(t, _A, e, 32), both, 8, 23, fpcr, rounding))
