"""Instructions of FEAT_SVE2p1 that make, count and choose predicates, masks as well as counters."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Table, array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import active
from spe_unicorn.instructions.registers import (
    GENERAL,
    PREDICATE_WORDS,
    PREDICATES,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.numbers import less_unsigned
from spe_unicorn.instructions.sve2.p1.counters import (
    COUNTER,
    counter_of,
    is_active,
    put_counter,
)
from spe_unicorn.instructions.sve2.selecting import (
    clear_predicate,
    flags_of,
    general,
    set_active,
)

_NEEDS, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE2P1, Unit.SVE2P1_PREDICATES
WHILE_PAIR, WHILE_COUNTER, EXTRACT, EXTRACT_PAIR, ALL, COUNT, SELECT = range(1, 8)
"""Forms."""
UNSIGNED, LESS, EQUAL = 1, 2, 4
"""Bits of a kind of WHILE: how numbers are compared, whether the first one is to be less and is
incremented, and whether equal ones count."""


def _whiles(name: str, unsigned: int, less: int, last: int, kind: int) -> tuple[Row, ...]:
    """``last`` is the lowest bit of the operation: for LE, LS, GT and HI."""
    bits = f"{unsigned}{less}yy yyy1"
    return (
        row(f"{name} (predicate pair)", f"0010 0101 ss1x xxxx 0101 {bits} ddd{last}", _NEEDS, _UNIT,
            WHILE_PAIR, kind, Uses.FLAGS),
        row(f"{name} (predicate as counter)", f"0010 0101 ss1x xxxx 01v0 {bits} {last}ddd", _NEEDS,
            _UNIT, WHILE_COUNTER, kind, Uses.FLAGS),
    )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = (
    *_whiles("WHILEGE", 0, 0, 0, EQUAL),
    *_whiles("WHILEGT", 0, 0, 1, 0),
    *_whiles("WHILELT", 0, 1, 0, LESS),
    *_whiles("WHILELE", 0, 1, 1, LESS | EQUAL),
    *_whiles("WHILEHS", 1, 0, 0, UNSIGNED | EQUAL),
    *_whiles("WHILEHI", 1, 0, 1, UNSIGNED),
    *_whiles("WHILELO", 1, 1, 0, UNSIGNED | LESS),
    *_whiles("WHILELS", 1, 1, 1, UNSIGNED | LESS | EQUAL),
    row("PEXT (predicate)", "0010 0101 ss10 0000 0111 00ii nnn1 dddd", _NEEDS, _UNIT, EXTRACT),
    row("PEXT (predicate pair)", "0010 0101 ss10 0000 0111 010i nnn1 dddd", _NEEDS, _UNIT,
        EXTRACT_PAIR),
    row("PTRUE (predicate as counter)", "0010 0101 ss10 0000 0111 1000 0001 0ddd", _NEEDS, _UNIT,
        ALL),
    row("CNTP (predicate as counter)", "0010 0101 ss10 0000 1000 0v1n nnnd dddd", _NEEDS, _UNIT,
        COUNT),
    row("PSEL", "0010 0101 it1t ttvv 01nn nn0m mmm0 dddd", _NEEDS, _UNIT, SELECT),
)  # fmt: skip


@routine
def _while_true(a: int, b: int, elements: int, kind: int) -> int:
    """How many elements in a row are true, of so many."""
    count = int64(0)
    while count < elements:
        x, y = (a, b) if kind & LESS else (b, a)
        less = less_unsigned(x, y) if kind & UNSIGNED else x < y
        if not (less or (x == y and kind & EQUAL != 0)):
            break
        count += 1
        a = a + 1 if kind & LESS else a - 1
    return count


@routine
def _flags(nzcv: int, elements: int, count: int, inverts: int) -> int:
    """PredCountTest(): the flags where ``count`` elements are active, with ``inverts`` the last."""
    whole, some = count == elements, count != 0
    first = whole if inverts else some
    last = some if inverts else whole
    return flags_of(nzcv, int64(first), int64(some), int64(last))


@routine
def _put_while(r: RegistersRecord, p: Table, word: int, form: int, kind: int) -> None:
    """WHILE of a pair of predicates, or of a counter of two or four vectors' elements."""
    bits = int64(8) << (word >> 22 & 3)
    each = (r.bytes << 3) // bits
    elements = 2 * each
    if form == WHILE_COUNTER:
        elements = each << 1 + (word >> 13 & 1)
    a, b = general(r, word >> 5 & 31), general(r, word >> 16 & 31)
    count = _while_true(a, b, elements, kind)
    inverts = int64(0 if kind & LESS else 1)
    if form == WHILE_COUNTER:
        put_counter(p, 8 | word & 7, r.bytes, counter_of(bits, elements, count, inverts))
    else:
        first = elements - count if inverts else int64(0)
        for half in range(2):
            d = word & 14 | half
            clear_predicate(p, d, r.bytes)
            for e in range(each):
                if first <= half * each + e < first + count:
                    set_active(p, d, e, bits)
    r.nzcv = _flags(r.nzcv, elements, count, inverts)


@routine
def _extract(r: RegistersRecord, p: Table, word: int, d: int, counter: int, part: int) -> None:
    """One of the four predicates that a counter is."""
    bits = int64(8) << (word >> 22 & 3)
    elements = (r.bytes << 3) // bits
    clear_predicate(p, d, r.bytes)
    for e in range(elements):
        if is_active(counter, (part * elements + e) * (bits >> 3), r.bytes):
            set_active(p, d, e, bits)


@routine
def _count(r: RegistersRecord, p: Table, word: int) -> int:
    """CNTP: the active elements of a counter in two or four vectors."""
    unit = int64(1) << (word >> 22 & 3)
    counter = p[word >> 5 & 15, 0] & COUNTER
    count = int64(0)
    for e in range((r.bytes // unit) << 1 + (word >> 10 & 1)):
        if is_active(counter, e * unit, r.bytes):
            count += 1
    return count


@routine
def _select(r: RegistersRecord, p: Table, x: Table, word: int) -> None:
    """PSEL: Pn if an element of Pm is active, and else no element."""
    sizes = word >> 19 & 8 | word >> 18 & 7
    unit = sizes & -sizes
    immediate = (word >> 19 & 16 | sizes) // (2 * unit)
    element = ((x[0, 12 + (word >> 16 & 3)] & 0xFFFF_FFFF) + immediate) % (r.bytes // unit)
    d, n = word & 15, word >> 10 & 15
    if not active(p, word >> 5 & 15, element, unit << 3):
        clear_predicate(p, d, r.bytes)
    elif d != n:
        for w in range((r.bytes + 63) >> 6):
            left = r.bytes - 64 * w
            above = int64(-1) << left if left < 64 else int64(0)
            p[d, w] = p[d, w] & above | p[n, w] & ~above


@routine
def carry_predicates(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    x = array_at(pointer_to(r.x), (1, GENERAL), np.int64)
    if form in (WHILE_PAIR, WHILE_COUNTER):
        _put_while(r, p, word, form, kind)
    elif form == EXTRACT:
        counter = p[8 | word >> 5 & 7, 0] & COUNTER
        _extract(r, p, word, word & 15, counter, word >> 8 & 3)
    elif form == EXTRACT_PAIR:
        counter = p[8 | word >> 5 & 7, 0] & COUNTER
        for half in range(2):
            _extract(r, p, word, word + half & 15, counter, 2 * (word >> 8 & 1) + half)
    elif form == ALL:
        bits = int64(8) << (word >> 22 & 3)
        elements = (r.bytes << 3) // bits
        put_counter(p, 8 | word & 7, r.bytes, counter_of(bits, elements, elements, 0))
    elif form == COUNT:
        if word & 31 != 31:
            x[0, word & 31] = _count(r, p, word)
    else:
        _select(r, p, x, word)
