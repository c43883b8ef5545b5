"""The tables: each word has one row at most, and a row only where the PE has what it needs."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import cast

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.operation import NZCV, Family, Mark
from spe_unicorn.compiled import Words
from spe_unicorn.decode import decode
from spe_unicorn.instructions.decoder import ROWS, TABLE, find, name_of
from spe_unicorn.instructions.features import needs_met
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.p1.predicates import COUNT
from spe_unicorn.instructions.table import NONE, first_fit, table_of


def test_no_word_has_two_rows() -> None:
    twice = [
        (a.name, b.name)
        for a, b in combinations(ROWS, 2)
        if (a.value ^ b.value) & a.mask & b.mask == 0
    ]
    assert twice == []
    assert len({one.name for one in ROWS}) == len(ROWS)


def word_of(one: Row) -> int:
    """A word of a row, with its operands 0 where they may be."""
    return one.value | one.any_of


def test_each_row_is_found_by_its_word() -> None:
    for one in ROWS:
        assert name_of(word_of(one)) == one.name
        assert name_of(one.value | ~one.mask & 0xFFFF_FFFF) == one.name
        assert (name_of(one.value) is None) == (one.any_of != 0)


def test_what_the_engine_has_is_not_found() -> None:
    # ADD V0.4S, V1.4S, V2.4S; UDOT; SDOT (SVE); FADD Z0.S; UDF
    for word in (0x4EA2_8420, 0x6E82_9420, 0x4482_0020, 0x6582_0020, 0):
        assert name_of(word) is None


def test_a_row_is_found_only_with_all_that_it_needs() -> None:
    table = cast("Words", TABLE)
    for one in ROWS:
        for need in (need for need in Needs if need & one.needs):
            assert find(table, word_of(one), int(~need)) == NONE, one.name
        assert find(table, word_of(one), int(one.needs)) != NONE, one.name


def test_needs_follow_from_features() -> None:
    assert needs_met(frozenset()) == 0
    assert needs_met(frozenset({Feature.FEAT_SVE, Feature.FEAT_BF16})) == Needs.SVE | Needs.BF16


def test_records_tell_what_each_writes_and_accesses() -> None:
    """Accesses to tags, copies, ordered accesses and those of 64 bytes have tests of their own."""
    for one in ROWS:
        if one.unit in (Unit.TAG_ACCESS, Unit.COPYING, Unit.LS64, Unit.ORDERED):
            continue
        instruction = decode(word_of(one))
        writes = (1 << NZCV if one.uses & Uses.FLAGS else 0) | bool(one.uses & Uses.GENERAL)
        writes |= one.unit is Unit.SVE2P1_PREDICATES and one.form == COUNT
        writes = 0 if one.unit is Unit.BRANCH else writes
        assert (instruction.mark, instruction.writes) == (Mark.NONE, writes), one.name
        assert instruction.sve == one.sve
        assert (instruction.family is not Family.OTHER) == bool(one.uses & Uses.MEMORY)


def test_a_pattern_has_32_bits() -> None:
    with pytest.raises(ValueError, match="MUL: the pattern has 4 bits"):
        row("MUL", "0101", Needs.SVE, Unit.I8MM, 1)


def test_found_is_the_first_row_that_fits() -> None:
    random = Random(1)
    masks = [random.getrandbits(32) & random.getrandbits(32) for _ in range(60)]
    rows = [(mask, random.getrandbits(32) & mask, n) for n, mask in enumerate(masks)]
    by_byte = table_of(rows)
    words = [value | random.getrandbits(32) & ~mask for mask, value, _ in rows for _ in range(20)]
    for word in (*words, *(random.getrandbits(32) for _ in range(200))):
        expected = next((n for mask, value, n in rows if word & mask == value), NONE)
        place = first_fit(by_byte, word, 3)
        assert (NONE if place == NONE else by_byte[place + 2]) == expected
