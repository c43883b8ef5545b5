"""Floating-point instructions of SVE2."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine
from spe_unicorn.instructions.floats import (
    FZ16,
    INFINITE,
    IOC,
    QUIET,
    TO_ODD,
    ZERO,
    added,
    converted_nan,
    extreme,
    infinity,
    multiplied_and_added,
    rounded,
    rounding_mode,
    unpack,
    zero,
)
from spe_unicorn.instructions.lanes import active, copy, ones, put, unsigned
from spe_unicorn.instructions.registers import (
    PREDICATE_WORDS,
    PREDICATES,
    SCRATCH_ROWS,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row

_SVE2, _UNIT = Needs.SVE | Needs.SVE2, Unit.SVE2_FLOATING
PAIRS, WIDENED, NARROWED, LOGARITHM, LONG, LONG_BY_ELEMENT = range(1, 7)
"""Forms."""
ADD, MAXIMUM_NUMBER, MINIMUM_NUMBER, MAXIMUM, MINIMUM = range(5)
"""Kinds of PAIRS."""
TOP, ODD, SUBTRACT = 1, 2, 4
"""Bits of other kinds: odd elements, rounded to odd, the product is subtracted."""
_SIZE: Final = 12
_S, _D = 5 << _SIZE, 6 << _SIZE
"""The size of wide elements."""
_N, _M = 0, 1
"""Scratch rows."""


def _pairs(name: str, code: int, kind: int) -> Row:
    return row(name, f"0110 0100 tt01 0{code:03b} 100g ggmm mmmd dddd", _SVE2, _UNIT, PAIRS, kind,
               Uses.FP)  # fmt: skip


def _conversion(name: str, high: str, form: int, kind: int) -> Row:
    return row(name, f"0110 010{high} 101g ggnn nnnd dddd", _SVE2, _UNIT, form, kind, Uses.FP)


def _long(name: str, code: str, kind: int) -> tuple[Row, ...]:
    """Of vectors, and by element; ``code`` is bit 13."""
    return tuple(
        row(f"{name}{end} ({how}, SVE)", f"0110 0100 101{m} {group}{code}0{low}{top} nnnnn ddddd",
            _SVE2, _UNIT, form, kind | top, Uses.FP)
        for end, top in (("B", 0), ("T", TOP))
        for how, m, group, low, form in (
            ("vectors", "mmmmm", "10", "0", LONG), ("indexed", "iimmm", "01", "i", LONG_BY_ELEMENT),
        )
    )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = (
    _pairs("FADDP", 0, ADD),
    _pairs("FMAXNMP", 4, MAXIMUM_NUMBER),
    _pairs("FMINNMP", 5, MINIMUM_NUMBER),
    _pairs("FMAXP", 6, MAXIMUM),
    _pairs("FMINP", 7, MINIMUM),
    _conversion("FCVTLT, half to single", "0 1000 1001", WIDENED, _S),
    _conversion("FCVTLT, single to double", "0 1100 1011", WIDENED, _D),
    _conversion("FCVTNT, single to half", "0 1000 1000", NARROWED, TOP | _S),
    _conversion("FCVTNT, double to single", "0 1100 1010", NARROWED, TOP | _D),
    _conversion("FCVTXNT", "0 0000 1010", NARROWED, TOP | ODD | _D),
    _conversion("FCVTX", "1 0000 1010", NARROWED, ODD | _D),
    _conversion("FLOGB", "1 0001 1tt0", LOGARITHM, 0),
    *_long("FMLAL", "0", 0),
    *_long("FMLSL", "1", SUBTRACT),
)  # fmt: skip


@routine
def exponent_bits(size: int) -> int:
    """The exponent bits of the format of that size."""
    if size == 16:
        return 5
    return 8 if size == 32 else 11


@routine
def _converted(r: RegistersRecord, value: int, size: int, to: int, rounding: int) -> int:
    """FPConvertSVE() between formats: half precision is IEEE's, and its denormals are kept."""
    fpcr = r.fpcr & ~FZ16
    e, e_to = exponent_bits(size), exponent_bits(to)
    f, f_to = size - 1 - e, to - 1 - e_to
    kind, sign, exponent, significand = unpack(r, value, e, f, fpcr)
    if kind >= QUIET:
        return converted_nan(r, value, kind, e, f, e_to, f_to, fpcr)
    if kind == INFINITE:
        return infinity(sign, e_to, f_to)
    if kind == ZERO:
        return zero(sign, e_to, f_to)
    return rounded(r, sign, exponent, significand, e_to, f_to, fpcr, rounding)


@routine
def _logarithm(r: RegistersRecord, value: int, size: int) -> int:
    """FPLogB(): the exponent of a number as an integer of its size."""
    e = exponent_bits(size)
    kind, _sign, exponent, _significand = unpack(r, value, e, size - 1 - e, r.fpcr)
    if kind >= QUIET or kind == ZERO:
        r.fpsr |= IOC
        return 1 << size - 1
    return ones(size - 1) if kind == INFINITE else exponent


@routine
def carry_floating(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    t = array_at(pointer_to(r.scratch), (SCRATCH_ROWS, VECTOR_WORDS), np.int64)
    d, n, m, g = word & 31, word >> 5 & 31, word >> 16 & 31, word >> 10 & 7
    size, index = 8 << (word >> 22 & 3), -1
    if form == PAIRS:
        n, m = d, n
    elif form == LOGARITHM:
        size = 8 << (word >> 17 & 3)
    elif form in (LONG, LONG_BY_ELEMENT):
        size = 32
        if form == LONG_BY_ELEMENT:
            m, index = word >> 16 & 7, word >> 18 & 6 | word >> 11 & 1
    else:
        size = 1 << (kind >> _SIZE)
    copy(t, _N, z, n, r.bytes)
    copy(t, _M, z, m, r.bytes)
    e_bits = exponent_bits(size)
    f_bits = size - 1 - e_bits
    half = size >> 1
    rounding = TO_ODD if kind & ODD and form == NARROWED else rounding_mode(r.fpcr)
    for e in range((r.bytes << 3) // size):
        if form < LONG and not active(p, g, e, size):
            continue
        if form == PAIRS:
            source = _M if e & 1 else _N
            a, b = unsigned(t, source, e & -2, size), unsigned(t, source, e | 1, size)
            if kind == ADD:
                put(z, d, e, size, added(r, a, b, e_bits, f_bits, r.fpcr, rounding))
            else:
                least = 1 if kind in (MINIMUM, MINIMUM_NUMBER) else 0
                number = 1 if kind in (MINIMUM_NUMBER, MAXIMUM_NUMBER) else 0
                put(z, d, e, size, extreme(r, a, b, e_bits, f_bits, r.fpcr, least, number))
        elif form == WIDENED:
            value = unsigned(t, _N, 2 * e + 1, half)
            put(z, d, e, size, _converted(r, value, half, size, rounding))
        elif form == NARROWED:
            value = _converted(r, unsigned(t, _N, e, size), size, half, rounding)
            if kind & TOP:
                put(z, d, 2 * e + 1, half, value)
            else:
                put(z, d, e, size, value)
        elif form == LOGARITHM:
            put(z, d, e, size, _logarithm(r, unsigned(t, _N, e, size), size))
        else:
            place = 2 * e + (kind & TOP) if index < 0 else 2 * (e & -4) + index
            a, b = unsigned(t, _N, 2 * e + (kind & TOP), 16), unsigned(t, _M, place, 16)
            if kind & SUBTRACT:
                a ^= 1 << 15
            total = unsigned(z, d, e, 32)
            put(z, d, e, 32, multiplied_and_added(r, total, a, b, 5, 10, r.fpcr))
