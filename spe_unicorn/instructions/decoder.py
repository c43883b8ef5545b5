"""From an instruction word to its row."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import Words, routine
from spe_unicorn.instructions import (
    at_stops,
    bf16,
    company,
    copying,
    cssc,
    i8mm,
    lookup,
    ordered,
    tags,
)
from spe_unicorn.instructions.rows import Needs, Row
from spe_unicorn.instructions.sve2 import (
    aes,
    floating,
    lanewise,
    matrix,
    memory,
    quadwords,
    selecting,
    sm4,
    widening,
)
from spe_unicorn.instructions.sve2.p1 import (
    arithmetic,
    predicates,
    quadword_access,
    reductions,
    segments,
)
from spe_unicorn.instructions.table import NONE, first_fit, table_of

_ROOMS: Final = (
    i8mm,
    bf16,
    lanewise,
    widening,
    selecting,
    floating,
    memory,
    aes,
    sm4,
    matrix,
    quadwords,
    predicates,
    reductions,
    segments,
    arithmetic,
    quadword_access,
    cssc,
    tags,
    at_stops,
    copying,
    ordered,
    lookup,
)
ROWS: Final[tuple[Row, ...]] = tuple(one for rows in _ROOMS for one in rows.ROWS)
"""All rows of what the engine lacks."""
NEEDS, UNIT, FORM, KIND, USES, NUMBER, ANY_OF = range(2, 9)
"""The numbers of a row in the table behind its mask and value."""
COLUMNS: Final = 9
TABLE: Final = table_of(
    [
        (
            one.mask,
            one.value,
            int(one.needs),
            int(one.unit),
            one.form,
            one.kind,
            int(one.uses),
            n,
            one.any_of,
        )
        for n, one in enumerate((*ROWS, *company.ROWS))
    ]
)
"""These rows, and those of ``company``, as compiled code reads them."""


@routine
def find(table: Words, word: int, features: int) -> int:
    """Where the row of a word begins in the table; NONE for a word that is not there.

    ``features`` are the :class:`~spe_unicorn.instructions.rows.Needs` that the PE has.
    """
    place = first_fit(table, word, COLUMNS)
    if place == NONE or table[place + NEEDS] & ~features != 0:
        return NONE
    any_of = table[place + ANY_OF]
    return place if any_of == 0 or word & any_of != 0 else NONE


def name_of(word: int) -> str | None:
    """The name of the instruction that a word is, whatever features there are."""
    place = find(TABLE, word, ~Needs.ROW)
    return None if place == NONE else ROWS[TABLE[place + NUMBER]].name
