"""FEAT_SVE_AES: rounds of AES on each 128 bits of a vector."""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine
from spe_unicorn.instructions.lanes import put, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Unit, row
from spe_unicorn.instructions.sve2.field import inverses

_AES, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE_AES, Unit.SVE_AES
ENCRYPT, DECRYPT, MIX, UNMIX = range(1, 5)
"""Forms."""
_N: Final = 0
"""A scratch row."""
_POLYNOMIAL: Final = 0x11B
_INVERSES: Final = inverses(_POLYNOMIAL)

ROWS: Final = (
    row("AESE (SVE)", "0100 0101 0010 0010 1110 00mm mmmd dddd", _AES, _UNIT, ENCRYPT),
    row("AESD (SVE)", "0100 0101 0010 0010 1110 01mm mmmd dddd", _AES, _UNIT, DECRYPT),
    row("AESMC (SVE)", "0100 0101 0010 0000 1110 0000 000d dddd", _AES, _UNIT, MIX),
    row("AESIMC (SVE)", "0100 0101 0010 0000 1110 0100 000d dddd", _AES, _UNIT, UNMIX),
)


def _turned(a: int, places: int) -> int:
    """A byte rotated left."""
    return (a << places | a >> 8 - places) & 255


def _substituted(a: int) -> int:
    """AESSubBytes() of one byte."""
    inverse = _INVERSES[a]
    return inverse ^ reduce(xor, (_turned(inverse, places) for places in range(1, 5))) ^ 0x63


_SUBSTITUTED: Final = tuple(_substituted(a) for a in range(256))
_UNSUBSTITUTED: Final = tuple(_SUBSTITUTED.index(a) for a in range(256))
"""The tables of AESSubBytes() and AESInvSubBytes()."""


@routine
def _doubled(column: int) -> int:
    """Each byte of a column times 2 in the field."""
    return (column & 0x7F7F_7F7F) << 1 ^ (column >> 7 & 0x0101_0101) * (_POLYNOMIAL & 0xFF)


@routine
def _after(column: int, bytes_: int) -> int:
    """A column whose bytes are those so many places after them."""
    return (column >> 8 * bytes_ | column << 32 - 8 * bytes_) & 0xFFFF_FFFF


@routine
def _mixed(column: int) -> int:
    """AESMixColumns() of a column: twice a byte, three times the next, and the other two."""
    others = _after(column, 1) ^ _after(column, 2) ^ _after(column, 3)
    return _doubled(column) ^ _doubled(_after(column, 1)) ^ others


@routine
def _unmixed(column: int) -> int:
    """AESInvMixColumns(), whose factors are those of AESMixColumns() times 5, 0, 4 and 0."""
    fourfold = _doubled(_doubled(column))
    return _mixed(column ^ fourfold ^ _after(fourfold, 2))


@routine
def carry_aes(r: RegistersRecord, word: int, form: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, m = word & 31, word >> 5 & 31
    if form in (MIX, UNMIX):
        for e in range(r.bytes >> 2):
            column = unsigned(z, d, e, 32)
            put(z, d, e, 32, _mixed(column) if form == MIX else _unmixed(column))
        return
    for n in range(r.bytes >> 3):
        t[_N, n] = z[d, n] ^ z[m, n]
    for e in range(r.bytes):
        # AESShiftRows(): row k & 3 is rotated by that many columns
        k = e & 15
        turned = k + 4 * (k & 3) if form == ENCRYPT else k - 4 * (k & 3)
        value = unsigned(t, _N, e & -16 | turned & 15, 8)
        put(z, d, e, 8, _SUBSTITUTED[value] if form == ENCRYPT else _UNSUBSTITUTED[value])
