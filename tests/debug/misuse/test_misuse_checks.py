"""Each check of a value, at the value that is just wrong and at the one that is just right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.registers.spe import (
    PMBIDR_EL1,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSDSFR_EL1,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIDR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
    PMSNEVFR_EL1,
)
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MDCR_EL2,
    MDCR_EL3,
    TTBR0_EL1,
    TTBR1_EL1,
)
from spe_unicorn.arch.rules.identification import pmsidr_el1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.debug import misuse_checks as checks
from spe_unicorn.debug.misuse_rules import RULES
from spe_unicorn.symbols.table import Symbol, SymbolTable
from tests.support.fakes import FakePE

LIMIT = 0x9000_0000


def careful_pe(
    registers: dict[type[SysReg], int] | None = None,
    *,
    core: str = "generic",
    without: Features = frozenset(),
) -> FakePE:
    """A PE of a core, its SPE registers as a careful driver leaves them, but for those given."""
    loaded = load_core(core)
    pe = FakePE(features=loaded.features - without, impdef=loaded.impdef)
    careful = {
        PMSIDR_EL1: pmsidr_el1(pe.features, pe.impdef).value,
        PMBIDR_EL1: pe.impdef.align,
        MDCR_EL3: 3 << 12,
        MDCR_EL2: 3 << 12,
        PMBPTR_EL1: LIMIT - 0x1000,
        PMBLIMITR_EL1: LIMIT | 1,
        PMSIRR_EL1: 4096,
    }
    for register, value in {**careful, **(registers or {})}.items():
        if register in pe.registers:
            pe.registers.set_raw(register, value)
    return pe


def broken_by_writing(register: type[SysReg], value: int, **options) -> list[str]:
    return [p.rule.name for p in checks.written(careful_pe(**options), register, value)]


def broken_with(registers: dict[type[SysReg], int], **options) -> list[str]:
    return [p.rule.name for p in checks.configuration(careful_pe(registers, **options))]


def test_a_careful_driver_breaks_nothing() -> None:
    assert broken_with({}) == []
    for register, value in (
        (PMBPTR_EL1, LIMIT - 64),
        (PMBLIMITR_EL1, LIMIT | 5),
        (PMSCR_EL1, 0x7B),
    ):
        assert broken_by_writing(register, value) == []


def test_a_pointer_is_a_multiple_of_the_alignment() -> None:
    assert broken_by_writing(PMBPTR_EL1, LIMIT + 32) == ["pointer-unaligned"]
    assert broken_by_writing(PMBPTR_EL1, LIMIT + 32, core="minimal") == []  # PMBIDR_EL1.Align is 0


@pytest.mark.parametrize("low", [0x100, 0x800, 0x40, 0x10, 0x8])
def test_a_limit_is_a_multiple_of_a_page(low: int) -> None:
    assert broken_by_writing(PMBLIMITR_EL1, LIMIT | low | 1) == ["limit-unaligned"]


def test_a_limit_is_a_multiple_of_the_smallest_granule() -> None:
    pe = careful_pe()
    pe.impdef = ImpDef(granule=16)
    pe.registers = RegisterFile(pe.features, list(pe.registers), pe.impdef)
    for limit, broken in ((0x9000_1000, ["limit-unaligned"]), (0x9001_0000, [])):
        found = [p.rule.name for p in checks.written(pe, PMBLIMITR_EL1, limit | 1)]
        assert found == broken


def test_a_record_of_the_largest_size_fits_below_the_limit() -> None:
    assert broken_with({PMBPTR_EL1: LIMIT - 128}) == []  # MaxSize 7
    assert broken_with({PMBPTR_EL1: LIMIT - 64}) == ["pointer-too-high"]
    assert broken_with({PMBPTR_EL1: LIMIT - 64}, core="minimal") == []  # MaxSize 6
    assert broken_with({PMBPTR_EL1: LIMIT + 0x1000}) == ["pointer-too-high"]


def test_pointer_and_limit_have_the_same_top_byte() -> None:
    assert broken_with({PMBPTR_EL1: 1 << 56 | LIMIT - 0x1000}) == ["pointer-top-byte"]
    both = {PMBPTR_EL1: 1 << 56 | LIMIT - 0x1000, PMBLIMITR_EL1: 1 << 56 | LIMIT | 1}
    assert broken_with(both) == []


def test_a_buffer_is_no_larger_than_the_core_says() -> None:
    """PMBIDR_EL1.MaxBuffSize is bits 47:32; with an exponent of 0 it counts pages (D24.7)."""
    two_pages = 2 << 32
    for size, broken in ((0x2000, []), (0x3000, ["buffer-too-large"])):
        assert broken_with({PMBIDR_EL1: two_pages | 6, PMBPTR_EL1: LIMIT - size}) == broken
    assert broken_with({PMBPTR_EL1: LIMIT - 0x1000_0000}) == []  # 0 is no limit
    # exponent 1, mantissa 1: (0x200 + 1) << 12 bytes
    large = {PMBIDR_EL1: (1 << 9 | 1) << 32 | 6}
    assert broken_with({**large, PMBPTR_EL1: LIMIT - (0x201 << 12)}) == []
    assert broken_with({**large, PMBPTR_EL1: LIMIT - (0x202 << 12)}) == ["buffer-too-large"]


RECORDS = LIMIT - 0x1000
FUNCTION = Symbol(LIMIT - 0x800, "work", 16, function=True)
ARRAY, OTHER = Symbol(RECORDS, "records", 0x800), Symbol(RECORDS + 0x800, "table", 8)
LABEL = Symbol(RECORDS + 0x800, "records_end")


@pytest.mark.parametrize(
    ("symbols", "sp", "what"),
    [
        ([], None, None),
        ([], RECORDS, None),  # a stack that ends where the buffer begins
        ([], RECORDS + 8, "the stack, SP 0x8ffff008, is in between"),
        ([], LIMIT, "the stack, SP 0x90000000, is in between"),
        ([], LIMIT + 16, None),
        ([FUNCTION], None, "work at 0x8ffff800 is in between"),
        ([ARRAY, OTHER], None, "table at 0x8ffff800 is in between"),
        ([ARRAY, LABEL], None, None),
        ([OTHER], None, None),  # nobody knows what the buffer is
        ([ARRAY, Symbol(LIMIT, "table", 8)], None, None),
    ],
)
def test_nothing_else_lies_in_the_buffer(
    symbols: list[Symbol], sp: int | None, what: str | None
) -> None:
    found = list(checks.buffer(careful_pe(), lambda _: True, SymbolTable(symbols), sp))
    assert [p.rule.name for p in found] == ([] if what is None else ["buffer-over-program"])
    assert what is None or found[0].what.endswith(f", limit 0x90000000: {what}")


def test_all_of_the_buffer_is_memory() -> None:
    def broken(memory: dict[int, bool | None], **registers: int) -> list[str]:
        pe = careful_pe({PMBLIMITR_EL1: registers.get("limit", LIMIT | 1)})
        return [p.what for p in checks.buffer(pe, memory.get, SymbolTable(), None)]

    first, last = RECORDS, LIMIT - 1
    assert broken({first: True, last: True}) == []
    assert broken({first: True, last: None}) == []  # a hole gives a fault
    values = "PMBPTR_EL1 0x8ffff000, limit 0x90000000"
    assert broken({first: True, last: False}) == [f"{values}: nothing is at 0x8fffffff"]
    assert broken({first: False, last: False}) == [f"{values}: nothing is at 0x8ffff000"]
    assert broken({first: False, last: False}, limit=LIMIT | 0b101) == []  # discard mode


def test_in_discard_mode_pointers_do_not_matter() -> None:
    assert broken_with({PMBPTR_EL1: LIMIT, PMBLIMITR_EL1: LIMIT | 0b101}) == []


def test_an_interval_is_at_least_what_the_core_recommends() -> None:
    assert broken_with({PMSIRR_EL1: 0}) == ["interval-zero"]
    assert broken_with({PMSIRR_EL1: 1}) == ["interval-zero"]  # RND is no interval
    assert broken_with({PMSIRR_EL1: 0x100}) == []  # 256
    for interval, broken in ((0x300, ["interval-too-short"]), (0x400, [])):  # 768, 1024
        assert broken_with({PMSIRR_EL1: interval}, core="cortex-x4") == broken


MISPREDICTED, TLB_WALK = 1 << 7, 1 << 5


@pytest.mark.parametrize(
    ("registers", "broken"),
    [
        ({PMSFCR_EL1: 1}, ["event-filter-empty"]),
        ({PMSFCR_EL1: 1, PMSEVFR_EL1: MISPREDICTED}, []),
        ({PMSFCR_EL1: 1, PMSEVFR_EL1: 1 << 2}, ["event-filter-empty"]),  # generic has no caches
        ({PMSFCR_EL1: 1, PMSEVFR_EL1: 1 << 1}, []),  # retired, as all that generic samples is
        ({PMSFCR_EL1: 8}, ["inverted-filter-empty"]),
        ({PMSFCR_EL1: 8, PMSNEVFR_EL1: MISPREDICTED}, []),
        (
            {PMSFCR_EL1: 9, PMSEVFR_EL1: MISPREDICTED, PMSNEVFR_EL1: MISPREDICTED | TLB_WALK},
            ["filters-contradict"],
        ),
        ({PMSFCR_EL1: 9, PMSEVFR_EL1: MISPREDICTED, PMSNEVFR_EL1: TLB_WALK}, []),
        ({PMSFCR_EL1: 4}, ["latency-filter-zero"]),
        ({PMSFCR_EL1: 4, PMSLATFR_EL1: 1}, []),
        ({PMSFCR_EL1: 2}, ["type-filter-empty"]),
        ({PMSFCR_EL1: 2 | 1 << 17}, []),
        ({PMSFCR_EL1: 0, PMSEVFR_EL1: 0}, []),
    ],
)
def test_an_enabled_filter_has_something_to_select_by(
    registers: dict[Any, Any], broken: list[Any] | list[str]
) -> None:
    assert broken_with(registers) == broken


def test_with_the_extended_type_filter_no_type_means_all_types() -> None:
    assert broken_with({PMSFCR_EL1: 2}, core="max") == []


@pytest.mark.parametrize(
    ("register", "value", "broken"),
    [
        (PMSCR_EL1, 1 << 2, "reserved-bits"),
        (PMSCR_EL1, 0b11 << 6, "reserved-bits"),  # PCT[1] is for FEAT_ECV
        (PMSFCR_EL1, 1 << 4, "reserved-bits"),  # FDS, FEAT_SPE_FDS
        (PMSIRR_EL1, 0x102, "reserved-bits"),
        (PMSICR_EL1, 1 << 40, "reserved-bits"),
        (PMSLATFR_EL1, 1 << 16, "reserved-bits"),
        (PMBLIMITR_EL1, LIMIT | 1 << 7, "reserved-bits"),  # nVM, FEAT_SPE_nVM
        (PMBLIMITR_EL1, LIMIT | 0b010, "reserved-value"),
        (PMBLIMITR_EL1, LIMIT | 0b110, "reserved-value"),
    ],
)
def test_reserved_bits_and_values_are_named(register: Any, value: int, broken: str) -> None:
    assert broken_by_writing(register, value) == [broken]


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (4, "0x400"),  # INTERVAL as if it began at bit 0
        (0xFE, "0xfe00"),
        (1000, "0x400"),  # a number of operations
        (1025 + 0x80, "0x500"),
        (0x1_0002, "0x10000"),
    ],
)
def test_an_interval_in_the_wrong_bits_is_asked_about(value: int, asked: str) -> None:
    (problem,) = checks.written(careful_pe(), PMSIRR_EL1, value)
    assert problem.rule.name == "reserved-bits"
    assert problem.what == f"INTERVAL is bits 31:8, in units of 256 operations: {asked}?"


def test_bits_above_the_interval_are_named() -> None:
    (problem,) = checks.written(careful_pe(), PMSIRR_EL1, 1 << 40 | 2)
    assert problem.what == "this core has no bit 1, bit 40"


def test_of_a_field_that_a_core_has_in_part_the_missing_bits_are_named() -> None:
    """PMSLATFR_EL1.MINLAT has 12 bits where PMSIDR_EL1.CountSize is 2."""
    (problem,) = checks.written(careful_pe(core="neoverse-n2"), PMSLATFR_EL1, 0xFFFF)
    assert problem.what == "this core has no MINLAT[15:12]"
    assert not list(checks.written(careful_pe(core="neoverse-n2"), PMSLATFR_EL1, 0xFFF))
    assert not list(checks.written(careful_pe(), PMSLATFR_EL1, 0xFFFF))


def test_what_is_reserved_depends_on_the_core() -> None:
    assert broken_by_writing(PMSFCR_EL1, 1 << 4, core="max") == []
    assert broken_by_writing(PMBLIMITR_EL1, LIMIT | 1 << 7, core="max") == []
    assert broken_by_writing(PMSLATFR_EL1, 0x1000, core="minimal") == ["reserved-bits"]  # 12 bits
    # discard mode came with FEAT_SPEv1p2
    assert broken_by_writing(PMBLIMITR_EL1, LIMIT | 0b100, core="minimal") == ["reserved-value"]
    # PMSCR_EL1.EE 1 and 2 are for a guest hypervisor
    assert broken_by_writing(PMSCR_EL1, 1 << 8, core="max") == []
    nested = frozenset({Feature.FEAT_NV, Feature.FEAT_NV2})
    options = {"core": "max", "without": nested}
    assert broken_by_writing(PMSCR_EL1, 1 << 8, **options) == ["reserved-value"]
    assert broken_by_writing(PMSCR_EL1, 3 << 8, **options) == []


@pytest.mark.parametrize("register", [PMSEVFR_EL1, PMSNEVFR_EL1, PMSDSFR_EL1])
def test_any_bit_may_be_written_where_software_finds_out_which_there_are(
    register: type[PMSDSFR_EL1] | type[PMSEVFR_EL1] | type[PMSNEVFR_EL1],
) -> None:
    assert broken_by_writing(register, (1 << 64) - 1, core="max") == []


def test_a_syndrome_may_be_put_back_whatever_it_is() -> None:
    assert broken_by_writing(PMBSR_EL1, 0x11 << 26) == []


def test_pct_is_ignored_without_el2() -> None:
    without = frozenset({Feature.FEAT_EL2, Feature.FEAT_VHE})
    assert broken_by_writing(PMSCR_EL1, 0b11 << 6, without=without) == []


def test_enables_of_el2_need_the_buffer_to_be_el2s() -> None:
    for bits in (1, 2, 3):
        assert broken_by_writing(PMSCR_EL2, bits) == ["enable-ignored"]
        assert broken_by_writing(PMSCR_EL2, bits, registers={MDCR_EL2: 0}) == []
    assert broken_by_writing(PMSCR_EL2, 1 << 4) == []


@pytest.mark.parametrize("e2pb", range(4))
def test_e2pb_1_is_reserved(e2pb: int) -> None:
    found = [p.rule.name for p in checks.steering(careful_pe({MDCR_EL2: e2pb << 12}), MDCR_EL2)]
    assert found == (["reserved-value"] if e2pb == 1 else [])


def test_only_the_tables_of_the_buffers_half_count() -> None:
    def translation(pointer: int, register: type[SysReg], value: int) -> dict[str, int]:
        return checks.translation(careful_pe({PMBPTR_EL1: pointer, register: value}))

    low, high = LIMIT, 0xFFFF_FF80_0000_0000
    for pointer, mine, other in ((low, TTBR0_EL1, TTBR1_EL1), (high, TTBR1_EL1, TTBR0_EL1)):
        same = translation(pointer, mine, 0x4000_0000)
        assert translation(pointer, mine, 0x5000_0000) != same
        assert translation(pointer, mine, 7 << 48 | 0x4000_0000) == same  # another ASID
        assert translation(pointer, other, 0x5000_0000) == translation(pointer, other, 0)


def test_names_of_rules_are_words_and_each_is_there_once() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names) >= 20
    assert all(name.replace("-", "").islower() for name in names)
    assert all(rule.source.startswith("D") and rule.advice for rule in RULES)


def test_the_page_has_every_rule_as_it_is() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "misuse.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    assert rows == [f"| `{rule.name}` | {rule.text} | {rule.source} |" for rule in RULES]


def test_the_translation_of_a_buffer_of_el2_without_vhe_has_one_table() -> None:
    features = frozenset({Feature.FEAT_SPE, Feature.FEAT_EL2})
    pe = FakePE({PMBPTR_EL1: 1 << 55, HCR_EL2: 1 << 34, MDCR_EL2: 0}, el=2, features=features)
    assert "TTBR0_EL2.BADDR" in checks.translation(pe)
