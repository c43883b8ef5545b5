"""Instructions that Python alone carries out, at a stop: LSE128, HBC, CMPBR and LS64."""

from __future__ import annotations

from typing import Final

from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row

_USES: Final = Uses.MEMORY | Uses.GENERAL
CLEAR, SET, SWAP = range(1, 4)
"""Forms of LSE128."""
BY_REGISTER, BY_IMMEDIATE = 1, 2
"""Forms of FEAT_CMPBR."""


def _quadword(name: str, op: str, form: int) -> Row:
    pattern = f"0001 1001 oo1m mmmm {op} 00nn nnnd dddd"
    return row(name, pattern, Needs.LSE128, Unit.LSE128, form, 0, _USES)


ROWS: Final = (
    _quadword("LDCLRP", "0001", CLEAR),
    _quadword("LDSETP", "0011", SET),
    _quadword("SWPP", "1000", SWAP),
    row("BC.cond", "0101 0100 iiii iiii iiii iiii iii1 cccc", Needs.HBC, Unit.BRANCH, 0, 0, _USES),
    row(
        "CB<cc> (register)",
        "s111 0100 cccm mmmm bbii iiii iiid dddd",
        Needs.CMPBR,
        Unit.BRANCH,
        BY_REGISTER,
        0,
        _USES,
    ),
    row(
        "CB<cc> (immediate)",
        "s111 0101 ccci iiii i0ii iiii iiid dddd",
        Needs.CMPBR,
        Unit.BRANCH,
        BY_IMMEDIATE,
        0,
        _USES,
    ),
    row("LD64B", "1111 1000 0011 1111 1101 00nn nnnd dddd", Needs.LS64, Unit.LS64, 0, 0, _USES),
    row("ST64B", "1111 1000 0011 1111 1001 00nn nnnd dddd", Needs.LS64, Unit.LS64, 0, 0, _USES),
)
_ZERO_REGISTER: Final = 31
_LAST_OF_EIGHT: Final = 22


def is_undefined(one: Row, word: int) -> bool:
    """Whether a word of these rows is UNDEFINED all the same.

    An atomic of a quadword cannot have some registers. Rt and Rt2 that are one are CONSTRAINED
    UNPREDICTABLE, and UNDEFINED here. Of 64 bytes the first register is even, and X22 at most. A
    compare and branch has six conditions; registers are
    compared as words, doublewords, bytes and halfwords.
    """
    first, second = word & 31, word >> 16 & 31
    if one.unit == Unit.LSE128:
        return _ZERO_REGISTER in (first, second) or first == second
    if one.unit == Unit.LS64:
        return first & 1 == 1 or first > _LAST_OF_EIGHT
    if not one.needs & Needs.CMPBR:
        return False
    size = 0 if one.form == BY_IMMEDIATE else word >> 14 & 3
    return word >> 21 & 7 in (4, 5) or size == 1 or (size > 1 and word >> 31 == 1)


def combined(form: int, old: int, operand: int) -> int:
    """What is stored of what is there and of a register, each of 64 bits."""
    if form == CLEAR:
        return old & ~operand
    return old | operand if form == SET else operand
