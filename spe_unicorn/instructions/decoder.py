"""From an instruction word to its row."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.compiled import Words, routine
from spe_unicorn.instructions import bf16, i8mm
from spe_unicorn.instructions.rows import Row
from spe_unicorn.instructions.sve2 import aes, floating, lanewise, memory, selecting, widening

ROWS: Final[tuple[Row, ...]] = tuple(
    one
    for rows in (i8mm, bf16, lanewise, widening, selecting, floating, memory, aes)
    for one in rows.ROWS
)
"""All rows."""
MASK, VALUE, NEEDS, UNIT, FORM, KIND, USES, NUMBER, ANY_OF = range(9)
"""The numbers of a row in the table."""
COLUMNS: Final = 9
BYTES: Final = 256
FIRST: Final = BYTES + 1
"""Numbers before the first row: for each highest byte of a word, where its rows begin."""
NONE: Final = -1


def _table() -> NDArray[np.int64]:
    starts = [FIRST]
    rows: list[int] = []
    for byte in range(BYTES):
        for n, one in enumerate(ROWS):
            if byte & one.mask >> 24 == one.value >> 24:
                rows += one.mask, one.value, int(one.needs), int(one.unit), one.form, one.kind
                rows += int(one.uses), n, one.any_of
        starts.append(FIRST + len(rows))
    return np.array([*starts, *rows], np.int64)


TABLE: Final = _table()
"""The rows as compiled code reads them."""


@routine
def find(table: Words, word: int, features: int) -> int:
    """Where the row of a word begins in the table; NONE for a word that is not there.

    ``features`` are the :class:`~spe_unicorn.instructions.rows.Needs` that the PE has.
    """
    byte = word >> 24
    for place in range(table[byte], table[byte + 1], COLUMNS):
        if word & table[place + MASK] == table[place + VALUE]:
            if table[place + NEEDS] & ~features != 0:
                return NONE
            any_of = table[place + ANY_OF]
            return place if any_of == 0 or word & any_of != 0 else NONE
    return NONE


def name_of(word: int) -> str | None:
    """The name of the instruction that a word is, whatever features there are."""
    place = find(TABLE, word, -1)
    return None if place == NONE else ROWS[TABLE[place + NUMBER]].name
