"""From an instruction word to the features that it needs."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.compiled import Words, routine
from spe_unicorn.instructions.known import general, scalable, system, vectors
from spe_unicorn.instructions.known.features import IsaFeature, named
from spe_unicorn.instructions.known.rows import Known

ROWS: Final[tuple[Known, ...]] = (
    *scalable.CARRIED_OUT,
    *general.ROWS,
    *system.ROWS,
    *vectors.ROWS,
    *scalable.ROWS,
)
"""All rows; the first that a word fits is its row."""
MASK, VALUE, NEEDS, NUMBER = range(4)
"""The numbers of a row in the table."""
COLUMNS: Final = 4
BYTES: Final = 256
FIRST: Final = BYTES + 1
"""Numbers before the first row: for each highest byte of a word, where its rows begin."""
NONE: Final = -1
MOST_NUMBERS: Final = 1 << 20
"""Numbers that the table cannot have."""


def _table() -> NDArray[np.int64]:
    starts = [FIRST]
    rows: list[int] = []
    for byte in range(BYTES):
        for n, one in enumerate(ROWS):
            if byte & one.mask >> 24 == one.value >> 24:
                rows += one.mask, one.value, one.needs, n
        starts.append(FIRST + len(rows))
    return np.array([*starts, *rows], np.int64)


TABLE: Final = _table()
"""The rows as compiled code reads them."""


@routine
def row_of(table: Words, word: int) -> int:
    """Where the row of a word begins in the table; NONE for a word that is not there."""
    byte = word >> 24
    for place in range(table[byte], table[byte + 1], COLUMNS):
        if word & table[place + MASK] == table[place + VALUE]:
            return place
    return NONE


@routine
def needs_of(table: Words, word: int) -> int:
    """The features that a word needs, a bit each; 0 for what Armv8.0 has, and for none."""
    place = row_of(table, word)
    return 0 if place == NONE else table[place + NEEDS]


def known(word: int) -> Known | None:
    """The row of a word; None for what Armv8.0 has, and for what no table has."""
    place = row_of(TABLE, word)
    if place == NONE or not TABLE[place + NEEDS]:
        return None
    row: Known = ROWS[TABLE[place + NUMBER]]
    return row


def features_of(word: int) -> tuple[IsaFeature, ...]:
    """The features that a word needs; none for what Armv8.0 has, and for what no table has."""
    row = known(word)
    return () if row is None else named(row.needs)
