"""The buffer through the owning translation regime: where records go, and every fault."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.memory.descriptors import Fault
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL2,
)
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MAIR_EL1,
    MDCR_EL2,
    SCTLR_EL1,
    SCTLR_EL2,
    TCR_EL1,
    TCR_EL2,
    TTBR0_EL2,
    TTBR1_EL1,
    VTCR_EL2,
    VTTBR_EL2,
)
from tests.spe.bench import BUFFER, Bench
from tests.support.fakes import (
    EL1_ONLY,
    EXC,
    WITH_EL2,
    alu,
)

# Translation by the owner's regime. Tables of 4 KB granules; 39-bit ranges start at level 1.

TABLES = 0x8000_0000
NORMAL_PAGE = 0x403 | 1 << 2  # AF, page, attribute 1
READ_ONLY = 1 << 7
HIGH = 0xFFFF_FF80_0000_1000


def translated(bench: Bench, l3: int | None) -> None:
    """EL1's upper range maps its second page by ``l3``; None leaves level 1 empty."""
    if l3 is not None:
        for level, index, descriptor in (
            (0, 0, TABLES + 0x1000 | 3),
            (1, 0, TABLES + 0x2000 | 3),
            (2, 1, l3),
        ):
            bench.memory.write(
                TABLES + level * 0x1000 + index * 8, descriptor.to_bytes(8, "little")
            )
    write = bench.registers.write
    write(TCR_EL1, TCR_EL1.of(T0SZ=25, T1SZ=25, TG1=2, IPS=2).value)
    write(TTBR1_EL1, TABLES)
    write(MAIR_EL1, 0xFF00)
    write(SCTLR_EL1, 1)
    write(PMBPTR_EL1, HIGH)
    write(PMBLIMITR_EL1, HIGH + 0x1000 | 1)
    bench.unit.refresh()


def test_buffer_is_translated_by_the_owning_regime() -> None:
    bench = Bench()
    bench.program()
    translated(bench, 0x4000_5000 | NORMAL_PAGE)
    bench.sample(alu(0x1234000))
    assert bench.memory.read(0x4000_5000, 64) == bench.seen[0]


def test_no_translation_at_level_1_is_a_stage_1_fault() -> None:
    """A small example: EC 0x24, FSC 0x05, the pointer at the fault, DL unchanged."""
    bench = Bench()
    bench.program()
    translated(bench, None)
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x05)
    assert bench.registers.raw(PMBPTR_EL1) == HIGH
    assert bench.line.levels == [True]
    assert bench.unit.statistics.lost == 1


def test_read_only_page_is_a_permission_fault() -> None:
    bench = Bench()
    bench.program()
    translated(bench, 0x4000_5000 | NORMAL_PAGE | READ_ONLY)
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x0F)


def test_access_flag_fault_and_access_outside_the_range() -> None:
    bench = Bench()
    bench.program()
    translated(bench, 0x4000_5000 | NORMAL_PAGE & ~0x400)
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x0B)
    bench.registers.write(PMBSR_EL1, 0)
    bench.registers.write(PMBPTR_EL1, 0xFFFF_0000_0000_0000)
    bench.registers.write(PMBLIMITR_EL1, 0xFFFF_0000_0001_0000 | 1)
    bench.unit.refresh()
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x04)


def test_a_faulting_buffer_works_after_the_page_is_mapped_and_s_cleared() -> None:
    bench = Bench()
    bench.program()
    translated(bench, None)
    bench.sample()
    translated(bench, 0x4000_5000 | NORMAL_PAGE)
    bench.registers.write(PMBSR_EL1, 0)
    bench.unit.refresh()
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1(0)
    assert bench.memory.read(0x4000_5000, 64) == bench.seen[0]


def test_tables_changed_by_the_guest_hold_after_translations_are_forgotten() -> None:
    bench = Bench()
    bench.program()
    translated(bench, 0x4000_5000 | NORMAL_PAGE)
    bench.sample()
    bench.memory.write(TABLES + 0x2008, (0x4000_6000 | NORMAL_PAGE).to_bytes(8, "little"))
    bench.unit.forget_translations()
    bench.sample()
    assert bench.memory.read(0x4000_6040, 64) == bench.seen[1]


def test_what_a_page_ahead_translates_to_is_kept_until_translations_are_forgotten() -> None:
    """As a TLB may: a guest that changes a valid entry has to say so by TLBI."""
    bench = Bench()
    bench.program()
    translated(bench, 0x4000_5000 | NORMAL_PAGE)
    second = TABLES + 0x2010
    bench.memory.write(second, (0x4000_7000 | NORMAL_PAGE).to_bytes(8, "little"))
    bench.registers.write(PMBLIMITR_EL1, HIGH + 0x2000 | 1)

    def first_of_the_second_page(pc: int) -> int:
        """Where the first record of the buffer's second page goes, after all of the first page."""
        bench.registers.write(PMBPTR_EL1, HIGH)
        bench.unit.refresh()
        for _ in range(0x1000 // 64 + 1):
            bench.sample(alu(pc))
        assert bench.registers.raw(PMBPTR_EL1) == HIGH + 0x1040
        found = [
            frame
            for frame in (0x4000_7000, 0x4000_8000)
            if bench.memory.read(frame, 64) == bench.seen[-1]
        ]
        assert len(found) == 1
        return found[0]

    assert first_of_the_second_page(0x1000) == 0x4000_7000
    bench.memory.write(second, (0x4000_8000 | NORMAL_PAGE).to_bytes(8, "little"))
    assert first_of_the_second_page(0x2000) == 0x4000_7000
    bench.unit.forget_translations()
    assert first_of_the_second_page(0x3000) == 0x4000_8000


def test_another_table_base_holds_at_once() -> None:
    bench = Bench()
    bench.program()
    translated(bench, 0x4000_5000 | NORMAL_PAGE)
    bench.sample()
    bench.registers.write(TTBR1_EL1, 0x9000_0000)
    bench.unit.refresh()
    bench.sample()
    assert bench.pmbsr().EC == 0x24


def stage2_page(bench: Bench, ipa_page: int, descriptor: int) -> None:
    """Stage 2 from level 2 on (a 30-bit IPA), one page mapped."""
    root = 0xA000_0000
    bench.memory.write(root + (ipa_page >> 21) * 8, (root + 0x1000 | 3).to_bytes(8, "little"))
    index = ipa_page >> 12 & 0x1FF
    bench.memory.write(root + 0x1000 + index * 8, descriptor.to_bytes(8, "little"))
    write = bench.registers.write
    write(VTCR_EL2, VTCR_EL2.of(T0SZ=34, SL0=0, PS=2).value)
    write(VTTBR_EL2, root)
    write(HCR_EL2, HCR_EL2.of(VM=1, RW=1).value)
    bench.unit.refresh()


S2_READ_WRITE = 0x403 | 0xF << 2 | 3 << 6


def test_stage_2_translates_the_buffer_of_el1() -> None:
    bench = Bench(WITH_EL2)
    bench.program()
    stage2_page(bench, BUFFER, 0x4000_5000 | S2_READ_WRITE)
    bench.sample()
    assert bench.memory.read(0x4000_5000, 64) == bench.seen[0]


@pytest.mark.parametrize(
    ("descriptor", "fsc"), [(0, 0x07), (0x4000_5000 | 0x403 | 0xF << 2 | 1 << 6, 0x0F)]
)
def test_stage_2_faults_have_their_own_class(descriptor: int, fsc: int) -> None:
    bench = Bench(WITH_EL2)
    bench.program()
    stage2_page(bench, BUFFER, descriptor)
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x25, MSS=fsc)
    assert bench.registers.raw(PMBPTR_EL1) == BUFFER


def test_el2_owner_translates_by_its_own_tables() -> None:
    bench = Bench(WITH_EL2)
    bench.program()
    write = bench.registers.write
    write(MDCR_EL2, MDCR_EL2.of(E2PB=0).value)
    write(PMSCR_EL2, PMSCR_EL2.of(E2SPE=1).value)
    write(TCR_EL2, 25 | 2 << 16)
    write(TTBR0_EL2, TABLES)
    write(SCTLR_EL2, 1)
    bench.pe.el = 2
    bench.unit.refresh()
    bench.sample(alu(el=2))
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x05)
    bench.registers.write(PMBSR_EL1, 0)
    bench.registers.write(SCTLR_EL2, 0)
    bench.unit.refresh()
    bench.sample(alu(el=2))
    assert bench.memory.read(BUFFER, 64) == bench.seen[0]


def test_physical_pointers_are_not_translated_by_stage_1() -> None:
    bench = Bench(EL1_ONLY | EXC)
    bench.program()
    translated(bench, None)
    write = bench.registers.write
    write(PMBMAR_EL1, PMBMAR_EL1.of(SH=3, Attr=0xFF).value)
    write(PMBPTR_EL1, 0x4000_8000)
    write(PMBLIMITR_EL1, PMBLIMITR_EL1.of(LIMIT=0x4000_A, nVM=1, E=1).value)
    bench.unit.refresh()
    bench.sample()
    assert bench.memory.read(0x4000_8000, 64) == bench.seen[0]


def test_physical_pointer_beyond_the_address_size_is_a_stage_1_fault_at_level_0() -> None:
    bench = Bench(EL1_ONLY | EXC)
    bench.program()
    write = bench.registers.write
    write(PMBPTR_EL1, 1 << 44)
    write(PMBLIMITR_EL1, (1 << 44) + 0x10000 | 1 << 7 | 1)
    bench.unit.refresh()
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x00)


def test_el2_can_refuse_physical_pointers_to_el1() -> None:
    bench = Bench(WITH_EL2 | EXC)
    bench.program()
    translated(bench, None)
    write = bench.registers.write
    write(PMBPTR_EL1, HIGH)
    write(PMBLIMITR_EL1, HIGH + 0x1000 | 1 << 7 | 1)
    bench.unit.refresh()
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x05)


def test_fault_kinds_are_those_of_the_walker() -> None:
    bench = Bench()
    bench.program()
    translated(bench, None)
    bench.sample()
    ((event, el),) = bench.reported
    assert event.status == Fault.Translation.value + 1
    assert (event.address, el) == (HIGH, 1)
