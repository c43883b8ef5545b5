"""Instructions that the engine has, and that often stand between those that it lacks.

Each time that the engine goes on after an exception costs as much as a few instructions. So where
one that it lacks has been carried out, those that follow are, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine
from spe_unicorn.instructions.registers import VECTOR_WORDS, VECTORS, RegistersRecord
from spe_unicorn.instructions.rows import Needs, Unit, row

_NEEDS, _UNIT = Needs.SVE | Needs.ROW, Unit.COMPANY
AND, ORR, EOR, BIC, MOVE = range(1, 6)
"""Forms."""
ROWS: Final = (
    row("AND (vectors, unpredicated)", "0000 0100 001m mmmm 0011 00nn nnnd dddd", _NEEDS, _UNIT,
        AND),
    row("ORR (vectors, unpredicated)", "0000 0100 011m mmmm 0011 00nn nnnd dddd", _NEEDS, _UNIT,
        ORR),
    row("EOR (vectors, unpredicated)", "0000 0100 101m mmmm 0011 00nn nnnd dddd", _NEEDS, _UNIT,
        EOR),
    row("BIC (vectors, unpredicated)", "0000 0100 111m mmmm 0011 00nn nnnd dddd", _NEEDS, _UNIT,
        BIC),
    row("MOVPRFX (unpredicated)", "0000 0100 0010 0000 1011 11nn nnnd dddd", _NEEDS, _UNIT, MOVE),
)  # fmt: skip


@routine
def carry_company(r: RegistersRecord, word: int, form: int) -> None:
    """Carry out an instruction."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    for at in range(r.bytes >> 3):
        if form == AND:
            z[d, at] = z[n, at] & z[m, at]
        elif form == ORR:
            z[d, at] = z[n, at] | z[m, at]
        elif form == EOR:
            z[d, at] = z[n, at] ^ z[m, at]
        elif form == BIC:
            z[d, at] = z[n, at] & ~z[m, at]
        else:
            z[d, at] = z[n, at]
