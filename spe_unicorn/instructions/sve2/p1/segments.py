"""Permutations of FEAT_SVE2p1 within quadwords, REVD, and PMOV between vectors and predicates."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Table, array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import active, copy, put, unsigned
from spe_unicorn.instructions.registers import (
    PREDICATE_WORDS,
    PREDICATES,
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, row
from spe_unicorn.instructions.sve2.selecting import clear_predicate, set_active

_NEEDS, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE2P1, Unit.SVE2P1_SEGMENTS
ZIP, UZP, LOOK_UP, REPLICATE, EXTRACT, REVERSE, TO_PREDICATE, TO_VECTOR = range(1, 9)
"""Forms. The kind of ZIP and UZP is the part, of PMOV the logarithm of an element's bytes."""
MERGES: Final = 1
"""The kind of LOOK_UP that leaves elements as they are whose index is too large."""
_N, _M = 0, 1
"""Scratch rows."""
_QUADWORD: Final = 16
"""Bytes."""


def _of_two(name: str, code: str, form: int, kind: int = 0) -> Row:
    """``code`` is bits 15:10."""
    return row(name, f"0100 0100 ss0m mmmm {code}nn nnnd dddd", _NEEDS, _UNIT, form, kind)


def _moves(size: str, places: str, kind: int) -> tuple[Row, ...]:
    """``places`` is bits 23:22 and 18:17."""
    high, low = places.split()
    return (
        row(f"PMOV (to predicate), .{size}", f"0000 0101 {high}1 01{low}0 0011 10nn nnn0 dddd",
            _NEEDS, _UNIT, TO_PREDICATE, kind),
        row(f"PMOV (to vector), .{size}", f"0000 0101 {high}1 01{low}1 0011 100n nnnd dddd",
            _NEEDS, _UNIT, TO_VECTOR, kind),
    )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = (
    _of_two("ZIPQ1", "1110 00", ZIP, 0),
    _of_two("ZIPQ2", "1110 01", ZIP, 1),
    _of_two("UZPQ1", "1110 10", UZP, 0),
    _of_two("UZPQ2", "1110 11", UZP, 1),
    _of_two("TBLQ", "1111 10", LOOK_UP),
    row("TBXQ", "0000 0101 ss1m mmmm 0011 01nn nnnd dddd", _NEEDS, _UNIT, LOOK_UP, MERGES),
    row("DUPQ", "0000 0101 001i tttt 0010 01nn nnnd dddd", _NEEDS, _UNIT, REPLICATE),
    row("EXTQ", "0000 0101 0110 iiii 0010 01mm mmmd dddd", _NEEDS, _UNIT, EXTRACT),
    row("REVD", "0000 0101 0010 1110 100g ggnn nnnd dddd", _NEEDS, _UNIT, REVERSE),
    *_moves("B", "00 01", 0),
    *_moves("H", "00 1i", 1),
    *_moves("S", "01 ii", 2),
    *_moves("D", "1i ii", 3),
)  # fmt: skip


@routine
def _permute(z: Table, t: Table, d: int, e: int, size: int, form: int, part: int) -> None:
    """The element of ZIPQ or UZPQ."""
    each = 8 * _QUADWORD // size
    begin, at = e // each * each, e % each
    half = each >> 1
    if form == ZIP:
        source, place = at & 1, part * half + (at >> 1)
    else:
        source, place = at // half, 2 * (at % half) + part
    put(z, d, e, size, unsigned(t, source, begin + place, size))


@routine
def _look_up(z: Table, t: Table, d: int, e: int, size: int, kind: int) -> None:
    """The element of TBLQ or TBXQ."""
    each = 8 * _QUADWORD // size
    index = unsigned(t, _M, e, size)
    if 0 <= index < each:
        put(z, d, e, size, unsigned(t, _N, e // each * each + index, size))
    elif kind & MERGES == 0:
        put(z, d, e, size, 0)


@routine
def _move(z: Table, p: Table, r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """PMOV: a part of a vector has a bit for each element of a predicate."""
    bits = int64(8) << kind
    elements = (r.bytes << 3) // bits
    part = (word >> 20 & 4 | word >> 17 & 3) & (1 << kind) - 1
    first = part * elements
    if form == TO_PREDICATE:
        d, n = word & 15, word >> 5 & 31
        clear_predicate(p, d, r.bytes)
        for e in range(elements):
            at = first + e
            if z[n, at >> 6] >> (at & 63) & 1:
                set_active(p, d, e, bits)
        return
    d, n = word & 31, word >> 5 & 15
    if part == 0:
        for w in range(r.bytes >> 3):
            z[d, w] = 0
    for e in range(elements):
        at = first + e
        bit = int64(1) << (at & 63)
        z[d, at >> 6] &= ~bit
        if active(p, n, e, bits):
            z[d, at >> 6] |= bit


@routine
def carry_segments(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    if form in (TO_PREDICATE, TO_VECTOR):
        _move(z, p, r, word, form, kind)
        return
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    size, place = int64(8) << (word >> 22 & 3), int64(0)
    if form == EXTRACT:
        n, m, size, place = d, n, int64(8), int64(m & 15)
    elif form == REPLICATE:
        unit = m & -m & 15
        size, place = int64(8 * unit), m // (2 * unit)
    elif form == REVERSE:
        size = int64(64)
    copy(t, _N, z, n, r.bytes)
    copy(t, _M, z, m, r.bytes)
    each = 8 * _QUADWORD // size
    for e in range((r.bytes << 3) // size):
        begin = e // each * each
        if form in (ZIP, UZP):
            _permute(z, t, d, e, size, form, kind)
        elif form == LOOK_UP:
            _look_up(z, t, d, e, size, kind)
        elif form == REPLICATE:
            put(z, d, e, size, unsigned(t, _N, begin + place, size))
        elif form == EXTRACT:
            at = e - begin + place
            source = _N if at < each else _M
            put(z, d, e, size, unsigned(t, source, begin + at % each, size))
        elif active(p, word >> 10 & 7, e >> 1, 128):
            put(z, d, e, size, unsigned(t, _N, e ^ 1, size))
