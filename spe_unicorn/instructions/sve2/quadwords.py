"""FEAT_F64MM beside its product of matrices: permutations of quadwords, and LD1RO.

Vectors have 256 bits at least: shorter ones make these instructions UNDEFINED. What is beyond the
last pair of quadwords is zeros.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.bits import signed
from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import copy
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row

ZIP, UZP, TRN = 1, 2, 3
"""Forms of permutations; the kind is the part, 0 or 1."""
BY_REGISTER, BY_IMMEDIATE = 1, 2
"""Forms of LD1RO: what is added to the base. The kind is the logarithm of an element's bytes."""
OCTAWORD: Final = 32
"""Bytes that LD1RO loads at most."""
_NEEDS: Final = Needs.SVE | Needs.F64MM
_N, _M = 0, 1
"""Scratch rows."""
_ZERO_REGISTER: Final = 31


def _permutation(name: str, code: int, form: int) -> tuple[Row, ...]:
    return tuple(
        row(f"{name}{part + 1} (vectors, quadwords)",
            f"0000 0101 101m mmmm 000{code:02b}{part} nnnnn ddddd", _NEEDS, Unit.QUADWORDS, form,
            part, Uses.LONG_VECTORS)
        for part in (0, 1)
    )  # fmt: skip


def _loads(size: str, kind: int) -> tuple[Row, ...]:
    head, uses = f"1010 010{kind:02b}01", Uses.MEMORY | Uses.LONG_VECTORS
    return (
        row(f"LD1RO{size} (scalar plus scalar)", f"{head}m mmmm 000 ggg nnnnn ddddd",
            _NEEDS, Unit.OCTAWORD, BY_REGISTER, kind, uses),
        row(f"LD1RO{size} (scalar plus immediate)", f"{head}0 iiii 001 ggg nnnnn ddddd",
            _NEEDS, Unit.OCTAWORD, BY_IMMEDIATE, kind, uses),
    )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = (
    *_permutation("ZIP", 0, ZIP),
    *_permutation("UZP", 1, UZP),
    *_permutation("TRN", 3, TRN),
    *(each for kind, size in enumerate("BHWD") for each in _loads(size, kind)),
)


def is_undefined(row: Row, word: int) -> bool:
    """Whether a word of these rows is UNDEFINED all the same: LD1RO with XZR as the index."""
    index = row.unit is Unit.OCTAWORD and row.form == BY_REGISTER
    return index and word >> 16 & 31 == _ZERO_REGISTER


def octaword_offset(word: int) -> int:
    """What an LD1RO with an immediate adds to its base."""
    return signed(word >> 16 & 15, 4) * OCTAWORD


@routine
def carry_quadwords(r: RegistersRecord, word: int, form: int, part: int) -> None:
    """Carry out ZIP1 to TRN2 of quadwords."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d = word & 31
    copy(t, _N, z, word >> 5 & 31, r.bytes)
    copy(t, _M, z, word >> 16 & 31, r.bytes)
    pairs = r.bytes >> 5
    for e in range(2 * pairs):
        source, quadword = int64(_N), int64(2 * (e % pairs) + part)
        if form == UZP:
            if e >= pairs:
                source = int64(_M)
        else:
            if e & 1:
                source = int64(_M)
            quadword = (e & -2) + part if form == TRN else part * pairs + (e >> 1)
        for half in range(2):
            z[d, 2 * e + half] = t[source, 2 * quadword + half]
    for at in range(4 * pairs, r.bytes >> 3):
        z[d, at] = 0
