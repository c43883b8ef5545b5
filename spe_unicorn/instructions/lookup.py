"""FEAT_LUT: LUTI2 and LUTI4, of Advanced SIMD and SVE2: elements of a table by packed indices."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import clear_above, copy, put, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Unit, Uses, row

PART_BYTE, PART_HALFWORD = 1, 2
"""Forms of Advanced SIMD: where the number of the segment is, bits 14:13 or 14:12."""
PART_ONE = 3
"""LUTI4 of bytes of Advanced SIMD: bit 14. LUTI4 of halfwords has bits 14:13, as PART_BYTE."""
SEGMENT_TWO, SEGMENT_THREE, SEGMENT_ONE = 4, 5, 6
"""Forms of SVE: bits 23:22, bits 23:22 and 12, bit 23."""
INDEX_4, HALFWORDS, TWO_TABLES = 1, 2, 4
"""Bits of a kind: indices of 4 bits, not of 2; elements of 16 bits, not of 8; two tables."""
_TABLE, _SECOND, _INDICES = 0, 1, 2
"""Scratch rows."""
_SIMD, _SVE, _UNIT = Needs.LUT, Needs.LUT | Needs.SVE | Needs.SVE2, Unit.LOOKUP
_WIDE: Final = INDEX_4 | HALFWORDS

ROWS: Final = (
    row("LUTI2 (byte)", "0100 1110 100m mmmm 0ii1 00nn nnnd dddd", _SIMD, _UNIT, PART_BYTE),
    row("LUTI2 (halfword)", "0100 1110 110m mmmm 0iii 00nn nnnd dddd", _SIMD, _UNIT,
        PART_HALFWORD, HALFWORDS),
    row("LUTI4 (byte)", "0100 1110 010m mmmm 0i10 00nn nnnd dddd", _SIMD, _UNIT, PART_ONE,
        INDEX_4),
    row("LUTI4 (halfword)", "0100 1110 010m mmmm 0ii1 00nn nnnd dddd", _SIMD, _UNIT, PART_BYTE,
        _WIDE | TWO_TABLES),
    row("LUTI2 (byte, SVE)", "0100 0101 ii1m mmmm 1011 00nn nnnd dddd", _SVE, _UNIT, SEGMENT_TWO),
    row("LUTI2 (halfword, SVE)", "0100 0101 ii1m mmmm 101i 10nn nnnd dddd", _SVE, _UNIT,
        SEGMENT_THREE, HALFWORDS),
    row("LUTI4 (byte, SVE)", "0100 0101 i11m mmmm 1010 01nn nnnd dddd", _SVE, _UNIT, SEGMENT_ONE,
        INDEX_4),
    row("LUTI4 (halfword, two registers, SVE)", "0100 0101 ii1m mmmm 1011 01nn nnnd dddd", _SVE,
        _UNIT, SEGMENT_TWO, _WIDE | TWO_TABLES),
    row("LUTI4 (halfword, SVE)", "0100 0101 ii1m mmmm 1011 11nn nnnd dddd", _SVE, _UNIT,
        SEGMENT_TWO, _WIDE, Uses.LONG_VECTORS),
)  # fmt: skip


@routine
def _segment(word: int, form: int) -> int:
    """The number of the segment of indices."""
    if form == PART_BYTE:
        return word >> 13 & 3
    if form == PART_HALFWORD:
        return word >> 12 & 7
    if form == PART_ONE:
        return word >> 14 & 1
    if form == SEGMENT_TWO:
        return word >> 22 & 3
    if form == SEGMENT_THREE:
        return word >> 21 & 6 | word >> 12 & 1
    return word >> 23 & 1


@routine
def carry_lookup(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    simd = form < SEGMENT_TWO
    size = int64(16) if simd else int64(r.bytes)
    index_bits = int64(4) if kind & INDEX_4 else int64(2)
    bits = int64(16) if kind & HALFWORDS else int64(8)
    copy(t, _TABLE, z, n, size)
    copy(t, _SECOND, z, n + 1 & 31, size)
    copy(t, _INDICES, z, m, size)
    of_one = int64(128) // bits
    elements = (size << 3) // bits
    first = elements * _segment(word, form)
    for e in range(elements):
        index = unsigned(t, _INDICES, first + e, index_bits)
        table = int64(_TABLE)
        if kind & TWO_TABLES and index >= of_one:
            table, index = int64(_SECOND), index - of_one
        put(z, d, e, bits, unsigned(t, table, index, bits))
    if simd:
        clear_above(z, d, 16, r.bytes)
