"""Instructions of SVE2 that compare, count and move elements, or make predicates."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Table, array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import active, copy, put, sign_extended, unsigned
from spe_unicorn.instructions.registers import (
    GENERAL,
    PREDICATE_WORDS,
    PREDICATES,
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.numbers import less_unsigned, logical

_SVE2, _UNIT = Needs.SVE | Needs.SVE2, Unit.SVE2_SELECTING
WHILE, WHILE_POINTERS, MATCH, COUNT, COUNT_SEGMENT, EXTRACT, SPLICE, LOOK_UP, PERMUTE_BITS = range(
    1, 10
)
ROTATE_XOR, POLYNOMIAL = 10, 11
"""Forms."""
UNSIGNED, ABOVE = 1, 2
"""Bits of a kind of WHILE: how numbers are compared, and whether equal ones do not count."""
READ_WRITE, NOT, MERGES, TOP = 1, 1, 1, 1
"""Bits of kinds: of WHILE_POINTERS, MATCH, LOOK_UP and POLYNOMIAL."""
BEXT, BDEP, BGRP = 0, 1, 2
"""Kinds of PERMUTE_BITS."""
_N, _M, _NEXT, _A = 0, 1, 2, 3
"""Scratch rows."""
_BITPERM: Final = _SVE2 | Needs.BITPERM


def _while(name: str, unsigned_bit: int, equal: int, kind: int) -> Row:
    pattern = f"0010 0101 ss1x xxxx 000w {unsigned_bit}0yy yyy{equal} dddd"
    return row(name, pattern, _SVE2, _UNIT, WHILE, kind, Uses.FLAGS)


ROWS: Final[tuple[Row, ...]] = (
    _while("WHILEGE", 0, 0, 0),
    _while("WHILEGT", 0, 1, ABOVE),
    _while("WHILEHS", 1, 0, UNSIGNED),
    _while("WHILEHI", 1, 1, UNSIGNED | ABOVE),
    row("WHILEWR", "0010 0101 ss1x xxxx 0011 00yy yyy0 dddd", _SVE2, _UNIT, WHILE_POINTERS, 0,
        Uses.FLAGS),
    row("WHILERW", "0010 0101 ss1x xxxx 0011 00yy yyy1 dddd", _SVE2, _UNIT, WHILE_POINTERS,
        READ_WRITE, Uses.FLAGS),
    row("MATCH", "0100 0101 0s1m mmmm 100g ggnn nnn0 dddd", _SVE2, _UNIT, MATCH, 0, Uses.FLAGS),
    row("NMATCH", "0100 0101 0s1m mmmm 100g ggnn nnn1 dddd", _SVE2, _UNIT, MATCH, NOT, Uses.FLAGS),
    row("HISTCNT", "0100 0101 1s1m mmmm 110g ggnn nnnd dddd", _SVE2, _UNIT, COUNT),
    row("HISTSEG", "0100 0101 001m mmmm 1010 00nn nnnd dddd", _SVE2, _UNIT, COUNT_SEGMENT),
    row("EXT (constructive)", "0000 0101 011i iiii 000i iinn nnnd dddd", _SVE2, _UNIT, EXTRACT),
    row("SPLICE (constructive)", "0000 0101 ss10 1101 100g ggnn nnnd dddd", _SVE2, _UNIT, SPLICE),
    row("TBL (two registers)", "0000 0101 ss1m mmmm 0010 10nn nnnd dddd", _SVE2, _UNIT, LOOK_UP),
    row("TBX", "0000 0101 ss1m mmmm 0010 11nn nnnd dddd", _SVE2, _UNIT, LOOK_UP, MERGES),
    row("BEXT", "0100 0101 ss0m mmmm 1011 00nn nnnd dddd", _BITPERM, _UNIT, PERMUTE_BITS, BEXT),
    row("BDEP", "0100 0101 ss0m mmmm 1011 01nn nnnd dddd", _BITPERM, _UNIT, PERMUTE_BITS, BDEP),
    row("BGRP", "0100 0101 ss0m mmmm 1011 10nn nnnd dddd", _BITPERM, _UNIT, PERMUTE_BITS, BGRP),
    row("RAX1 (SVE)", "0100 0101 001m mmmm 1111 01nn nnnd dddd", _SVE2 | Needs.SVE_SHA3, _UNIT,
        ROTATE_XOR),
    row("PMULLB, .Q", "0100 0101 000m mmmm 0110 10nn nnnd dddd", _SVE2 | Needs.SVE_AES, _UNIT,
        POLYNOMIAL),
    row("PMULLT, .Q", "0100 0101 000m mmmm 0110 11nn nnnd dddd", _SVE2 | Needs.SVE_AES, _UNIT,
        POLYNOMIAL, TOP),
)  # fmt: skip


@routine
def general(r: RegistersRecord, n: int) -> int:
    """X<n>, of which 31 is XZR."""
    return int64(0) if n == 31 else array_at(pointer_to(r.x), (GENERAL,), np.int64)[n]


@routine
def clear_predicate(p: Table, d: int, size: int) -> None:
    """Clear the first ``size`` bits of a predicate, a multiple of 2."""
    for w in range((size + 63) >> 6):
        left = size - 64 * w
        p[d, w] = p[d, w] & (int64(-1) << left) if left < 64 else int64(0)


@routine
def set_active(p: Table, d: int, e: int, size: int) -> None:
    """Have an element be active, in a predicate in which it is not."""
    at = e * size >> 3
    p[d, at >> 6] |= int64(1) << (at & 63)


@routine
def flags_of(nzcv: int, first: int, any_active: int, last: int) -> int:
    """PredTest(): the flags; V is 0."""
    return nzcv & ~(15 << 28) | first << 31 | (1 - any_active) << 30 | (1 - last) << 29


@routine
def _extract(a: int, mask: int, size: int) -> int:
    """The bits of ``a`` under ``mask``, moved together at the lowest places."""
    result, to = int64(0), int64(0)
    for place in range(size):
        if mask >> place & 1:
            result |= (a >> place & 1) << to
            to += 1
    return result


@routine
def _permuted(kind: int, a: int, mask: int, size: int) -> int:
    """BEXT, BDEP, BGRP."""
    if kind == BDEP:
        result, source = int64(0), int64(0)
        for place in range(size):
            if mask >> place & 1:
                result |= (a >> source & 1) << place
                source += 1
        return result
    result = _extract(a, mask, size)
    if kind == BEXT:
        return result
    chosen = int64(0)
    for place in range(size):
        chosen += mask >> place & 1
    return result if chosen == size else result | _extract(a, ~mask, size) << chosen


@routine
def _while_true(r: RegistersRecord, p: Table, word: int, form: int, kind: int) -> None:
    """WHILEGE to WHILEHI, WHILEWR and WHILERW."""
    d, size = word & 15, 8 << (word >> 22 & 3)
    elements = (r.bytes << 3) // size
    a, b = general(r, word >> 5 & 31), general(r, word >> 16 & 31)
    first, many, last = int64(0), int64(0), int64(0)
    clear_predicate(p, d, r.bytes)
    if form == WHILE_POINTERS:
        less = less_unsigned(b, a)
        distance = b - a
        if less and kind & READ_WRITE:
            distance, less = -distance, False
        distance = logical(distance, word >> 22 & 3)
        count = int64(elements)
        if not less and distance != 0 and less_unsigned(distance, elements):
            count = distance
        for e in range(count):
            set_active(p, d, e, size)
        first, many, last = int64(1), int64(1), int64(1) if count == elements else int64(0)
    else:
        wide = word >> 12 & 1
        still = True
        for k in range(elements):
            x, y = a, b
            if wide == 0:
                x, y = sign_extended(a, 32), sign_extended(b, 32)
            if kind & UNSIGNED:
                more, same = less_unsigned(y, x), x == y
            else:
                more, same = y < x, x == y
            still = still and (more or (same and kind & ABOVE == 0))
            if still:
                e = elements - 1 - k
                set_active(p, d, e, size)
                many = int64(1)
                if e == 0:
                    first = int64(1)
                if k == 0:
                    last = int64(1)
            a -= 1
    r.nzcv = flags_of(r.nzcv, first, many, last)


@routine
def _match(r: RegistersRecord, t: Table, p: Table, word: int, kind: int) -> None:
    """MATCH, NMATCH."""
    d, g, size = word & 15, word >> 10 & 7, 8 << (word >> 22 & 1)
    a_segment, elements = 128 // size, (r.bytes << 3) // size
    for w in range(PREDICATE_WORDS):
        t[_A, w] = p[g, w]
    first, many, last = int64(0), int64(0), int64(0)
    seen, _governed = int64(0), int64(0)
    clear_predicate(p, d, r.bytes)
    for e in range(elements):
        if active(t, _A, e, size):
            found = False
            value = unsigned(t, _N, e, size)
            begin = e // a_segment * a_segment
            for k in range(begin, begin + a_segment):
                found = found or value == unsigned(t, _M, k, size)
            result = found != (kind & NOT != 0)
            last = int64(0)
            if result:
                set_active(p, d, e, size)
                many, last = int64(1), int64(1)
                if seen == 0:
                    first = int64(1)
            seen, _governed = int64(1), int64(1)
    r.nzcv = flags_of(r.nzcv, first, many, last)


@routine
def carry_selecting(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, n, m, g = word & 31, word >> 5 & 31, word >> 16 & 31, word >> 10 & 7
    size = 8 << (word >> 22 & 3)
    elements = (r.bytes << 3) // size
    if form in (WHILE, WHILE_POINTERS):
        _while_true(r, p, word, form, kind)
        return
    copy(t, _N, z, n, r.bytes)
    copy(t, _M, z, m, r.bytes)
    copy(t, _NEXT, z, n + 1 & 31, r.bytes)
    if form == MATCH:
        _match(r, t, p, word, kind)
    elif form == COUNT:
        for e in range(elements):
            count = int64(0)
            if active(p, g, e, size):
                value = unsigned(t, _N, e, size)
                for k in range(e + 1):
                    if active(p, g, k, size) and unsigned(t, _M, k, size) == value:
                        count += 1
            put(z, d, e, size, count)
    elif form == COUNT_SEGMENT:
        for e in range(r.bytes):
            count, value = int64(0), unsigned(t, _N, e, 8)
            for k in range(e & -16, (e & -16) + 16):
                if unsigned(t, _M, k, 8) == value:
                    count += 1
            put(z, d, e, 8, count)
    elif form == EXTRACT:
        place = word >> 13 & 0xF8 | word >> 10 & 7
        if place >= r.bytes:
            place = int64(0)
        for e in range(r.bytes):
            at = place + e
            row_of, at = (_N, at) if at < r.bytes else (_NEXT, at - r.bytes)
            put(z, d, e, 8, unsigned(t, row_of, at, 8))
    elif form == SPLICE:
        begin, end = int64(0), int64(-1)
        for e in range(elements):
            if active(p, g, e, size):
                if end < 0:
                    begin = int64(e)
                end = int64(e)
        to = int64(0)
        if end >= 0:
            for e in range(begin, end + 1):
                put(z, d, to, size, unsigned(t, _N, e, size))
                to += 1
        for e in range(to, elements):
            put(z, d, e, size, unsigned(t, _NEXT, e - to, size))
    elif form == LOOK_UP:
        for e in range(elements):
            at = unsigned(t, _M, e, size)
            if 0 <= at < elements:
                put(z, d, e, size, unsigned(t, _N, at, size))
            elif kind & MERGES == 0:
                value = int64(0)
                if elements <= at < 2 * elements:
                    value = unsigned(t, _NEXT, at - elements, size)
                put(z, d, e, size, value)
    elif form == PERMUTE_BITS:
        for e in range(elements):
            put(
                z,
                d,
                e,
                size,
                _permuted(kind, unsigned(t, _N, e, size), unsigned(t, _M, e, size), size),
            )
    elif form == ROTATE_XOR:
        for e in range(r.bytes >> 3):
            z[d, e] = t[_N, e] ^ (t[_M, e] << 1 | logical(t[_M, e], 63))
    else:
        for e in range(r.bytes >> 4):
            a, b = t[_N, 2 * e + kind], t[_M, 2 * e + kind]
            low, high = int64(0), int64(0)
            for place in range(64):
                if b >> place & 1:
                    low ^= a << place
                    high ^= logical(a, 64 - place)
            z[d, 2 * e], z[d, 2 * e + 1] = low, high
