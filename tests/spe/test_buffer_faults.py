"""Every fault of a buffer write, in every owner and granule: syndrome, pointer, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.spe_registers import (
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSCR_EL2,
)
from spe_unicorn.arch.system_registers import (
    HCR_EL2,
    MDCR_EL3,
    SCR_EL3,
    SCTLR_EL1,
    TTBR0_EL1,
    TTBR0_EL2,
)
from spe_unicorn.spe.record import PlacedRecord, decode_stream
from tests.spe.bench import Bench
from tests.spe.buffer_tables import (
    ACCESSED,
    AP_TABLE_READ_ONLY,
    BYTE_ALIGNED,
    DBM,
    FRAME,
    NOWHERE,
    PAGE,
    PAGE2,
    READ_ONLY,
    READABLE2,
    START,
    START2,
    TABLE,
    TABLES,
    WRITABLE2,
    Tables,
    TranslatedBench,
)
from tests.spe.fakes import EXC, WITH_EL2, WITH_EL3, alu, load

OWNERS = ("EL1&0", "EL2", "EL2&0")
GRANULES = (12, 14, 16)
STAGE1, STAGE2 = 0x24, 0x25
BEYOND = 1 << 41
"""An output address of more than 40 bits."""

Spoil = Callable[[TranslatedBench, Tables, int], None]
"""Makes the translation of an address fail, where it was good before."""


def invalid(level: int) -> Spoil:
    return lambda bench, tables, address: tables.put(tables.entry(address, level), 0)


def table_beyond(level: int) -> Spoil:
    return lambda bench, tables, address: tables.put(tables.entry(address, level), BEYOND | TABLE)


def aborting(level: int) -> Spoil:
    """The descriptor of ``level`` cannot be fetched."""

    def spoil(bench: TranslatedBench, tables: Tables, address: int) -> None:
        place = tables.entry(address, level)
        bench.memory.aborting |= {*range(place, place + 8)}

    return spoil


def page(change: Callable[[int], int]) -> Spoil:
    def spoil(bench: TranslatedBench, tables: Tables, address: int) -> None:
        place = tables.entry(address, 3)
        tables.put(place, change(tables.get(place)))

    return spoil


def read_only_by_table(bench: TranslatedBench, tables: Tables, address: int) -> None:
    place = tables.entry(address, 2)
    tables.put(place, tables.get(place) | AP_TABLE_READ_ONLY)


def stage1_faults(granule: int) -> list[tuple[Spoil, int]]:
    """Each with its FSC."""
    levels = range(START[granule], 4)
    return [
        *((invalid(level), 0x04 + level) for level in levels),
        *((table_beyond(level), 0x00 + level) for level in levels if level < 3),
        *((aborting(level), 0x14 + level) for level in levels),
        (page(lambda d: d | BEYOND), 0x03),
        (page(lambda d: d & ~ACCESSED), 0x0B),
        (page(lambda d: d | READ_ONLY), 0x0F),
        (read_only_by_table, 0x0F),
    ]


def stage2_faults(granule: int) -> list[tuple[Spoil, int]]:
    levels = range(START2[granule], 4)
    return [
        *((invalid(level), 0x04 + level) for level in levels),
        *((table_beyond(level), 0x00 + level) for level in levels if level < 3),
        *((aborting(level), 0x14 + level) for level in levels),
        (page(lambda d: d | BEYOND), 0x03),
        (page(lambda d: d & ~ACCESSED), 0x0B),
        (page(lambda d: d & ~WRITABLE2), 0x0F),
    ]


def cases(faults: Callable[[int], list[tuple[Spoil, int]]]) -> list[tuple[int, int]]:
    """Granule and number of each fault."""
    return [(g, n) for g in GRANULES for n in range(len(faults(g)))]


def expect_event(bench: Bench, ec: int, fsc: int, pointer: int, *, lost: bool = False) -> None:
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=ec, MSS=fsc, DL=int(lost))
    assert bench.registers.raw(PMBPTR_EL1) == pointer
    assert bench.line.levels[-1] is True
    assert not bench.unit.enabled


def service(bench: TranslatedBench, pointer: int) -> None:
    """What a driver does behind an event: put the mapping right, clear S, go on."""
    bench.registers.write(PMBPTR_EL1, pointer)
    bench.registers.write(PMBSR_EL1, 0)
    bench.unit.reload()
    bench.sample(alu(el=bench.pe.el))


def sampled(bench: TranslatedBench) -> None:
    bench.sample(alu(el=bench.pe.el))


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("granule", GRANULES)
def test_record_goes_where_its_page_is_mapped(owner: str, granule: int) -> None:
    bench = TranslatedBench(owner, granule)
    va = 5 << granule
    bench.tables.map(va, FRAME | PAGE)
    bench.place(va + 0x123, va + (1 << granule))
    sampled(bench)
    assert bench.pmbsr() == PMBSR_EL1(0)
    assert bench.memory.read(FRAME + 0x123, len(bench.seen[0])) == bench.seen[0]
    assert bench.registers.raw(PMBPTR_EL1) == va + 0x123 + len(bench.seen[0])


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize(("granule", "number"), cases(stage1_faults))
def test_stage_1_fault_at_the_first_byte(owner: str, granule: int, number: int) -> None:
    spoil, fsc = stage1_faults(granule)[number]
    bench = TranslatedBench(owner, granule)
    va = 5 << granule
    bench.tables.map(va, FRAME | PAGE)
    spoil(bench, bench.tables, va)
    bench.place(va, va + (1 << granule))
    memory = dict(bench.memory.bytes)
    sampled(bench)
    expect_event(bench, STAGE1, fsc, va)
    assert bench.memory.bytes == memory
    assert bench.unit.statistics.lost == 1
    bench.memory.aborting.clear()
    for level in range(START[granule], 3):
        place = bench.tables.entry(va, level)
        bench.tables.put(place, bench.tables.entry(va, level + 1) >> 16 << 16 | TABLE)
    bench.tables.map(va, FRAME | PAGE)
    service(bench, va)
    assert bench.memory.read(FRAME, len(bench.seen[0])) == bench.seen[0]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize(
    ("granule", "level"), [(g, n) for g in GRANULES for n in range(START[g], 4)]
)
def test_fault_in_the_middle_of_a_record_loses_data(owner: str, granule: int, level: int) -> None:
    bench = TranslatedBench(owner, granule)
    boundary = bench.tables.size(level)  # behind it another entry of this level counts
    bench.tables.map(boundary - 1, FRAME | PAGE)
    bench.tables.put(bench.tables.entry(boundary, level), 0)
    bench.place(boundary - 10, boundary + 0x1_0000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x04 + level, boundary, lost=True)
    end = FRAME + (1 << granule)
    assert any(bench.memory.read(end - 10, 10) or b"")
    assert bench.memory.read(end, 64) == bytes(64)
    assert bench.seen == []
    # S clear and nothing else done: it faults again, and DL stays
    bench.registers.write(PMBSR_EL1, PMBSR_EL1.of(DL=1).value)
    bench.unit.reload()
    sampled(bench)
    expect_event(bench, STAGE1, 0x04 + level, boundary, lost=True)
    mended = Tables(bench.memory, granule, START[granule], TABLES, free=TABLES + 0x100_0000)
    mended.map(boundary, FRAME + (1 << granule) | PAGE)
    service(bench, boundary)
    assert bench.memory.read(end, len(bench.seen[0])) == bench.seen[0]


@pytest.mark.parametrize("owner", OWNERS)
def test_tables_beyond_the_physical_address_size(owner: str) -> None:
    bench = TranslatedBench(owner)
    bench.registers.write(TTBR0_EL1 if owner == "EL1&0" else TTBR0_EL2, BEYOND)
    bench.place(0x5000, 0x6000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x00, 0x5000)


@pytest.mark.parametrize("owner", OWNERS)
def test_pointer_outside_the_range_of_the_tables(owner: str) -> None:
    bench = TranslatedBench(owner)
    va = 1 << 48
    bench.place(va, va + 0x1000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x04, va)


@pytest.mark.parametrize("owner", ["EL1&0", "EL2&0"])
def test_walks_that_are_switched_off(owner: str) -> None:
    bench = TranslatedBench(owner)
    bench.tables.map(0x5000, FRAME | PAGE)
    bench.control(epd=1)
    bench.place(0x5000, 0x6000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x04, 0x5000)


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("tbi", [0, 1])
def test_top_byte_of_the_pointer_is_ignored_with_tbi(owner: str, tbi: int) -> None:
    bench = TranslatedBench(owner)
    bench.tables.map(0x5000, FRAME | PAGE)
    bench.control(tbi=tbi)
    tagged = 0x5A << 56 | 0x5000
    bench.place(tagged, tagged + 0x1000)
    sampled(bench)
    if tbi:
        assert bench.memory.read(FRAME, len(bench.seen[0])) == bench.seen[0]
        assert bench.registers.raw(PMBPTR_EL1) == tagged + len(bench.seen[0])
    else:
        expect_event(bench, STAGE1, 0x04, tagged)


# What hardware keeps


@pytest.mark.parametrize("owner", OWNERS)
def test_access_flag_is_set_where_hardware_manages_it(owner: str) -> None:
    bench = TranslatedBench(owner)
    bench.control(ha=1)
    place = bench.tables.map(0x5000, FRAME | PAGE & ~ACCESSED)
    bench.place(0x5000, 0x6000)
    sampled(bench)
    assert bench.pmbsr() == PMBSR_EL1(0)
    assert bench.tables.get(place) == FRAME | PAGE


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("hd", [0, 1])
def test_a_clean_page_becomes_dirty_where_hardware_manages_that(owner: str, hd: int) -> None:
    bench = TranslatedBench(owner)
    bench.control(ha=1, hd=hd)
    place = bench.tables.map(0x5000, FRAME | PAGE | READ_ONLY | DBM)
    bench.place(0x5000, 0x6000)
    sampled(bench)
    if hd:
        assert bench.pmbsr() == PMBSR_EL1(0)
        assert bench.tables.get(place) == FRAME | PAGE | DBM
    else:
        expect_event(bench, STAGE1, 0x0F, 0x5000)


@pytest.mark.parametrize("owner", OWNERS)
def test_core_whose_spe_manages_no_flags_faults(owner: str) -> None:
    bench = TranslatedBench(owner, impdef=replace(BYTE_ALIGNED, flag_update=False))
    bench.control(ha=1, hd=1)
    place = bench.tables.map(0x5000, FRAME | PAGE & ~ACCESSED)
    bench.place(0x5000, 0x6000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x0B, 0x5000)
    assert bench.tables.get(place) == FRAME | PAGE & ~ACCESSED
    bench.tables.put(place, FRAME | PAGE | READ_ONLY | DBM)
    bench.registers.write(PMBSR_EL1, 0)
    bench.unit.reload()
    sampled(bench)
    expect_event(bench, STAGE1, 0x0F, 0x5000)


@pytest.mark.parametrize("hd", [0, 1])
def test_flags_of_stage_2(hd: int) -> None:
    bench = TranslatedBench()
    bench.stage2(ha=1, hd=hd, stage1=False)
    place = bench.tables2.map(0x5000, FRAME | PAGE2 & ~ACCESSED & ~WRITABLE2 | DBM)
    bench.place(0x5000, 0x6000)
    sampled(bench)
    if hd:
        assert bench.pmbsr() == PMBSR_EL1(0)
        assert bench.tables2.get(place) == FRAME | PAGE2 | DBM
    else:
        expect_event(bench, STAGE2, 0x0F, 0x5000)


def test_flag_that_cannot_be_written_back_is_an_abort_of_the_walk() -> None:
    bench = TranslatedBench()
    bench.control(ha=1)
    place = bench.tables.map(0x5000, FRAME | PAGE & ~ACCESSED)
    bench.memory.read_only |= {*range(place, place + 8)}
    bench.place(0x5000, 0x6000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x17, 0x5000)


# Stage 2


@pytest.mark.parametrize(("granule", "number"), cases(stage2_faults))
def test_stage_2_fault(granule: int, number: int) -> None:
    spoil, fsc = stage2_faults(granule)[number]
    bench = TranslatedBench(granule=granule)
    bench.stage2(stage1=False)
    ipa = 5 << granule
    bench.tables2.map(ipa, FRAME | PAGE2)
    spoil(bench, bench.tables2, ipa)
    bench.place(ipa, ipa + (1 << granule))
    sampled(bench)
    expect_event(bench, STAGE2, fsc, ipa)
    assert bench.seen == []


def test_intermediate_address_outside_the_range_of_stage_2() -> None:
    bench = TranslatedBench()
    bench.stage2(stage1=False)
    bench.place(1 << 39, (1 << 39) + 0x1000)
    sampled(bench)
    expect_event(bench, STAGE2, 0x04, 1 << 39)


def both_stages(granule: int, ptw: int = 0) -> tuple[TranslatedBench, int]:
    """Stage 1 maps page 5 to the IPA 0x4000_0000, stage 2 that to FRAME; tables lie one to one."""
    bench = TranslatedBench(granule=granule)
    va = 5 << granule
    tables = Tables(bench.memory, granule, START[granule], 0x1000_0000)
    tables.map(va, 0x4000_0000 | PAGE)
    bench.registers.write(TTBR0_EL1, 0x1000_0000)
    bench.tables = tables
    for page in range(0x1000_0000, 0x1008_0000, 1 << granule):
        bench.tables2.map(page, page | PAGE2)
    bench.tables2.map(0x4000_0000, FRAME | PAGE2)
    bench.stage2(ptw=ptw)
    bench.place(va, va + (1 << granule))
    return bench, va


@pytest.mark.parametrize("granule", GRANULES)
def test_both_stages_lead_to_the_record(granule: int) -> None:
    bench, _ = both_stages(granule)
    sampled(bench)
    assert bench.memory.read(FRAME, len(bench.seen[0])) == bench.seen[0]


@pytest.mark.parametrize("granule", GRANULES)
def test_stage_2_fault_behind_stage_1(granule: int) -> None:
    bench, va = both_stages(granule)
    bench.tables2.put(bench.tables2.entry(0x4000_0000, 3), 0)
    bench.unit.reload()
    sampled(bench)
    expect_event(bench, STAGE2, 0x07, va)


@pytest.mark.parametrize("granule", GRANULES)
@pytest.mark.parametrize(
    ("change", "fsc"),
    [
        (lambda d: 0, 0x07),
        (lambda d: d & ~READABLE2, 0x0F),
        (lambda d: d & ~ACCESSED, 0x0B),
    ],
    ids=["translation", "permission", "access flag"],
)
def test_stage_2_fault_of_a_stage_1_walk(
    granule: int, change: Callable[[int], int], fsc: int
) -> None:
    bench, va = both_stages(granule)
    table = bench.tables.entry(va, 3)
    place = bench.tables2.entry(table, 3)
    bench.tables2.put(place, change(bench.tables2.get(place)))
    bench.unit.reload()
    sampled(bench)
    expect_event(bench, STAGE2, fsc, va)


@pytest.mark.parametrize("ptw", [0, 1])
def test_walk_of_device_memory_is_refused_where_hcr_ptw_says_so(ptw: int) -> None:
    bench, va = both_stages(12, ptw)
    place = bench.tables2.entry(bench.tables.entry(va, 3), 3)
    bench.tables2.put(place, bench.tables2.get(place) & ~(0xF << 2))
    bench.unit.reload()
    sampled(bench)
    if ptw:
        expect_event(bench, STAGE2, 0x0F, va)
    else:
        assert bench.pmbsr() == PMBSR_EL1(0)


# External aborts


@pytest.mark.parametrize("ea", [1, 2])
def test_external_abort_on_record_data_is_no_event_from_v1p3_on(ea: int) -> None:
    v1p3 = {f for f in EXC if f is not Feature.FEAT_SPE_EXC}
    bench = TranslatedBench(
        features=WITH_EL2 | v1p3, impdef=replace(BYTE_ALIGNED, external_abort=ea)
    )
    bench.tables.map(0x5000, NOWHERE | PAGE)
    bench.memory.aborting = {*range(NOWHERE, NOWHERE + 0x1000)}
    bench.place(0x5000, 0x6000)
    sampled(bench)
    assert bench.pmbsr() == PMBSR_EL1(0)
    assert bench.registers.raw(PMBPTR_EL1) == 0x5000 + len(bench.seen[0])


def test_external_abort_on_record_data_is_an_event_where_the_core_does_not_say() -> None:
    bench = TranslatedBench(impdef=replace(BYTE_ALIGNED, external_abort=0))
    bench.tables.map(0x5000, NOWHERE | PAGE)
    bench.memory.aborting = {*range(NOWHERE, NOWHERE + 0x1000)}
    bench.place(0x5000, 0x6000)
    sampled(bench)
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=STAGE1, MSS=0x10, EA=1)
    assert bench.registers.raw(PMBPTR_EL1) == 0x5000


# Physical pointers


NVM = WITH_EL2 | EXC | {Feature.FEAT_FGT2, Feature.FEAT_FGT}


def nvm_bench(**pmscr_el2: int) -> TranslatedBench:
    bench = TranslatedBench(features=NVM)
    bench.registers.write(PMSCR_EL2, PMSCR_EL2.of(**pmscr_el2).value)
    bench.registers.write(PMBMAR_EL1, PMBMAR_EL1.of(SH=3, Attr=0xFF).value)
    bench.place(0x5000, 0x6000)
    bench.registers.write(PMBLIMITR_EL1, PMBLIMITR_EL1.of(LIMIT=6, nVM=1, E=1).value)
    bench.unit.reload()
    return bench


def test_physical_pointers_pass_stage_1_by() -> None:
    bench = nvm_bench(EnVM=1)
    sampled(bench)
    assert bench.memory.read(0x5000, len(bench.seen[0])) == bench.seen[0]


def test_without_leave_of_el2_pointers_stay_virtual() -> None:
    bench = nvm_bench(EnVM=0)
    sampled(bench)
    expect_event(bench, STAGE1, 0x04, 0x5000)


@pytest.mark.parametrize("mapped", [True, False])
def test_physical_pointers_of_a_guest_are_intermediate(mapped: bool) -> None:
    bench = nvm_bench(EnVM=1)
    bench.stage2()
    if mapped:
        bench.tables2.map(0x5000, FRAME | PAGE2)
    bench.unit.reload()
    sampled(bench)
    if mapped:
        assert bench.memory.read(FRAME, len(bench.seen[0])) == bench.seen[0]
    else:
        expect_event(bench, STAGE2, 0x05, 0x5000)


@pytest.mark.parametrize("bit", [44, 47, 48, 55, 56, 63])
def test_physical_pointer_of_too_many_bits_is_an_address_size_fault(bit: int) -> None:
    bench = nvm_bench(EnVM=1)
    pointer = 1 << bit
    bench.registers.write(PMBPTR_EL1, pointer)
    bench.registers.write(PMBLIMITR_EL1, (pointer + 0x1000) | 1 << 7 | 1)
    bench.unit.reload()
    sampled(bench)
    expect_event(bench, STAGE1, 0x00, pointer)


# Stage 1 off


@pytest.mark.parametrize(("bit", "fsc"), [(43, None), (44, 0x00), (55, 0x00), (63, 0x00)])
def test_address_size_with_stage_1_off(bit: int, fsc: int | None) -> None:
    bench = TranslatedBench()
    bench.registers.write(SCTLR_EL1, 0)
    pointer = 1 << bit
    bench.place(pointer, pointer + 0x1000)
    sampled(bench)
    if fsc is None:
        assert bench.memory.read(pointer, len(bench.seen[0])) == bench.seen[0]
    else:
        expect_event(bench, STAGE1, fsc, pointer)


def test_hcr_dc_switches_stage_1_off_and_stage_2_on() -> None:
    bench = TranslatedBench()
    bench.stage2()
    bench.registers.write(HCR_EL2, HCR_EL2.of(RW=1, DC=1).value)
    bench.tables2.map(0x5000, FRAME | PAGE2)
    bench.place(0x5000, 0x6000)
    sampled(bench)
    assert bench.memory.read(FRAME, len(bench.seen[0])) == bench.seen[0]


# Security states


@pytest.mark.parametrize(
    ("scr", "mdcr", "top"),
    [
        ({"NS": 1}, {"NSPB": 0b11}, 0x80),
        ({"NS": 0}, {"NSPB": 0b01}, 0x00),
        ({"NS": 1, "NSE": 1}, {"NSPBE": 1, "NSPB": 0b11}, 0x90),
    ],
    ids=["Non-secure", "Secure", "Realm"],
)
def test_buffer_of_each_security_state(scr: dict[str, int], mdcr: dict[str, int], top: int) -> None:
    bench = TranslatedBench(features=WITH_EL3 | {Feature.FEAT_RME})
    bench.registers.write(SCR_EL3, SCR_EL3.of(**scr).value)
    bench.registers.write(MDCR_EL3, MDCR_EL3.of(**mdcr).value)
    bench.tables.map(0x5000, FRAME | PAGE)
    bench.place(0x5000, 0x6000)
    assert bench.unit.enabled
    sampled(bench)
    assert bench.memory.read(FRAME, len(bench.seen[0])) == bench.seen[0]
    pc = bench.seen[0].index(0xB0)
    assert bench.seen[0][pc + 8] == top | 1 << 5, "Security state and EL1"
    other = SCR_EL3.of(NS=1 - scr["NS"]).value
    bench.registers.write(SCR_EL3, other)
    bench.unit.reload()
    assert not bench.unit.enabled


@pytest.mark.parametrize(("ns", "top"), [(0, 0x00), (1, 0x80)])
def test_secure_data_may_lie_in_the_non_secure_address_space(ns: int, top: int) -> None:
    bench = TranslatedBench(features=WITH_EL3)
    bench.registers.write(SCR_EL3, SCR_EL3.of(NS=0).value)
    bench.registers.write(MDCR_EL3, MDCR_EL3.of(NSPB=0b01).value)
    bench.registers.write(PMSCR_EL1, PMSCR_EL1.of(E1SPE=1, PA=1).value)
    bench.tables.map(0x5000, FRAME | PAGE)
    bench.tables.map(0x7000, 0x9000 | PAGE | ns << 5)
    bench.place(0x5000, 0x6000)
    operation = load(va=0x7010)
    operation.pa = 0x9010
    bench.sample(operation)
    (placed,) = decode_stream(bench.seen[0])
    assert isinstance(placed, PlacedRecord)
    assert placed.record.pa is not None
    assert placed.record.pa.value == top << 56 | 0x9010
    assert placed.record.pc is not None
    assert placed.record.pc.NS == 0


# Priority and restart


def test_fault_comes_before_buffer_full() -> None:
    bench = TranslatedBench()
    bench.tables.map(0x5000, FRAME | PAGE)
    bench.place(0x5FC0, 0x6000)
    bench.tables.put(bench.tables.entry(0x5000, 3), 0)
    bench.unit.reload()
    sampled(bench)
    expect_event(bench, STAGE1, 0x07, 0x5FC0)
    assert bench.unit.statistics.management_events == {"stage1_abort": 1}


def test_nothing_moves_while_an_event_stands() -> None:
    bench = TranslatedBench()
    bench.place(0x5000, 0x6000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x04, 0x5000)
    bench.tables.map(0x5000, FRAME | PAGE)
    bench.unit.reload()
    assert not bench.unit.enabled
    assert bench.registers.raw(PMBPTR_EL1) == 0x5000
    bench.registers.write(PMBSR_EL1, 0)
    bench.unit.reload()
    assert bench.unit.enabled


def test_device_memory_takes_records_at_any_address() -> None:
    """Each byte is stored by itself, so no alignment is ever wrong."""
    bench = TranslatedBench()
    bench.tables.map(0x5000, FRAME | PAGE & ~(7 << 2))
    bench.place(0x5001, 0x6000)
    sampled(bench)
    assert bench.pmbsr() == PMBSR_EL1(0)
    assert bench.memory.read(FRAME + 1, len(bench.seen[0])) == bench.seen[0]


def test_a_limit_of_the_smallest_granule_is_kept() -> None:
    bench = Bench(impdef=ImpDef(max_size=6, granule=16))
    bench.registers.write(PMBLIMITR_EL1, 0x2_F001)
    assert bench.registers.read(PMBLIMITR_EL1).LIMIT << 12 == 0x2_0000
