"""Loads and stores of SVE2: non-temporal gathers and scatters.

Each accesses what a gather or scatter of SVE does that is not non-temporal, and no PE here treats
such accesses otherwise. So the host has the engine execute that one in its place, with its
translation, its faults and its order.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row

_SVE2, _UNIT = Needs.SVE | Needs.SVE2, Unit.SVE2_MEMORY
LOAD_S, LOAD_D, STORE_S, STORE_D = range(1, 5)
"""Forms: which way, and the size of elements of the vector."""
_SIZES: Final = ("B", "H", "W", "D")
_OPERANDS: Final = 0x1FFF
"""Pg, Zn and Zt, or what is in their places."""
_MSZ: Final = 3 << 23
_LD1, _ST1 = 0xA400_4000, 0xE400_4000
"""LD1B and ST1B, of elements of bytes, with a base and an index."""


def _row(name: str, high: str, msz: int, low: str, form: int) -> Row:
    """``high`` is bits 31:25 and 22:21, ``low`` bits 15:13."""
    first, second = high.split("-")
    pattern = f"{first} {msz:02b} {second} xxxxx {low} ggg nnnnn ddddd"
    return row(name, pattern, _SVE2, _UNIT, form, 0, Uses.MEMORY)


ROWS: Final[tuple[Row, ...]] = tuple(
    _row(f"{name}{_SIZES[msz]} ({what}), .{letter}", high, msz, low, form)
    for name, what, letter, high, low, form, sizes in (
        ("LDNT1", "gather", "S", "1000010-00", "101", LOAD_S, 3),
        ("LDNT1S", "gather", "S", "1000010-00", "100", LOAD_S, 2),
        ("LDNT1", "gather", "D", "1100010-00", "110", LOAD_D, 4),
        ("LDNT1S", "gather", "D", "1100010-00", "100", LOAD_D, 3),
        ("STNT1", "scatter", "S", "1110010-10", "001", STORE_S, 3),
        ("STNT1", "scatter", "D", "1110010-00", "001", STORE_D, 4),
    )
    for msz in range(sizes)
)


def in_its_place(form: int, word: int) -> int:
    """The word of SVE that accesses the same.

    That is ``[Xm, Zn.S, UXTW]`` or ``[Xm, Zn.D]`` for ``[Zn, Xm]``, and ``[Zn, #0]`` for XZR.
    """
    x, z = word >> 16 & 31, word >> 5 & 31
    kept = word & (_MSZ | _OPERANDS & ~(31 << 5))
    signed = 0 if word >> (13 if form == LOAD_S else 14) & 1 else 1
    if x == 31:
        base = {
            LOAD_S: 0x8420_8000 | (1 - signed) << 14,
            LOAD_D: 0xC420_8000 | (1 - signed) << 14,
            STORE_S: 0xE460_A000,
            STORE_D: 0xE440_A000,
        }[form]
        return base | kept | z << 5
    base = {
        LOAD_S: 0x8400_0000 | (1 - signed) << 14,
        LOAD_D: 0xC440_8000 | (1 - signed) << 14,
        STORE_S: 0xE440_8000,
        STORE_D: 0xE400_A000,
    }[form]
    return base | kept | z << 16 | x << 5


def contiguous(scale: int, operands: int, index: int, *, stores: bool = False) -> int:
    """The LD1 or ST1 of elements of ``1 << scale`` bytes with these operands, and ``index`` as Xm.

    The operands are Pg, the base and the vector, at their places in a word.
    """
    return (_ST1 if stores else _LD1) | 5 * scale << 21 | index << 16 | operands & _OPERANDS
