from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSDSFR_EL1,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
    PMSNEVFR_EL1,
    SPE_REGISTERS,
    EventClass,
    FillMode,
    TimestampCounter,
    event_filter_mask,
)
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg

F = Feature
ONES = (1 << 64) - 1
V1P0 = frozenset({F.FEAT_SPE, F.FEAT_EL2, F.FEAT_EL3, F.FEAT_ECV})
V1P1 = V1P0 | {F.FEAT_SPEv1p1}
V1P2 = V1P1 | {F.FEAT_SPEv1p2, F.FEAT_SPE_FnE}
V1P4 = V1P2 | {F.FEAT_SPEv1p3, F.FEAT_SPEv1p4}
V1P5 = V1P4 | {F.FEAT_SPEv1p5, F.FEAT_SPE_EXC, F.FEAT_SPE_nVM, F.FEAT_SPE_CRR}
PMBSR_BITS = 0x00FF_FFFF_FC0F_FFFF

# The bits that stay when all ones are written, counted by hand from Arm ARM D24.7.
KEPT = [
    (PMSCR_EL1, V1P0, 0xFB),
    (PMSCR_EL1, V1P0 - {F.FEAT_ECV}, 0x7B),  # PCT[1] is RES0
    (PMSCR_EL1, V1P0 - {F.FEAT_EL2}, 0x7B),  # PCT reads 01
    (PMSCR_EL1, V1P5, 0x7FB),
    (PMSCR_EL1, V1P5 | {F.FEAT_NV}, 0xFFB),
    (PMSCR_EL2, V1P0, 0xFB),
    (PMSCR_EL2, V1P0 - {F.FEAT_ECV}, 0x7B),
    (PMSCR_EL2, V1P0 - {F.FEAT_EL2}, 0),  # RES0 from EL3
    (PMSCR_EL2, V1P0 | {F.FEAT_SPE_nVM}, 0x8FB),
    (PMSCR_EL2, V1P5, 0xFFB),
    (PMSICR_EL1, V1P0, 0x0000_0000_FFFF_FFFF),
    (PMSICR_EL1, V1P0 | {F.FEAT_SPE_ERnd}, 0xFF00_0000_FFFF_FFFF),
    (PMSIRR_EL1, V1P0, 0xFFFF_FF01),
    (PMSFCR_EL1, V1P0, 0x0007_0007),
    (PMSFCR_EL1, V1P2, 0x0007_000F),
    (PMSFCR_EL1, V1P4 | {F.FEAT_SPE_FDS}, 0x0007_001F),
    (PMSFCR_EL1, V1P0 | {F.FEAT_SPE_EFT}, 0x001F_0000_001F_0007),
    (PMSEVFR_EL1, V1P0, 0xAA),
    (PMSEVFR_EL1, V1P1, 0x8AA),
    (PMSEVFR_EL1, V1P1 | {F.FEAT_SVE}, 0x6_08AA),
    (PMSEVFR_EL1, V1P1 | {F.FEAT_SME}, 0x6_08AA),
    (PMSEVFR_EL1, V1P0 | {F.FEAT_SVE}, 0xAA),  # predicates came with v1p1
    (PMSEVFR_EL1, V1P2, 0x8EA),
    (PMSEVFR_EL1, V1P4, 0x8FE),
    (PMSEVFR_EL1, V1P4 | {F.FEAT_SPE_SME}, 0x100_08FE),
    (PMSNEVFR_EL1, V1P2, 0x8E8),
    (PMSNEVFR_EL1, V1P4, 0x8FC),
    (PMSNEVFR_EL1, V1P0, 0),  # not implemented
    (PMSLATFR_EL1, V1P0, 0xFFFF),
    (PMBLIMITR_EL1, V1P0, 0xFFFF_FFFF_FFFF_F007),
    (PMBLIMITR_EL1, V1P2, 0xFFFF_FFFF_FFFF_F027),
    (PMBLIMITR_EL1, V1P5, 0xFFFF_FFFF_FFFF_F0A7),
    (PMBPTR_EL1, V1P0, ONES - 0x3F),
    (PMBSR_EL1, V1P0, PMBSR_BITS),
    (PMBSR_EL2, V1P0, 0),
    (PMBSR_EL2, V1P5, PMBSR_BITS),
    (PMBSR_EL2, V1P5 - {F.FEAT_EL2}, 0),  # RES0 from EL3
    (PMBSR_EL3, V1P5, PMBSR_BITS),
    (PMBSR_EL3, V1P5 - {F.FEAT_EL3}, 0),
    (PMSDSFR_EL1, V1P4, 0),
    (PMSDSFR_EL1, V1P4 | {F.FEAT_SPE_FDS}, ONES),
    (PMBMAR_EL1, V1P4, 0),
    (PMBMAR_EL1, V1P5, 0x3FF),
]


def written(
    register: type[SysReg], features: frozenset[Feature], impdef: ImpDef, value: int = ONES
) -> int:
    file = RegisterFile(features, [register], impdef)
    file.reset(lambda: 0)
    file.write(register, value)
    return file.raw(register)


@pytest.mark.parametrize(("register", "features", "kept"), KEPT)
def test_registers_keep_the_bits_that_their_features_bring(
    register: type[SysReg], features: frozenset[Feature], kept: int
) -> None:
    assert written(register, features, ImpDef(align=6)) == kept


CHOSEN = [
    (PMSLATFR_EL1, V1P0, ImpDef(count_size=2), 0xFFF),
    (PMSLATFR_EL1, V1P0, ImpDef(count_size=3), 0xFFFF),
    (PMBPTR_EL1, V1P0, ImpDef(align=0), ONES),
    (PMBPTR_EL1, V1P0, ImpDef(align=11), ONES - 0x7FF),
    (PMBLIMITR_EL1, V1P0, ImpDef(granule=14), ONES - 0x3FF8),
    (PMBLIMITR_EL1, V1P0, ImpDef(granule=16), ONES - 0xFFF8),
    (
        PMSDSFR_EL1,
        V1P4 | {F.FEAT_SPE_FDS},
        ImpDef(data_sources=frozenset({0, 8, 63})),
        1 << 63 | 257,
    ),
    (PMSEVFR_EL1, V1P0, ImpDef(events=frozenset({2, 4})), 0xBE),
    (PMSEVFR_EL1, V1P0, ImpDef(events=frozenset({8, 9, 10})), 0x7AA),
    (PMSEVFR_EL1, V1P0, ImpDef(events=frozenset({12, 15})), 0x90AA),
    (PMSEVFR_EL1, V1P0, ImpDef(events=frozenset({24, 25, 26, 31})), 0x8700_00AA),
    (PMSEVFR_EL1, V1P4, ImpDef(events=frozenset({24, 25, 26, 31})), 0x8FE),
    (PMSEVFR_EL1, V1P5, ImpDef(events=frozenset({25})), 0x200_08FE),
    (PMSEVFR_EL1, V1P0, ImpDef(events=frozenset({19, 20, 21, 22, 23})), 0xAA),
    (PMSEVFR_EL1, V1P4, ImpDef(events=frozenset({19, 20, 21, 22, 23})), 0xF8_08FE),
    (PMSEVFR_EL1, V1P0, ImpDef(events=frozenset({48, 63})), 1 << 63 | 1 << 48 | 0xAA),
    (PMSNEVFR_EL1, V1P2, ImpDef(speculative=True), 0x8EA),
    (PMSEVFR_EL1, V1P2, ImpDef(speculative=True), 0x8EA),
]


@pytest.mark.parametrize(("register", "features", "impdef", "kept"), CHOSEN)
def test_registers_keep_the_bits_that_a_core_chose(
    register: type[SysReg], features: frozenset[Feature], impdef: ImpDef, kept: int
) -> None:
    assert written(register, features, impdef) == kept


def test_without_el2_pct_reads_physical_whatever_is_written() -> None:
    features = V1P0 - {F.FEAT_EL2}
    assert written(PMSCR_EL1, features, ImpDef(), 0) == 0x40
    assert PMSCR_EL1(written(PMSCR_EL1, features, ImpDef())).PCT == TimestampCounter.PHYSICAL


def test_events_can_be_filtered_where_they_say_something() -> None:
    assert event_filter_mask(V1P1, ImpDef()) == 0x8A8
    assert event_filter_mask(V1P1, ImpDef(speculative=True)) == 0x8AA
    assert event_filter_mask(V1P4, ImpDef(events=frozenset({8}))) == 0x9FC


# What is left when a register that was all ones is reset, with UNKNOWN read as ones: the fields
# with a defined reset value are zero.
RESET = [
    (PMBLIMITR_EL1, V1P0, 0xFFFF_FFFF_FFFF_F006),
    (PMSCR_EL1, V1P5, 0x7FB),
    (PMSCR_EL1, V1P5 - {F.FEAT_EL3, F.FEAT_EL2}, 0x47B & ~0x300),
    (PMSCR_EL2, V1P5, 0xFFB),
    (PMSCR_EL2, V1P5 - {F.FEAT_EL3}, 0xCFB),
    (PMSICR_EL1, V1P0, 0xFFFF_FFFF),
    (PMBSR_EL1, V1P0, PMBSR_BITS),
    (PMBPTR_EL1, V1P0, ONES - 0x3F),
]


@pytest.mark.parametrize(("register", "features", "value"), RESET)
def test_reset_defines_few_fields_and_leaves_the_rest_unknown(
    register: type[SysReg], features: frozenset[Feature], value: int
) -> None:
    file = RegisterFile(features, [register], ImpDef(align=6))
    file.reset(lambda: ONES)
    assert file.raw(register) == value


def test_fields_stand_where_the_architecture_puts_them() -> None:
    pmscr = PMSCR_EL1(0x49)
    assert (pmscr.PCT, pmscr.CX, pmscr.E0SPE, pmscr.E1SPE) == (1, 1, 1, 0)
    assert PMSIRR_EL1(0x0001_0001).INTERVAL == 0x100
    assert PMSICR_EL1(0x1200_0000_0000_0034).ECOUNT == 0x12
    assert PMBLIMITR_EL1(0x1_0005).LIMIT == 0x10
    assert PMBLIMITR_EL1(0x1_0005).FM == FillMode.DISCARD
    pmbsr = PMBSR_EL1(0x9002_0005)
    assert (pmbsr.EC, pmbsr.S, pmbsr.MSS) == (EventClass.STAGE1_ABORT, 1, 5)
    assert PMBMAR_EL1(0x3FF).SH == 3


def test_the_seventeen_registers_have_different_encodings() -> None:
    assert len({r.encoding for r in SPE_REGISTERS}) == len(SPE_REGISTERS) == 17
