"""Rows of instruction words by their highest byte, as compiled code searches them.

A table begins with where the rows of each highest byte begin. A row is as many numbers as its
owner likes; the first two are those of :data:`MASK` and :data:`VALUE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
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
    numbers: list[list[int]] = [[] for _ in range(_BYTES)]
    for row in rows:
        for byte in _bytes_of(row[MASK] >> 24, row[VALUE] >> 24):
            numbers[byte] += row
    starts = accumulate(map(len, numbers), initial=_BYTES + 1)
    return np.array([*starts, *chain.from_iterable(numbers)], np.int64)


def _bytes_of(mask: int, value: int) -> Iterator[int]:
    """The bytes whose bits in ``mask`` are ``value``: with each subset of the other bits."""
    free = ~mask & (_BYTES - 1)
    others = free
    while others:
        yield others | value
        others = (others - 1) & free
    yield value


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
