"""Instructions of SVE2 whose elements all have one size, and stay in their places."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import active, copy, ones, put, sign_extended, unsigned
from spe_unicorn.instructions.registers import (
    PREDICATE_WORDS,
    PREDICATES,
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, row
from spe_unicorn.instructions.sve2.numbers import (
    accumulated_high,
    add_signed,
    add_signed_to_unsigned,
    add_unsigned,
    add_unsigned_to_signed,
    difference,
    doubled_high,
    high_signed,
    high_unsigned,
    less_unsigned,
    logical,
    polynomial,
    shifted_left_signed,
    shifted_left_unsigned,
    shifted_right,
    subtract_signed,
    subtract_unsigned,
)

_SVE2, _UNIT = Needs.SVE | Needs.SVE2, Unit.SVE2_LANEWISE
PLAIN, BY_ELEMENT, MERGED, UNARY, SHIFT, PAIRS, ADD, ADD_BY_ELEMENT, SHIFT_ADD = range(1, 10)
LOGIC, ROTATE, CARRY, COMPLEX_ADD, COMPLEX, COMPLEX_BY_ELEMENT, LONG_PAIRS = range(10, 17)
"""Forms: Zd of Zn and Zm; the same with an element of Zm; Zdn and Zm, active elements; Zn alone;
Zdn and an immediate; pairs of elements; Zda of itself, Zn and Zm; and so on."""
(MUL, SMULH, UMULH, PMUL, SQDMULH, SQRDMULH) = range(1, 7)
(SRSHL, URSHL, SQSHL, UQSHL, SQRSHL, UQRSHL) = range(7, 13)
(SHADD, UHADD, SHSUB, UHSUB, SRHADD, URHADD) = range(13, 19)
(SQADD, UQADD, SQSUB, UQSUB, SUQADD, USQADD) = range(19, 25)
(ADDP, SMAXP, UMAXP, SMINP, UMINP) = range(25, 30)
(SQABS, SQNEG, URECPE, URSQRTE) = range(30, 34)
(MLA, MLS, SQRDMLAH, SQRDMLSH, SABA, UABA, EORBT, EORTB) = range(34, 42)
(SSRA, USRA, SRSRA, URSRA, SRI, SLI, SRSHR, URSHR, SQSHLU) = range(42, 51)
(EOR3, BCAX, BSL, BSL1N, BSL2N, NBSL) = range(51, 57)
(ADCL, SBCL, CADD, SQCADD, CMLA, SQRDCMLAH, SADALP, UADALP) = range(57, 65)
_OP: Final = 0x7F
REVERSED, TOP = 1 << 7, 1 << 8
"""Bits of a kind: operands are taken in the other order; odd elements."""
_SIZE: Final = 12
"""Where a kind has the base-2 logarithm of the size of elements, for what has no size field."""
_H, _S, _D = 4 << _SIZE, 5 << _SIZE, 6 << _SIZE
_N, _M, _A = 0, 1, 2
"""Scratch rows."""


def _plain(name: str, opcode: str, kind: int, size: str = "ss") -> Row:
    return row(name, f"0000 0100 {size}1m mmmm {opcode} nnnn nddd dd", _SVE2, _UNIT, PLAIN, kind)


def _predicated(
    name: str, code: int, kind: int, form: int = MERGED, group: str = "100", size: str = "ss"
) -> Row:
    """``code`` is bits 21:16, ``group`` bits 15:13."""
    pattern = f"0100 0100 {size} {code:06b} {group} ggg mmmmm ddddd"
    return row(name, pattern, _SVE2, _UNIT, form, kind)


def _immediate(name: str, code: int, kind: int) -> Row:
    """Bits 21:16 are ``code``."""
    return row(name, f"0000 0100 tt {code:06b} 100 ggg tt iii ddddd", _SVE2, _UNIT, SHIFT, kind)


def _indexed(name: str, opcode: str, form: int, kind: int) -> tuple[Row, ...]:
    """By element: 16, 32 and 64 bits."""
    return tuple(
        row(f"{name}, .{letter}", f"0100 0100 {place} {opcode} nnnn nddd dd", _SVE2, _UNIT, form,
            kind | size)
        for letter, size, place in (
            ("H", _H, "0i1i immm"), ("S", _S, "101i immm"), ("D", _D, "111i mmmm"),
        )
    )  # fmt: skip


def _complex_indexed(name: str, opcode: str, kind: int) -> tuple[Row, ...]:
    return tuple(
        row(f"{name} (indexed), .{letter}", f"0100 0100 {place} {opcode} rrnn nnnd dddd", _SVE2,
            _UNIT, COMPLEX_BY_ELEMENT, kind | size)
        for letter, size, place in (("H", _H, "101i immm"), ("S", _S, "111i mmmm"))
    )  # fmt: skip


def _added(name: str, opcode: str, kind: int, form: int = ADD, high: str = "0100 0101 ss0") -> Row:
    return row(name, f"{high}m mmmm {opcode} nnnn nddd dd", _SVE2, _UNIT, form, kind)


def _shifted_row(name: str, opcode: str, kind: int) -> Row:
    pattern = f"0100 0101 tt0t tiii {opcode} nnnn nddd dd"
    return row(name, pattern, _SVE2, _UNIT, SHIFT_ADD, kind)


_TWO: Final = (
    ("SRSHL", 0x02, SRSHL), ("URSHL", 0x03, URSHL), ("SQSHL (vectors)", 0x08, SQSHL),
    ("UQSHL (vectors)", 0x09, UQSHL), ("SQRSHL", 0x0A, SQRSHL), ("UQRSHL", 0x0B, UQRSHL),
    ("SRSHLR", 0x06, SRSHL | REVERSED), ("URSHLR", 0x07, URSHL | REVERSED),
    ("SQSHLR", 0x0C, SQSHL | REVERSED), ("UQSHLR", 0x0D, UQSHL | REVERSED),
    ("SQRSHLR", 0x0E, SQRSHL | REVERSED), ("UQRSHLR", 0x0F, UQRSHL | REVERSED),
    ("SHADD", 0x10, SHADD), ("UHADD", 0x11, UHADD), ("SHSUB", 0x12, SHSUB), ("UHSUB", 0x13, UHSUB),
    ("SRHADD", 0x14, SRHADD), ("URHADD", 0x15, URHADD), ("SHSUBR", 0x16, SHSUB | REVERSED),
    ("UHSUBR", 0x17, UHSUB | REVERSED), ("SQADD (predicated)", 0x18, SQADD),
    ("UQADD (predicated)", 0x19, UQADD), ("SQSUB (predicated)", 0x1A, SQSUB),
    ("UQSUB (predicated)", 0x1B, UQSUB), ("SUQADD", 0x1C, SUQADD), ("USQADD", 0x1D, USQADD),
    ("SQSUBR", 0x1E, SQSUB | REVERSED), ("UQSUBR", 0x1F, UQSUB | REVERSED),
)  # fmt: skip
_PAIRS: Final = (
    ("ADDP", 0x11, ADDP), ("SMAXP", 0x14, SMAXP), ("UMAXP", 0x15, UMAXP), ("SMINP", 0x16, SMINP),
    ("UMINP", 0x17, UMINP),
)  # fmt: skip
_LOGIC: Final = (
    ("EOR3", "001", "0011 10", EOR3), ("BCAX", "011", "0011 10", BCAX),
    ("BSL", "001", "0011 11", BSL), ("BSL1N", "011", "0011 11", BSL1N),
    ("BSL2N", "101", "0011 11", BSL2N), ("NBSL", "111", "0011 11", NBSL),
)  # fmt: skip
ROWS: Final[tuple[Row, ...]] = (
    _plain("MUL (vectors, unpredicated)", "0110 00", MUL),
    _plain("SMULH (unpredicated)", "0110 10", SMULH),
    _plain("UMULH (unpredicated)", "0110 11", UMULH),
    _plain("PMUL", "0110 01", PMUL, "00"),
    _plain("SQDMULH (vectors)", "0111 00", SQDMULH),
    _plain("SQRDMULH (vectors)", "0111 01", SQRDMULH),
    *_indexed("MUL (indexed)", "1111 10", BY_ELEMENT, MUL),
    *_indexed("SQDMULH (indexed)", "1111 00", BY_ELEMENT, SQDMULH),
    *_indexed("SQRDMULH (indexed)", "1111 01", BY_ELEMENT, SQRDMULH),
    *_indexed("MLA (indexed)", "0000 10", ADD_BY_ELEMENT, MLA),
    *_indexed("MLS (indexed)", "0000 11", ADD_BY_ELEMENT, MLS),
    *_indexed("SQRDMLAH (indexed)", "0001 00", ADD_BY_ELEMENT, SQRDMLAH),
    *_indexed("SQRDMLSH (indexed)", "0001 01", ADD_BY_ELEMENT, SQRDMLSH),
    *(_predicated(name, code, kind) for name, code, kind in _TWO),
    *(_predicated(name, code, kind, PAIRS, "101") for name, code, kind in _PAIRS),
    _predicated("SQABS", 0x08, SQABS, UNARY, "101"),
    _predicated("SQNEG", 0x09, SQNEG, UNARY, "101"),
    row("URECPE", "0100 0100 1000 0000 101g ggnn nnnd dddd", _SVE2, _UNIT, UNARY, URECPE),
    row("URSQRTE", "0100 0100 1000 0001 101g ggnn nnnd dddd", _SVE2, _UNIT, UNARY, URSQRTE),
    _predicated("SADALP", 0x04, SADALP, LONG_PAIRS, "101", "tt"),
    _predicated("UADALP", 0x05, UADALP, LONG_PAIRS, "101", "tt"),
    _immediate("SQSHL (immediate)", 0x06, SQSHL),
    _immediate("UQSHL (immediate)", 0x07, UQSHL),
    _immediate("SRSHR", 0x0C, SRSHR),
    _immediate("URSHR", 0x0D, URSHR),
    _immediate("SQSHLU", 0x0F, SQSHLU),
    _added("SQRDMLAH (vectors)", "0111 00", SQRDMLAH, high="0100 0100 ss0"),
    _added("SQRDMLSH (vectors)", "0111 01", SQRDMLSH, high="0100 0100 ss0"),
    _added("SABA", "1111 10", SABA),
    _added("UABA", "1111 11", UABA),
    _added("EORBT", "1001 00", EORBT),
    _added("EORTB", "1001 01", EORTB),
    _shifted_row("SSRA", "1110 00", SSRA),
    _shifted_row("USRA", "1110 01", USRA),
    _shifted_row("SRSRA", "1110 10", SRSRA),
    _shifted_row("URSRA", "1110 11", URSRA),
    _shifted_row("SRI", "1111 00", SRI),
    _shifted_row("SLI", "1111 01", SLI),
    *(row(name, f"0000 0100 {high}m mmmm {code} kkkk kddd dd", _SVE2, _UNIT, LOGIC, kind)
      for name, high, code, kind in _LOGIC),
    row("XAR", "0000 0100 tt1t tiii 0011 01mm mmmd dddd", _SVE2, _UNIT, ROTATE),
    _added("ADCLB", "1101 00", ADCL, CARRY, "0100 0101 0s0"),
    _added("ADCLT", "1101 01", ADCL | TOP, CARRY, "0100 0101 0s0"),
    _added("SBCLB", "1101 00", SBCL, CARRY, "0100 0101 1s0"),
    _added("SBCLT", "1101 01", SBCL | TOP, CARRY, "0100 0101 1s0"),
    row("CADD", "0100 0101 ss00 0000 1101 1rmm mmmd dddd", _SVE2, _UNIT, COMPLEX_ADD, CADD),
    row("SQCADD", "0100 0101 ss00 0001 1101 1rmm mmmd dddd", _SVE2, _UNIT, COMPLEX_ADD, SQCADD),
    row("CMLA (vectors)", "0100 0100 ss0m mmmm 0010 rrnn nnnd dddd", _SVE2, _UNIT, COMPLEX, CMLA),
    row("SQRDCMLAH (vectors)", "0100 0100 ss0m mmmm 0011 rrnn nnnd dddd", _SVE2, _UNIT, COMPLEX,
        SQRDCMLAH),
    *_complex_indexed("CMLA", "0110", CMLA),
    *_complex_indexed("SQRDCMLAH", "0111", SQRDCMLAH),
)  # fmt: skip


@routine
def _shifted(op: int, a: int, amount: int, size: int) -> int:
    """SRSHL to UQRSHL: left by a positive amount, right by a negative one."""
    signed = 1 if op in (SRSHL, SQSHL, SQRSHL) else 0
    if amount >= 0:
        if op in (SRSHL, URSHL):
            return a << amount if amount < size else int64(0)
        return (
            shifted_left_signed(a, amount, size)
            if signed
            else shifted_left_unsigned(a, amount, size)
        )
    rounds = 0 if op in (SQSHL, UQSHL) else 1
    places = -amount
    if places > size or amount == -(1 << 63):
        return int64(-1) if signed and not rounds and a < 0 else int64(0)
    return shifted_right(a, places, signed, rounds)


@routine
def two(op: int, a: int, b: int, size: int) -> int:
    """What an operation with two operands makes of elements, given as unsigned ones."""
    sa, sb = sign_extended(a, size), sign_extended(b, size)
    if op == MUL:
        return a * b
    if op == SMULH:
        return high_signed(sa, sb) if size == 64 else sa * sb >> size
    if op == UMULH:
        return high_unsigned(a, b) if size == 64 else logical(a * b, size)
    if op == PMUL:
        return polynomial(a, b, size)
    if op in (SQDMULH, SQRDMULH):
        return doubled_high(sa, sb, size, 1 if op == SQRDMULH else 0)
    if op in (SRSHL, SQSHL, SQRSHL):
        return _shifted(op, sa, sb, size)
    if op in (URSHL, UQSHL, UQRSHL):
        return _shifted(op, a, sb, size)
    if op == SHADD:
        return (sa & sb) + ((sa ^ sb) >> 1)
    if op == UHADD:
        return (a & b) + logical(a ^ b, 1)
    if op == SHSUB:
        return (sa >> 1) - (sb >> 1) - (~sa & sb & 1)
    if op == UHSUB:
        return logical(a, 1) - logical(b, 1) - (~a & b & 1)
    if op == SRHADD:
        return (sa | sb) - ((sa ^ sb) >> 1)
    if op == URHADD:
        return (a | b) - logical(a ^ b, 1)
    if op == SQADD:
        return add_signed(sa, sb, size)
    if op == UQADD:
        return add_unsigned(a, b, size)
    if op == SQSUB:
        return subtract_signed(sa, sb, size)
    if op == UQSUB:
        return subtract_unsigned(a, b, size)
    if op == SUQADD:
        return add_unsigned_to_signed(sa, b, size)
    if op == USQADD:
        return add_signed_to_unsigned(a, sb, size)
    if op == ADDP:
        return a + b
    if op == SMAXP:
        return max(sa, sb)
    if op == SMINP:
        return min(sa, sb)
    less = less_unsigned(a, b)
    if op == UMAXP:
        return b if less else a
    return a if less else b


@routine
def _reciprocal(a: int) -> int:
    """UnsignedRecipEstimate()."""
    if a >> 31 == 0:
        return ones(32)
    scaled = (a >> 23 & 511) * 2 + 1
    return (((1 << 19) // scaled + 1) // 2 & 511) << 23


@routine
def _root(a: int) -> int:
    """UnsignedRSqrtEstimate()."""
    if a >> 30 == 0:
        return ones(32)
    scaled = a >> 23 & 511
    scaled = scaled * 2 + 1 if scaled < 256 else ((scaled >> 1 << 1) + 1) * 2
    b = int64(512)
    while scaled * (b + 1) * (b + 1) < 1 << 28:
        b += 1
    return ((b + 1) // 2 & 511) << 23


@routine
def _alone(op: int, a: int, size: int) -> int:
    """What an operation with one operand makes of an element."""
    signed = sign_extended(a, size)
    if op in (SQNEG, SQABS):
        if op == SQABS and signed >= 0:
            return a
        return ones(size - 1) if signed == -ones(size - 1) - 1 else -signed
    return _reciprocal(a) if op == URECPE else _root(a)


@routine
def accumulated(op: int, total: int, a: int, b: int, size: int) -> int:
    """What an operation adds to a destination, with what was there."""
    sa, sb = sign_extended(a, size), sign_extended(b, size)
    if op == MLA:
        return total + a * b
    if op == MLS:
        return total - a * b
    if op in (SQRDMLAH, SQRDMLSH):
        return accumulated_high(sign_extended(total, size), sa, sb, size, op - SQRDMLAH)
    if op == SABA:
        return total + difference(sa, sb, 1)
    return total + difference(a, b, 0)


@routine
def _shift_added(op: int, total: int, a: int, shift: int, size: int) -> int:
    """SSRA to SLI; ``shift`` is to the left for SLI, and else to the right."""
    signed = sign_extended(a, size)
    if op == SSRA:
        return total + shifted_right(signed, shift, 1, 0)
    if op == USRA:
        return total + shifted_right(a, shift, 0, 0)
    if op == SRSRA:
        return total + shifted_right(signed, shift, 1, 1)
    if op == URSRA:
        return total + shifted_right(a, shift, 0, 1)
    if op == SRI:
        kept = ones(size) & ~logical(ones(size) if size < 64 else int64(-1), shift)
        return total & kept | logical(a, shift)
    return total & ~(int64(-1) << shift) | a << shift


@routine
def _logic(op: int, a: int, b: int, k: int) -> int:
    """Zdn, Zm and Zk, whose bits are combined."""
    if op == EOR3:
        return a ^ b ^ k
    if op == BCAX:
        return a ^ (b & ~k)
    if op == BSL:
        return (a & k) | (b & ~k)
    if op == BSL1N:
        return (~a & k) | (b & ~k)
    if op == BSL2N:
        return (a & k) | (~b & ~k)
    return ~((a & k) | (b & ~k))


@routine
def size_of(tsz: int) -> int:
    """The size of elements that the leading one of ``tsz`` says."""
    if tsz & 8:
        return 64
    if tsz & 4:
        return 32
    if tsz & 2:
        return 16
    return 8


@routine
def carry_lanewise(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    op = kind & _OP
    d, n, m, g = word & 31, word >> 5 & 31, word >> 16 & 31, word >> 10 & 7
    size = 8 << (word >> 22 & 3)
    tsz = word >> 20 & 12 | word >> 19 & 3
    shift = word >> 16 & 7
    if form == SHIFT:
        tsz, shift = word >> 20 & 12 | word >> 8 & 3, word >> 5 & 7
    if form in (SHIFT, SHIFT_ADD, ROTATE):
        size = size_of(tsz)
        left = (tsz << 3 | shift) - size
        shift = left if op in (SLI, SQSHL, UQSHL, SQSHLU) else size - left
    if form == CARRY:
        size = 32 << (word >> 22 & 1)
    index = -1
    if form in (BY_ELEMENT, ADD_BY_ELEMENT, COMPLEX_BY_ELEMENT):
        size = 1 << (kind >> _SIZE)
        index = word >> 19 & 3
        m &= 7
        if size == 16 and form != COMPLEX_BY_ELEMENT:
            index |= word >> 20 & 4
        if size == 64 or (size == 32 and form == COMPLEX_BY_ELEMENT):
            m, index = word >> 16 & 15, word >> 20 & 1
    if form in (MERGED, PAIRS, COMPLEX_ADD, ROTATE):
        n, m = d, n
    elif form == SHIFT:
        n = d
    elif form == LOGIC:
        n, m = word >> 5 & 31, word >> 16 & 31
    copy(t, _N, z, n, r.bytes)
    copy(t, _M, z, m, r.bytes)
    copy(t, _A, z, d, r.bytes)
    if form == LOGIC:
        for w in range(r.bytes >> 3):
            z[d, w] = _logic(op, t[_A, w], t[_M, w], t[_N, w])
        return
    elements = (r.bytes << 3) // size
    a_segment = 128 // size  # elements of 128 bits
    for e in range(elements):
        if form == CARRY or (form >= COMPLEX_ADD and form != LONG_PAIRS):
            if e & 1:
                continue
        elif form in (MERGED, UNARY, SHIFT, PAIRS, LONG_PAIRS) and not active(p, g, e, size):
            continue
        a, b, total = unsigned(t, _N, e, size), unsigned(t, _M, e, size), unsigned(t, _A, e, size)
        if index >= 0 and form != COMPLEX_BY_ELEMENT:
            b = unsigned(t, _M, e // a_segment * a_segment + index, size)
        if form in (PLAIN, BY_ELEMENT):
            put(z, d, e, size, two(op, a, b, size))
        elif form == MERGED:
            if kind & REVERSED:
                a, b = b, a
            put(z, d, e, size, two(op, a, b, size))
        elif form == UNARY:
            put(z, d, e, size, _alone(op, a, size))
        elif form == SHIFT:
            if op in (SRSHR, URSHR):
                signed = 1 if op == SRSHR else 0
                value = sign_extended(a, size) if signed else a
                put(z, d, e, size, shifted_right(value, shift, signed, 1))
            elif op == SQSHL:
                put(z, d, e, size, shifted_left_signed(sign_extended(a, size), shift, size))
            elif op == UQSHL:
                put(z, d, e, size, shifted_left_unsigned(a, shift, size))
            else:
                negative = sign_extended(a, size) < 0
                put(z, d, e, size, 0 if negative else shifted_left_unsigned(a, shift, size))
        elif form == PAIRS:
            source = _M if e & 1 else _N
            first = unsigned(t, source, e & -2, size)
            put(z, d, e, size, two(op, first, unsigned(t, source, e | 1, size), size))
        elif form == LONG_PAIRS:
            half = size >> 1
            low, high = unsigned(t, _N, 2 * e, half), unsigned(t, _N, 2 * e + 1, half)
            if op == SADALP:
                low, high = sign_extended(low, half), sign_extended(high, half)
            put(z, d, e, size, total + low + high)
        elif form in (ADD, ADD_BY_ELEMENT):
            if op in (EORBT, EORTB):
                if e & 1 == op - EORBT:
                    first = unsigned(t, _N, e, size)
                    put(z, d, e, size, first ^ unsigned(t, _M, e ^ 1, size))
            else:
                put(z, d, e, size, accumulated(op, total, a, b, size))
        elif form == SHIFT_ADD:
            put(z, d, e, size, _shift_added(op, total, a, shift, size))
        elif form == ROTATE:
            value = a ^ b
            rotated = logical(value, shift) if shift < size else int64(0)
            put(z, d, e, size, rotated | value << size - shift)
        elif form == CARRY:
            b = unsigned(t, _N, e + (1 if kind & TOP else 0), size)
            if op == SBCL:
                b = ~b & ones(size)
            carry = unsigned(t, _M, e + 1, size) & 1
            result = total + b + carry
            out = result >> 32 & 1
            if size == 64:
                out = int64(0)
                if less_unsigned(total + b, total) or (carry and result == 0):
                    out = int64(1)
            put(z, d, e, size, result)
            put(z, d, e + 1, size, out)
        elif form == COMPLEX_ADD:
            b_i = unsigned(t, _M, e + 1, size)
            a_i = unsigned(t, _N, e + 1, size)
            sub = 0 if word >> 10 & 1 else 1
            if op == CADD:
                put(z, d, e, size, a - b_i if sub else a + b_i)
                put(z, d, e + 1, size, a_i + b if sub else a_i - b)
            else:
                put(z, d, e, size, two(SQSUB if sub else SQADD, a, b_i, size))
                put(z, d, e + 1, size, two(SQADD if sub else SQSUB, a_i, b, size))
        else:
            rotation = word >> 10 & 3
            place = e if index < 0 else e // a_segment * a_segment + 2 * index
            swap = rotation & 1
            one = unsigned(t, _N, e + swap, size)
            r_by = unsigned(t, _M, place + swap, size)
            i_by = unsigned(t, _M, place + 1 - swap, size)
            sub_i = rotation >> 1
            sub_r = (rotation ^ sub_i) & 1
            base = MLA if op == CMLA else SQRDMLAH
            i_total = unsigned(t, _A, e + 1, size)
            put(z, d, e, size, accumulated(base + sub_r, total, one, r_by, size))
            put(z, d, e + 1, size, accumulated(base + sub_i, i_total, one, i_by, size))
