"""Rows of instruction words by their highest byte, as compiled code searches them.

A table begins with where the rows of each highest byte begin. A row is as many numbers as its
owner likes; the first two are those of :data:`MASK` and :data:`VALUE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.compiled import Words, routine

MASK, VALUE = range(2)
"""The numbers of a row by which it is found: a word fits it whose bits in MASK are VALUE."""
NONE: Final = -1
"""No row fits."""
_BYTES: Final = 256


def table_of(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The table of ``rows``, all of one length. A row is there once for each byte that fits it."""
    starts = [_BYTES + 1]
    numbers: list[int] = []
    for byte in range(_BYTES):
        for row in rows:
            if byte & row[MASK] >> 24 == row[VALUE] >> 24:
                numbers += row
        starts.append(_BYTES + 1 + len(numbers))
    return np.array([*starts, *numbers], np.int64)


@routine
def first_fit(table: Words, word: int, columns: int) -> int:
    """Where the first row that ``word`` fits begins in ``table``, whose rows are ``columns`` long.

    NONE for a word that fits none.
    """
    byte = word >> 24
    for place in range(table[byte], table[byte + 1], columns):
        if word & table[place + MASK] == table[place + VALUE]:
            return place
    return NONE
