"""From an instruction word to the features that it needs."""

from __future__ import annotations

from typing import Final

from spe_unicorn.bits import signed
from spe_unicorn.compiled import Words, routine
from spe_unicorn.instructions.known import general, scalable, system, vectors
from spe_unicorn.instructions.known.features import IsaFeature, named
from spe_unicorn.instructions.known.rows import Known
from spe_unicorn.instructions.table import NONE, first_fit, table_of

ROWS: Final[tuple[Known, ...]] = (
    *scalable.CARRIED_OUT,
    *general.ROWS,
    *system.ROWS,
    *vectors.ROWS,
    *scalable.ROWS,
)
"""All rows; the first that a word fits is its row."""
NEEDS, NUMBER = 2, 3
"""The numbers of a row in the table behind its mask and value."""
COLUMNS: Final = 4
TABLE: Final = table_of([(one.mask, one.value, signed(one.needs), n) for n, one in enumerate(ROWS)])
"""The rows as compiled code reads them."""
MOST_NUMBERS: Final = 1 << 20
"""Numbers that the table cannot have."""


@routine
def needs_of(table: Words, word: int) -> int:
    """The features that a word needs, a bit each; 0 for what Armv8.0 has, and for none."""
    place = first_fit(table, word, COLUMNS)
    return 0 if place == NONE else table[place + NEEDS]


def known(word: int) -> Known | None:
    """The row of a word; None for what Armv8.0 has, and for what no table has."""
    place = first_fit(TABLE, word, COLUMNS)
    if place == NONE or not TABLE[place + NEEDS]:
        return None
    row: Known = ROWS[TABLE[place + NUMBER]]
    return row


def features_of(word: int) -> tuple[IsaFeature, ...]:
    """The features that a word needs; none for what Armv8.0 has, and for what no table has."""
    row = known(word)
    return () if row is None else named(row.needs)
