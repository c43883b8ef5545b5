"""FEAT_SVE2p1 beside memory, against a model that is made of the pages of Arm's manual."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.instructions.decoder import ROWS
from spe_unicorn.instructions.rows import Needs, Uses
from tests.instructions.harness import Case, carried, random_state
from tests.instructions.sve2p1.model import PAGES, Page, Registers

SIZES = [16, 32, 48, 64, 128, 256]
"""The bytes of vectors, from 128 to 2048 bits."""


@pytest.mark.sweep
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
@pytest.mark.parametrize("size", SIZES)
def test_each_does_what_its_page_says(page: Page, size: int) -> None:
    """Random operands, predicates, counters, flags, FPCR and FPSR; registers may be the same."""
    random = Random(f"{page.name} {size}")
    cases: list[Case] = []
    expected = []
    for _ in range(max(12, 640 // size)):
        state = random_state(random, size)
        counters = [random.getrandbits(16) & random.choice((-1, 0x81FF)) for _ in range(8)]
        p = tuple(random.choice(pair) for pair in zip(state.p[8:], counters, strict=True))
        state = state._replace(p=(*state.p[:8], *p))
        fields = page.random_fields(random)
        registers = Registers(state, size)
        page.operation(registers, fields)
        cases.append((page.word(fields), state))
        expected.append(registers.result())
    assert carried(cases, size) == expected


def test_each_row_has_a_page() -> None:
    """Each word of a row of data processing is that of one page, and each page has a row."""
    random = Random(1)
    rows = [
        (one.name, one.mask, one.value)
        for one in ROWS
        if one.needs & Needs.SVE2P1 and not one.uses & Uses.MEMORY
    ]
    found = set()
    for page in PAGES:
        for _ in range(40):
            word = page.word(page.random_fields(random))
            (name,) = [name for name, mask, value in rows if word & mask == value]
            found.add(name)
    assert found == {name for name, _, _ in rows}
