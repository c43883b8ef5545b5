"""FEAT_CSSC: ABS, CNT, CTZ, and the lesser or greater of two general registers."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import sign_extended
from spe_unicorn.instructions.registers import GENERAL, RegistersRecord
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.numbers import less_unsigned

_UNIT = Unit.CSSC
ABS, CNT, CTZ, IMMEDIATE, REGISTER = range(1, 6)
"""Forms."""
_UNSIGNED, _LEAST = 1, 2
"""Bits of a kind."""
_EXTREMES: Final = (
    ("SMAX", 0),
    ("UMAX", _UNSIGNED),
    ("SMIN", _LEAST),
    ("UMIN", _UNSIGNED | _LEAST),
)
_ZERO_REGISTER: Final = 31
_LOW: Final = 0xFFFF_FFFF


def _row(name: str, pattern: str, form: int, kind: int = 0) -> Row:
    return row(name, pattern, Needs.CSSC, _UNIT, form, kind, Uses.GENERAL)


ROWS: Final = (
    _row("ABS (general)", "s101 1010 1100 0000 0010 00nn nnnd dddd", ABS),
    _row("CNT (general)", "s101 1010 1100 0000 0001 11nn nnnd dddd", CNT),
    _row("CTZ", "s101 1010 1100 0000 0001 10nn nnnd dddd", CTZ),
    *(
        _row(f"{name} (immediate)", f"s001 0001 1100 {op:02b}ii iiii iinn nnnd dddd", IMMEDIATE, op)
        for name, op in _EXTREMES
    ),
    *(
        _row(f"{name} (register)", f"s001 1010 110m mmmm 0110 {op:02b}nn nnnd dddd", REGISTER, op)
        for name, op in _EXTREMES
    ),
)


@routine
def _extreme(a: int, b: int, kind: int) -> int:
    """The lesser or the greater of two numbers of 64 bits."""
    less = less_unsigned(a, b) if kind & _UNSIGNED else a < b
    return a if less == (kind & _LEAST != 0) else b


@routine
def carry_cssc(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Carry out an instruction."""
    x = array_at(pointer_to(r.x), (GENERAL,), np.int64)
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    size = 64 if word >> 31 & 1 else 32
    a = int64(0) if n == _ZERO_REGISTER else x[n]
    if size == 32:
        a = a & _LOW if form in (CNT, CTZ) or kind & _UNSIGNED else sign_extended(a, 32)
    value = int64(0)
    if form == ABS:
        value = -a if a < 0 else a
    elif form == CNT:
        for place in range(size):
            value += a >> place & 1
    elif form == CTZ:
        while value < size and a >> value & 1 == 0:
            value += 1
    else:
        if form == IMMEDIATE:
            b = word >> 10 & 255 if kind & _UNSIGNED else sign_extended(word >> 10, 8)
        else:
            b = int64(0) if m == _ZERO_REGISTER else x[m]
            if size == 32:
                b = b & _LOW if kind & _UNSIGNED else sign_extended(b, 32)
        value = _extreme(a, b, kind)
    if d != _ZERO_REGISTER:
        x[d] = value & _LOW if size == 32 else value
