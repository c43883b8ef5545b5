"""Instructions of SVE2 whose results have twice or half the size of their operands."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Table, array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import copy, ones, put, sign_extended, taken, unsigned
from spe_unicorn.instructions.registers import (
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, row
from spe_unicorn.instructions.sve2.numbers import (
    add_signed,
    difference,
    logical,
    polynomial,
    saturated_signed,
    shifted_right,
    subtract_signed,
)

_SVE2, _UNIT = Needs.SVE | Needs.SVE2, Unit.SVE2_WIDENING
LONG, WIDE, ADD, LONG_BY_ELEMENT, ADD_BY_ELEMENT, NARROW_HIGH, NARROW_SHIFT, NARROW, SHIFT = range(
    1, 10
)
DOT, DOT_BY_ELEMENT = 10, 11
"""Forms: wide Zd of narrow Zn and Zm; of wide Zn and narrow Zm; the same added to Zda; the upper
halves of wide results; wide elements shifted or saturated to narrow ones; narrow ones shifted; and
the complex dot product."""
(SUM, SUBTRACT, DIFFERENCE, MULTIPLY, SQDMULL, PMULL) = range(1, 7)
(MULTIPLY_SUBTRACT, SQDMLSL) = range(7, 9)
(SHRN, SATURATED, SATURATED_UNSIGNED) = range(9, 12)
_OP: Final = 0xF
SIGNED, N_TOP, M_TOP, ROUNDS, TOP = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
"""Bits of a kind: elements are signed, which elements of Zn and of Zm are taken, whether it is
rounded, and whether results go to odd elements."""
_BOTH_TOP: Final = N_TOP | M_TOP
_SIZE: Final = 12
_S, _D = 5 << _SIZE, 6 << _SIZE
"""The size of wide elements, for what has no size field."""
_N, _M, _A = 0, 1, 2
"""Scratch rows."""


def _two(name: str, code: int, form: int, kind: int, high: str = "0100 0101 tt0") -> Row:
    """``code`` is bits 15:10."""
    return row(name, f"{high}m mmmm {code:06b} nnnn nddd dd", _SVE2, _UNIT, form, kind)


def _pair(
    name: str, code: int, form: int, kind: int, high: str = "0100 0101 tt0"
) -> tuple[Row, ...]:
    """Bottom and top."""
    top = M_TOP if form == WIDE else _BOTH_TOP
    return (
        _two(f"{name}B", code, form, kind, high),
        _two(f"{name}T", code | 1, form, kind | top, high),
    )


def _signs(name: str, code: int, form: int, kind: int) -> tuple[Row, ...]:
    """Signed and unsigned; ``name`` has an S at its begin or after it."""
    return (
        *_pair(f"S{name}", code, form, kind | SIGNED),
        *_pair(f"U{name}", code | 2, form, kind),
    )


def _multiplied(name: str, code: int, kind: int) -> tuple[Row, ...]:
    return tuple(row for one in _signs(name, code, ADD, kind) for row in [_of_0x44(one)])


def _of_0x44(one: Row) -> Row:
    return one._replace(pattern="01000100" + one.pattern[8:])


def _indexed(name: str, code: str, form: int, kind: int) -> tuple[Row, ...]:
    """By element; ``code`` is bits 15:12. The index has its lowest bit at 11."""
    return tuple(
        row(f"{name}{end} (indexed), .{letter}", f"0100 0100 {place} {code}i{bit}nn nnnd dddd",
            _SVE2, _UNIT, form, kind | size | top)
        for letter, size, place in (("S", _S, "101i immm"), ("D", _D, "111i mmmm"))
        for end, bit, top in (("B", 0, 0), ("T", 1, _BOTH_TOP))
    )  # fmt: skip


def _narrowed(name: str, code: int, kind: int) -> tuple[Row, ...]:
    """Shifts to narrow elements."""
    return tuple(
        row(f"{name}N{end}", f"0100 0101 0t1t tiii {code | bit:06b} nnnn nddd dd", _SVE2, _UNIT,
            NARROW_SHIFT, kind | top)
        for end, bit, top in (("B", 0, 0), ("T", 1, TOP))
    )  # fmt: skip


def _extracted(name: str, code: int, kind: int) -> tuple[Row, ...]:
    """SQXTNB and its kin; their size is one bit of three."""
    return tuple(
        row(f"{name}{end}, .{letter}", f"0100 0101 {place} 000 {code | bit:06b} nnnn nddd dd",
            _SVE2, _UNIT, NARROW, kind | top | size << _SIZE)
        for letter, size, place in (("B", 4, "0010 1"), ("H", 5, "0011 0"), ("S", 6, "0110 0"))
        for end, bit, top in (("B", 0, 0), ("T", 1, TOP))
    )  # fmt: skip


def _high(name: str, code: int, kind: int) -> tuple[Row, ...]:
    return tuple(
        _two(f"{name}N{end}", code | bit, NARROW_HIGH, kind | top, "0100 0101 tt1")
        for end, bit, top in (("B", 0, 0), ("T", 1, TOP))
    )


ROWS: Final[tuple[Row, ...]] = (
    *_signs("ADDL", 0b000000, LONG, SUM),
    *_signs("SUBL", 0b000100, LONG, SUBTRACT),
    *_signs("ABDL", 0b001100, LONG, DIFFERENCE),
    *_signs("ADDW", 0b010000, WIDE, SUM),
    *_signs("SUBW", 0b010100, WIDE, SUBTRACT),
    *_pair("SQDMULL", 0b011000, LONG, SQDMULL | SIGNED),
    *_pair("PMULL", 0b011010, LONG, PMULL, "0100 0101 s10"),
    *_signs("MULL", 0b011100, LONG, MULTIPLY),
    _two("SADDLBT", 0b100000, LONG, SUM | SIGNED | M_TOP),
    _two("SSUBLBT", 0b100010, LONG, SUBTRACT | SIGNED | M_TOP),
    _two("SSUBLTB", 0b100011, LONG, SUBTRACT | SIGNED | N_TOP),
    *_signs("ABAL", 0b110000, ADD, DIFFERENCE),
    *_multiplied("MLAL", 0b010000, MULTIPLY),
    *_multiplied("MLSL", 0b010100, MULTIPLY_SUBTRACT),
    *map(_of_0x44, _pair("SQDMLAL", 0b011000, ADD, SQDMULL | SIGNED)),
    *map(_of_0x44, _pair("SQDMLSL", 0b011010, ADD, SQDMLSL | SIGNED)),
    _of_0x44(_two("SQDMLALBT", 0b000010, ADD, SQDMULL | SIGNED | M_TOP)),
    _of_0x44(_two("SQDMLSLBT", 0b000011, ADD, SQDMLSL | SIGNED | M_TOP)),
    *_indexed("SMLAL", "1000", ADD_BY_ELEMENT, MULTIPLY | SIGNED),
    *_indexed("UMLAL", "1001", ADD_BY_ELEMENT, MULTIPLY),
    *_indexed("SMLSL", "1010", ADD_BY_ELEMENT, MULTIPLY_SUBTRACT | SIGNED),
    *_indexed("UMLSL", "1011", ADD_BY_ELEMENT, MULTIPLY_SUBTRACT),
    *_indexed("SMULL", "1100", LONG_BY_ELEMENT, MULTIPLY | SIGNED),
    *_indexed("UMULL", "1101", LONG_BY_ELEMENT, MULTIPLY),
    *_indexed("SQDMULL", "1110", LONG_BY_ELEMENT, SQDMULL | SIGNED),
    *_indexed("SQDMLAL", "0010", ADD_BY_ELEMENT, SQDMULL | SIGNED),
    *_indexed("SQDMLSL", "0011", ADD_BY_ELEMENT, SQDMLSL | SIGNED),
    *_high("ADDH", 0b011000, SUM),
    *_high("RADDH", 0b011010, SUM | ROUNDS),
    *_high("SUBH", 0b011100, SUBTRACT),
    *_high("RSUBH", 0b011110, SUBTRACT | ROUNDS),
    *_narrowed("SQSHRU", 0b000000, SATURATED_UNSIGNED | SIGNED),
    *_narrowed("SQRSHRU", 0b000010, SATURATED_UNSIGNED | SIGNED | ROUNDS),
    *_narrowed("SHR", 0b000100, SHRN),
    *_narrowed("RSHR", 0b000110, SHRN | ROUNDS),
    *_narrowed("SQSHR", 0b001000, SATURATED | SIGNED),
    *_narrowed("SQRSHR", 0b001010, SATURATED | SIGNED | ROUNDS),
    *_narrowed("UQSHR", 0b001100, SATURATED_UNSIGNED),
    *_narrowed("UQRSHR", 0b001110, SATURATED_UNSIGNED | ROUNDS),
    *_extracted("SQXTN", 0b010000, SATURATED | SIGNED),
    *_extracted("UQXTN", 0b010010, SATURATED_UNSIGNED),
    *_extracted("SQXTUN", 0b010100, SATURATED_UNSIGNED | SIGNED),
    *(
        row(f"{name}{end}", f"0100 0101 0t0t tiii {code | bit:06b} nnnn nddd dd", _SVE2, _UNIT,
            SHIFT, kind | top)
        for name, code, kind in (("SSHLL", 0b101000, SIGNED), ("USHLL", 0b101010, 0))
        for end, bit, top in (("B", 0, 0), ("T", 1, N_TOP))
    ),
    row("CDOT (vectors)", "0100 0100 1s0m mmmm 0001 rrnn nnnd dddd", _SVE2, _UNIT, DOT),
    row("CDOT (indexed), .S", "0100 0100 101i immm 0100 rrnn nnnd dddd", _SVE2, _UNIT,
        DOT_BY_ELEMENT, _S),
    row("CDOT (indexed), .D", "0100 0100 111i mmmm 0100 rrnn nnnd dddd", _SVE2, _UNIT,
        DOT_BY_ELEMENT, _D),
)  # fmt: skip


@routine
def _of_two(op: int, a: int, b: int, size: int, is_signed: int) -> int:
    """What an operation makes of two narrow numbers; ``size`` is that of its result."""
    if op == SUM:
        return a + b
    if op == SUBTRACT:
        return a - b
    if op == DIFFERENCE:
        return difference(a, b, is_signed)
    if op in (MULTIPLY, MULTIPLY_SUBTRACT):
        return a * b
    if op == PMULL:
        return polynomial(a, b, size >> 1)
    product = a * b
    if product == 1 << size - 2:
        return ones(size - 1)
    return 2 * product


@routine
def _added(op: int, total: int, value: int, size: int) -> int:
    """A result added to the destination, or subtracted from it."""
    if op == SQDMULL:
        return add_signed(sign_extended(total, size), value, size)
    if op == SQDMLSL:
        return subtract_signed(sign_extended(total, size), value, size)
    return total - value if op == MULTIPLY_SUBTRACT else total + value


@routine
def _narrow(op: int, value: int, size: int, is_signed: int) -> int:
    """A wide number as a narrow one of ``size`` bits."""
    if op == SHRN:
        return value
    if op == SATURATED:
        return saturated_signed(value, size)
    if is_signed:
        return min(max(value, 0), ones(size))
    return ones(size) if logical(value, size) else value


@routine
def _dot(t: Table, total: int, e: int, place: int, quarter: int, rotation: int) -> int:
    """Two products of complex numbers, added to ``total``."""
    swap = rotation & 1
    for i in range(2):
        real = taken(t, _N, 4 * e + 2 * i, quarter, 1)
        imaginary = taken(t, _N, 4 * e + 2 * i + 1, quarter, 1)
        a = real * taken(t, _M, 4 * place + 2 * i + swap, quarter, 1)
        b = imaginary * taken(t, _M, 4 * place + 2 * i + 1 - swap, quarter, 1)
        total += a - b if swap == rotation >> 1 else a + b
    return total


@routine
def carry_widening(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    op, is_signed = kind & _OP, kind & SIGNED
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    size = 8 << (word >> 22 & 3)
    index = -1
    if form in (LONG_BY_ELEMENT, ADD_BY_ELEMENT):
        size = 1 << (kind >> _SIZE)
        if size == 32:
            m, index = word >> 16 & 7, word >> 18 & 6 | word >> 11 & 1
        else:
            m, index = word >> 16 & 15, word >> 19 & 2 | word >> 11 & 1
    elif form == DOT_BY_ELEMENT:
        size = 1 << (kind >> _SIZE)
        m, index = (
            (word >> 16 & 7, word >> 19 & 3) if size == 32 else (word >> 16 & 15, word >> 20 & 1)
        )
    elif form == NARROW:
        size = 1 << (kind >> _SIZE)
    shift = int64(0)
    if form in (NARROW_SHIFT, SHIFT):
        tsz = word >> 20 & 4 | word >> 19 & 3
        size = 64 if tsz & 4 else (32 if tsz & 2 else 16)
        amount = tsz << 3 | word >> 16 & 7
        shift = amount - (size >> 1) if form == SHIFT else size - amount
    half = size >> 1
    copy(t, _N, z, n, r.bytes)
    copy(t, _M, z, m, r.bytes)
    copy(t, _A, z, d, r.bytes)
    a_segment = 128 // size
    for e in range((r.bytes << 3) // size):
        total = unsigned(t, _A, e, size)
        if form in (DOT, DOT_BY_ELEMENT):
            place = e if index < 0 else e // a_segment * a_segment + index
            put(z, d, e, size, _dot(t, total, e, place, size >> 2, word >> 10 & 3))
        elif form == NARROW_HIGH:
            a, b = unsigned(t, _N, e, size), unsigned(t, _M, e, size)
            value = _of_two(op, a, b, size, 0)
            if kind & ROUNDS:
                value += 1 << half - 1
            value = value >> half
            if kind & TOP:
                put(z, d, 2 * e + 1, half, value)
            else:
                put(z, d, e, size, value & ones(half))
        elif form in (NARROW_SHIFT, NARROW):
            value = taken(t, _N, e, size, is_signed)
            if form == NARROW_SHIFT:
                value = shifted_right(value, shift, is_signed, kind & ROUNDS)
            value = _narrow(op, value, half, is_signed)
            if kind & TOP:
                put(z, d, 2 * e + 1, half, value)
            else:
                put(z, d, e, size, value & ones(half))
        else:
            first = 2 * e + (1 if kind & N_TOP else 0)
            second = 2 * e + (1 if kind & M_TOP else 0)
            if index >= 0:
                second = 2 * (e // a_segment * a_segment) + index
            a = taken(t, _N, e, size, 0) if form == WIDE else taken(t, _N, first, half, is_signed)
            if form == SHIFT:
                put(z, d, e, size, a << shift)
            else:
                b = taken(t, _M, second, half, is_signed)
                value = _of_two(op, a, b, size, is_signed)
                if form in (ADD, ADD_BY_ELEMENT):
                    value = _added(op, total, value, size)
                put(z, d, e, size, value)
