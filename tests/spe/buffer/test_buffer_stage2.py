"""The buffer of EL1 under stage 2."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spe_unicorn.arch.registers.spe import (
    PMBSR_EL1,
)
from spe_unicorn.arch.registers.system import (
    TTBR0_EL1,
)
from tests.spe.buffer.buffer_faults import (
    GRANULES,
    STAGE2,
    cases,
    expect_event,
    sampled,
    stage2_faults,
)
from tests.spe.buffer.buffer_tables import (
    ACCESSED,
    DBM,
    FRAME,
    PAGE,
    PAGE2,
    READABLE2,
    START,
    WRITABLE2,
    Tables,
    TranslatedBench,
)

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
