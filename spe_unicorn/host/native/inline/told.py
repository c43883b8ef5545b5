"""Blocks that count themselves and tell somebody each time: a table by their addresses.

Each has a word that it tells as well. Who wants to be told has to know each address before a block
there comes to count itself, or to have the engine forget that block. Else the hook hears of it,
until the code is forgotten.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Rows, array_at, int64, layout, pointer_to, routine

TOLD: Final = 1 << 14
"""Rows of the table."""
_PROBES: Final = 16
_SPREAD: Final = 0x9E37_79B9
UNTOLD: Final = 1 << 18
"""Bytes of the table of addresses at which a block may count itself and tell nobody."""


class Telling:
    """A block that tells."""

    address: int
    """Its address; 0: the row is free."""
    word: int


TELLING: Final = layout(Telling)


@routine
def _first_row(address: int) -> int:
    return (address >> 2) * _SPREAD >> 12 & (TOLD - 1)


@routine
def _row_of(rows: Rows[Telling], address: int) -> int:
    """The row of an address, or a free one for it; -1 if there is none."""
    first = _first_row(address)
    for n in range(_PROBES):
        row = first + n & (TOLD - 1)
        if rows[row].address == address or rows[row].address == 0:
            return row
    return int64(-1)


@routine
def is_told(told: int, address: int) -> bool:
    """Whether the table at ``told`` has an address; 0 is no table."""
    if told == 0:
        return False
    rows = array_at(pointer_to(told), (TOLD,), TELLING)
    row = _row_of(rows, address)
    return row >= 0 and rows[row].address == address


@routine
def is_told_first(told: int, address: int) -> bool:
    """Whether the table at ``told`` has an address where it is looked for first."""
    rows = array_at(pointer_to(told), (TOLD,), TELLING)
    return rows[_first_row(address)].address == address


@routine
def word_of(told: int, address: int) -> int:
    """The word of an address that the table at ``told`` has."""
    rows = array_at(pointer_to(told), (TOLD,), TELLING)
    return rows[_row_of(rows, address)].word


@routine
def tell(rows: Rows[Telling], address: int, word: int) -> bool:
    """Put an address with its word into a table. Return False if it is full."""
    row = _row_of(rows, address)
    if row < 0:
        return False
    if rows[row].address == 0:
        rows[row].address, rows[row].word = address, word
    return True


@routine
def tell_at(told: int, address: int, word: int) -> bool:
    """The same with the table at an address."""
    return tell(array_at(pointer_to(told), (TOLD,), TELLING), address, word)


@routine
def may_be_untold(untold: int, address: int) -> bool:
    """Whether a block at an address may count itself and tell nobody."""
    return array_at(pointer_to(untold), (UNTOLD,), np.uint8)[address >> 2 & (UNTOLD - 1)] != 0


@routine
def note_untold(untold: int, address: int) -> None:
    """A block at an address counts itself, and tells nobody."""
    array_at(pointer_to(untold), (UNTOLD,), np.uint8)[address >> 2 & (UNTOLD - 1)] = 1
