"""Faults of stage 1 in every owner and granule: syndrome, pointer, memory, restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.registers.spe import (
    PMBPTR_EL1,
    PMBSR_EL1,
)
from spe_unicorn.arch.registers.system import (
    TTBR0_EL1,
    TTBR0_EL2,
)
from tests.spe.buffer.buffer_faults import (
    BEYOND,
    GRANULES,
    OWNERS,
    STAGE1,
    cases,
    expect_event,
    sampled,
    service,
    stage1_faults,
)
from tests.spe.buffer.buffer_tables import (
    ACCESSED,
    BYTE_ALIGNED,
    DBM,
    FRAME,
    PAGE,
    READ_ONLY,
    START,
    TABLE,
    TABLES,
    Tables,
    TranslatedBench,
)


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


def test_flag_that_cannot_be_written_back_is_an_abort_of_the_walk() -> None:
    bench = TranslatedBench()
    bench.control(ha=1)
    place = bench.tables.map(0x5000, FRAME | PAGE & ~ACCESSED)
    bench.memory.read_only |= {*range(place, place + 8)}
    bench.place(0x5000, 0x6000)
    sampled(bench)
    expect_event(bench, STAGE1, 0x17, 0x5000)
