"""FEAT_LRCPC3: loads that acquire and stores that release, of pairs, with writeback, of SIMD&FP.

The order of accesses is no matter here, as each is made before the next. So the host has the engine
execute the load or store that is not ordered in the place of one, with its translation, its faults
and its writeback, after the host has asked whether it lies within 16 bytes.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row

PAIR, WRITEBACK, UNSCALED, LANE = range(1, 5)
"""Forms."""
_LOAD: Final = 1 << 22
_GENERAL: Final = Uses.MEMORY | Uses.GENERAL


def _row(name: str, pattern: str, form: int, uses: Uses) -> Row:
    return row(name, f"{pattern}nn nnnd dddd", Needs.LRCPC3, Unit.ORDERED, form, 0, uses)


ROWS: Final = (
    _row("LDIAPP", "1s01 1001 010m mmmm 000o 10", PAIR, _GENERAL),
    _row("STILP", "1s01 1001 000m mmmm 000o 10", PAIR, _GENERAL),
    _row("LDAPR (post-index)", "1s01 1001 1100 0000 0000 10", WRITEBACK, _GENERAL),
    _row("STLR (pre-index)", "1s01 1001 1000 0000 0000 10", WRITEBACK, _GENERAL),
    _row("LDAPUR (SIMD&FP)", "ss01 1101 010i iiii iiii 10", UNSCALED, Uses.MEMORY),
    _row("STLUR (SIMD&FP)", "ss01 1101 000i iiii iiii 10", UNSCALED, Uses.MEMORY),
    _row("LDAPUR (SIMD&FP, 128 bits)", "0001 1101 110i iiii iiii 10", UNSCALED, Uses.MEMORY),
    _row("STLUR (SIMD&FP, 128 bits)", "0001 1101 100i iiii iiii 10", UNSCALED, Uses.MEMORY),
    _row("LDAP1 (SIMD&FP)", "0q00 1101 0100 0001 1000 01", LANE, Uses.MEMORY),
    _row("STL1 (SIMD&FP)", "0q00 1101 0000 0001 1000 01", LANE, Uses.MEMORY),
)


def not_ordered(form: int, word: int) -> int:
    """The word that accesses the same, and orders nothing.

    LDP and STP, LDR and STR with writeback, LDUR and STUR, LD1 and ST1 of a doubleword.
    """
    load, wide, registers = word & _LOAD, word >> 30 & 1, word & 0x3FF
    if form == PAIR:
        second = (word >> 16 & 31) << 10
        base = wide << 31 | load | second | registers
        if word >> 12 & 1:
            return 0x2900_0000 | base
        offset, mode = (2, 0x2880_0000) if load else (-2, 0x2980_0000)
        return mode | (offset & 0x7F) << 15 | base
    if form == WRITEBACK:
        size = 8 if wide else 4
        offset, mode = (size, 0x3840_0400) if load else (-size, 0x3800_0C00)
        return 0x8000_0000 | wide << 30 | mode | (offset & 0x1FF) << 12 | registers
    if form == UNSCALED:
        return 0x3C00_0000 | word & 0xC0DF_F3FF
    return word & ~(1 << 16)
