"""Instructions that are carried out at a stop, by Python alone: FEAT_LSE128 and FEAT_HBC."""

from __future__ import annotations

from typing import Final

from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row

_USES: Final = Uses.MEMORY | Uses.GENERAL
CLEAR, SET, SWAP = range(1, 4)
"""Forms of LSE128."""


def _quadword(name: str, op: str, form: int) -> Row:
    pattern = f"0001 1001 oo1m mmmm {op} 00nn nnnd dddd"
    return row(name, pattern, Needs.LSE128, Unit.LSE128, form, 0, _USES)


ROWS: Final = (
    _quadword("LDCLRP", "0001", CLEAR),
    _quadword("LDSETP", "0011", SET),
    _quadword("SWPP", "1000", SWAP),
    row("BC.cond", "0101 0100 iiii iiii iiii iiii iii1 cccc", Needs.HBC, Unit.HBC, 0, 0, _USES),
)
_ZERO_REGISTER: Final = 31


def is_undefined(one: Row, word: int) -> bool:
    """Whether the registers of an atomic of a quadword are none that it can have.

    Rt and Rt2 that are one are CONSTRAINED UNPREDICTABLE, and UNDEFINED here.
    """
    first, second = word & 31, word >> 16 & 31
    return one.unit == Unit.LSE128 and (_ZERO_REGISTER in (first, second) or first == second)


def combined(form: int, old: int, operand: int) -> int:
    """What is stored of what is there and of a register, each of 64 bits."""
    if form == CLEAR:
        return old & ~operand
    return old | operand if form == SET else operand
