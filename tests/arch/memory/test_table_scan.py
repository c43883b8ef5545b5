"""Looking through the tables of a Secure regime for Non-secure mappings of a range."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.memory.descriptors import Regime
from spe_unicorn.arch.memory.regimes import TranslationContext, translation_context
from spe_unicorn.arch.memory.table_scan import maps_as_non_secure
from spe_unicorn.arch.memory.walk_parameters import Stage1Registers
from spe_unicorn.arch.spaces import PASpace
from tests.support.fakes import FakeMemory

VALID, TABLE, PAGE, AF, NS, NS_TABLE = 1, 3, 3, 1 << 10, 1 << 5, 1 << 63
ROOT = 0x1000
SECURE = [(0x0E00_0000, 0x0F00_0000)]


def memory_of(cells: dict[int, int]) -> FakeMemory:
    memory = FakeMemory(read_only=range(1 << 40))  # a scan writes nothing
    memory.cells = cells
    return memory


def el3(sctlr: int = 1, paspace: PASpace = PASpace.Secure) -> TranslationContext:
    """39 bits of input, so from level 1; 36 bits of output."""
    return translation_context(
        Regime.EL3, Stage1Registers(sctlr=sctlr, tcr=25 | 1 << 16, ttbr0=ROOT), paspace=paspace
    )


def scan(cells: dict[int, int], context: TranslationContext | None = None) -> bool:
    return maps_as_non_secure(context or el3(), SECURE, memory_of(cells))


def test_secure_mapping_is_none() -> None:
    assert not scan({ROOT: VALID | AF})


def test_block_that_holds_the_range_is_one() -> None:
    assert scan({ROOT + 8 * 511: VALID | AF | NS})


def test_block_beside_the_range_is_none() -> None:
    assert not scan({ROOT: 0x4000_0000 | VALID | AF | NS})


@pytest.mark.parametrize(
    ("output", "found"),
    [(0x0DFF_F000, False), (0x0E00_0000, True), (0x0EFF_F000, True), (0x0F00_0000, False)],
)
def test_page_counts_at_the_edges_of_the_range(output: int, found: bool) -> None:
    cells = {ROOT: 0x2000 | TABLE, 0x2008: 0x3000 | TABLE, 0x3010: output | PAGE | AF | NS}
    assert scan(cells) == found


def test_page_below_an_ns_table_is_non_secure() -> None:
    cells = {ROOT: 0x2000 | TABLE, 0x2008: 0x3000 | TABLE, 0x3010: 0x0E00_0000 | PAGE | AF}
    assert not scan(cells)
    assert scan({**cells, ROOT: 0x2000 | TABLE | NS_TABLE})
    assert scan({**cells, 0x2008: 0x3000 | TABLE | NS_TABLE})


def test_invalid_descriptor_is_no_mapping() -> None:
    assert not scan({ROOT: AF | NS})


def test_table_that_points_to_itself_ends_the_scan() -> None:
    assert not scan({ROOT: ROOT | TABLE})


def test_tables_that_cannot_be_read_map_nothing() -> None:
    memory = memory_of({ROOT: 0x2000 | TABLE | NS_TABLE, 0x2000: 0x0E00_0000 | VALID | AF})
    assert maps_as_non_secure(el3(), SECURE, memory)
    memory.secure = {0x2000}
    assert not maps_as_non_secure(el3(), SECURE, memory)


def test_regime_that_does_not_translate_has_no_mappings() -> None:
    assert not scan({ROOT: VALID | AF | NS}, el3(sctlr=0))


def test_non_secure_regime_has_no_choice_and_is_not_asked() -> None:
    assert not scan({ROOT: VALID | AF | NS}, el3(paspace=PASpace.NonSecure))


def test_both_halves_of_el1_are_looked_through() -> None:
    def el10(epd1: int) -> TranslationContext:
        tcr = 25 | 25 << 16 | 2 << 30 | 1 << 32 | epd1 << 23
        registers = Stage1Registers(sctlr=1, tcr=tcr, ttbr0=0x8000, ttbr1=ROOT)
        return translation_context(Regime.EL10, registers, paspace=PASpace.Secure)

    assert scan({ROOT: VALID | AF | NS}, el10(0))
    assert not scan({ROOT: VALID | AF | NS}, el10(1))


def test_more_tables_than_are_looked_through_count_as_a_mapping() -> None:
    first = ROOT + 0x1000
    tables = [first + 0x1000 * n for n in range(4200)]
    cells = {ROOT + 8 * n: tables[n] | TABLE for n in range(16)}
    below = iter(tables[16:])
    for parent in tables[:16]:
        for n in range(256):
            cells[parent + 8 * n] = next(below) | TABLE
    assert scan(cells)
    assert not scan({at: cell for at, cell in cells.items() if at < first + 0x8000})
