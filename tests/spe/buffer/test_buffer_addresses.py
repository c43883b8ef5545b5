"""External aborts, physical pointers, Security states: what is not of a page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSCR_EL2,
)
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MDCR_EL3,
    SCR_EL3,
    SCTLR_EL1,
)
from spe_unicorn.spe.record import PlacedRecord, decode_stream
from tests.spe.bench import Bench
from tests.spe.buffer.buffer_faults import (
    STAGE1,
    STAGE2,
    expect_event,
    sampled,
)
from tests.spe.buffer.buffer_tables import (
    BYTE_ALIGNED,
    FRAME,
    NOWHERE,
    PAGE,
    PAGE2,
    TranslatedBench,
)
from tests.support.fakes import EXC, WITH_EL2, WITH_EL3, load

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
