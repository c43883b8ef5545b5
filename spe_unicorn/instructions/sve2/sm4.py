"""FEAT_SVE_SM4: rounds of SM4, and of its key schedule, on each 128 bits of a vector."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import copy, put, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Unit, row
from spe_unicorn.instructions.sve2.field import inverses

_SM4, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE_SM4, Unit.SVE_SM4
ENCRYPT, KEY = 1, 2
"""Forms."""
_STATE, _KEYS = 0, 1
"""Scratch rows."""
_INVERSES: Final = inverses(0x1F5)
_MATRIX, _CONSTANT = 0xA7, 0xD3
"""The affine map in front of the inverse and behind it: the first row of a circulant matrix."""

ROWS: Final = (
    row("SM4E (SVE)", "0100 0101 0010 0011 1110 00mm mmmd dddd", _SM4, _UNIT, ENCRYPT),
    row("SM4EKEY (SVE)", "0100 0101 001m mmmm 1111 00nn nnnd dddd", _SM4, _UNIT, KEY),
)


def _mapped(a: int) -> int:
    """A byte after the affine map."""
    rows = ((_MATRIX << place | _MATRIX >> 8 - place) & 255 for place in range(8))
    return sum(((a & one).bit_count() & 1) << place for place, one in enumerate(rows)) ^ _CONSTANT


def _substituted(a: int) -> int:
    """A byte after the table of SM4, which is this by its design."""
    return _mapped(_INVERSES[_mapped(a)])


_SUBSTITUTED: Final = tuple(_substituted(a) for a in range(256))


@routine
def _turned(a: int, places: int) -> int:
    """A word of 32 bits rotated left."""
    return (a << places | a >> 32 - places) & 0xFFFF_FFFF


@routine
def carry_sm4(r: RegistersRecord, word: int, form: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d = word & 31
    if form == ENCRYPT:
        copy(t, _STATE, z, d, r.bytes)
        copy(t, _KEYS, z, word >> 5 & 31, r.bytes)
    else:
        copy(t, _STATE, z, word >> 5 & 31, r.bytes)
        copy(t, _KEYS, z, word >> 16 & 31, r.bytes)
    for segment in range(r.bytes >> 4):
        a = unsigned(t, _STATE, 4 * segment, 32)
        b = unsigned(t, _STATE, 4 * segment + 1, 32)
        c = unsigned(t, _STATE, 4 * segment + 2, 32)
        e = unsigned(t, _STATE, 4 * segment + 3, 32)
        for n in range(4):
            mixed = b ^ c ^ e ^ unsigned(t, _KEYS, 4 * segment + n, 32)
            value = int64(0)
            for byte in range(4):
                value |= _SUBSTITUTED[mixed >> 8 * byte & 255] << 8 * byte
            if form == ENCRYPT:
                value ^= (
                    _turned(value, 2) ^ _turned(value, 10) ^ _turned(value, 18) ^ _turned(value, 24)
                )
            else:
                value ^= _turned(value, 13) ^ _turned(value, 23)
            a, b, c, e = b, c, e, a ^ value
        put(z, d, 4 * segment, 32, a)
        put(z, d, 4 * segment + 1, 32, b)
        put(z, d, 4 * segment + 2, 32, c)
        put(z, d, 4 * segment + 3, 32, e)
