"""FEAT_SVE_AES: rounds of AES on each 128 bits of a vector."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Table, array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import copy, put, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Unit, row

_AES, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE_AES, Unit.SVE_AES
ENCRYPT, DECRYPT, MIX, UNMIX = range(1, 5)
"""Forms."""
_N, _M = 0, 1
"""Scratch rows."""
_POLYNOMIAL: Final = 0x11B

ROWS: Final = (
    row("AESE (SVE)", "0100 0101 0010 0010 1110 00mm mmmd dddd", _AES, _UNIT, ENCRYPT),
    row("AESD (SVE)", "0100 0101 0010 0010 1110 01mm mmmd dddd", _AES, _UNIT, DECRYPT),
    row("AESMC (SVE)", "0100 0101 0010 0000 1110 0000 000d dddd", _AES, _UNIT, MIX),
    row("AESIMC (SVE)", "0100 0101 0010 0000 1110 0100 000d dddd", _AES, _UNIT, UNMIX),
)


@routine
def _times(a: int, b: int) -> int:
    """A product in the field of 256 elements."""
    result = int64(0)
    for place in range(8):
        if b >> place & 1:
            result ^= a
        a <<= 1
        if a & 256:
            a ^= _POLYNOMIAL
    return result


@routine
def _inverse(a: int) -> int:
    """The inverse in that field, 0 for 0: the 254th power."""
    result = int64(1)
    for _ in range(7):
        a = _times(a, a)
        result = _times(result, a)
    return result


@routine
def _turned(a: int, places: int) -> int:
    """A byte rotated left."""
    return (a << places | a >> 8 - places) & 255


@routine
def _substituted(a: int) -> int:
    """AESSubBytes() of one byte."""
    a = _inverse(a)
    return a ^ _turned(a, 1) ^ _turned(a, 2) ^ _turned(a, 3) ^ _turned(a, 4) ^ 0x63


@routine
def _unsubstituted(a: int) -> int:
    """AESInvSubBytes() of one byte."""
    return _inverse(_turned(a, 1) ^ _turned(a, 3) ^ _turned(a, 6) ^ 0x05)


@routine
def _mixed(t: Table, column: int, k: int, inverse: int) -> int:
    """A byte of AESMixColumns() or AESInvMixColumns()."""
    result = int64(0)
    for j in range(4):
        place = j - k & 3
        # the coefficients of the byte itself and of those after it
        factor = 2 if place == 0 else (3 if place == 1 else 1)
        if inverse:
            factor = 14 if place == 0 else (11 if place == 1 else (13 if place == 2 else 9))
        result ^= _times(unsigned(t, _N, column + j, 8), factor)
    return result


@routine
def carry_aes(r: RegistersRecord, word: int, form: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, m = word & 31, word >> 5 & 31
    copy(t, _N, z, d, r.bytes)
    copy(t, _M, z, m, r.bytes)
    for e in range(r.bytes):
        segment, k = e & -16, e & 15
        if form in (MIX, UNMIX):
            put(z, d, e, 8, _mixed(t, e & -4, e & 3, 1 if form == UNMIX else 0))
        else:
            # AESShiftRows(): row k & 3 is rotated by that many columns
            turned = k + 4 * (k & 3) if form == ENCRYPT else k - 4 * (k & 3)
            place = segment | turned & 15
            value = unsigned(t, _N, place, 8) ^ unsigned(t, _M, place, 8)
            put(z, d, e, 8, _substituted(value) if form == ENCRYPT else _unsubstituted(value))
