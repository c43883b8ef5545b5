from __future__ import annotations

import pytest

from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.id import (
    ID_AA64DFR0_EL1,
    ID_AA64DFR1_EL1,
    ID_AA64DFR2_EL1,
    ID_AA64ISAR0_EL1,
    ID_AA64MMFR0_EL1,
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64PFR0_EL1,
)
from spe_unicorn.arch.registers.spe import PMBIDR_EL1, PMSIDR_EL1
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.rules.identification import id_register, pmbidr_el1, pmsidr_el1
from tests.arch.access_matrix import EVERYTHING, prepare

F = Feature
SPE = frozenset({F.FEAT_SPE, F.FEAT_EL2, F.FEAT_EL3})


@pytest.mark.parametrize(
    ("features", "impdef", "value"),
    [
        # FL, FT and FE are always 1.
        ({F.FEAT_SPE}, ImpDef(count_size=2, max_size=6, interval=4), 0x0002_6407),
        ({F.FEAT_SPE_LDS}, ImpDef(count_size=2, max_size=6, interval=4), 0x0002_6417),
        ({F.FEAT_SPE_ArchInst}, ImpDef(count_size=3, max_size=7, interval=0), 0x0003_700F),
        ({F.FEAT_SPE_ERnd, F.FEAT_SPE_FnE}, ImpDef(count_size=3, max_size=7), 0x0003_7067),
        ({F.FEAT_SPE_FDS}, ImpDef(count_size=2, max_size=11, interval=8), 0x0002_B887),
        ({F.FEAT_SPE_PBT}, ImpDef(count_size=2, max_size=6), 0x0102_6007),
        ({F.FEAT_SPE_CRR}, ImpDef(count_size=2, max_size=6), 0x0202_6007),
        ({F.FEAT_SPE_EFT}, ImpDef(count_size=2, max_size=6), 0x0402_6007),
        ({F.FEAT_SPE_FPF}, ImpDef(count_size=2, max_size=6), 0x0802_6007),
        ({F.FEAT_SPE_ALTCLK}, ImpDef(count_size=2, max_size=6, altclk=15), 0xF002_6007),
        ({F.FEAT_SPE_SME}, ImpDef(count_size=2, max_size=6, altclk=15), 0x1_0002_6007),
    ],
)
def test_pmsidr_shows_features_and_choices(
    features: set[Feature], impdef: ImpDef, value: int
) -> None:
    assert pmsidr_el1(frozenset(features), impdef).value == value


@pytest.mark.parametrize(
    ("settings", "p_at_el"),
    [
        # EL1 owns, Non-secure
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=3", (0, 0, 0)),
        # programming traps at EL1, yet P stays 0
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=2", (0, 0, 0)),
        # EL2 owns
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=0", (1, 0, 0)),
        # Secure owns, seen from Non-secure state
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=1 MDCR_EL2.E2PB=3", (1, 1, 0)),
        # Secure owns, seen from Secure state
        ("SCR_EL3.NS=0 MDCR_EL3.NSPB=1 MDCR_EL2.E2PB=0", (0, 0, 0)),
        ("SCR_EL3.NS=0 SCR_EL3.EEL2=1 MDCR_EL3.NSPB=1 MDCR_EL2.E2PB=0", (1, 0, 0)),
        ("SCR_EL3.NS=0 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=3", (1, 1, 0)),
    ],
)
def test_pmbidr_p_says_who_may_program_the_buffer(
    settings: str, p_at_el: tuple[int, int, int]
) -> None:
    for el, p in zip((1, 2, 3), p_at_el, strict=True):
        pe = prepare(EVERYTHING, el, settings.split())
        assert p == pe.registers.read(PMBIDR_EL1).P


def test_pmbidr_p_is_zero_for_a_reserved_owner() -> None:
    pe = prepare(frozenset(Feature), 1, ["SCR_EL3.NS=1", "MDCR_EL3.NSPBE=1", "MDCR_EL3.NSPB=1"])
    assert pmbidr_el1(pe).P == 0


@pytest.mark.parametrize(
    ("settings", "el", "mode"),
    [
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=3 PMSCR_EL2.EnVM=1", 1, 1),
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=3 PMSCR_EL2.EnVM=0", 1, 0),
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=0 PMSCR_EL2.EnVM=0", 2, 1),
        ("SCR_EL3.NS=1 MDCR_EL3.NSPB=3 MDCR_EL2.E2PB=0 PMSCR_EL2.EnVM=1", 1, 0),  # P is 1
    ],
)
def test_pmbidr_addrmode_offers_physical_pointers_where_they_may_be_used(
    settings: str, el: int, mode: int
) -> None:
    assert pmbidr_el1(prepare(EVERYTHING, el, settings.split())).AddrMode == mode


def test_pmbidr_shows_the_choices_of_a_core() -> None:
    pe = StillPE(SPE, ImpDef(align=11, external_abort=2, flag_update=False), el=3)
    assert pe.registers.raw(PMBIDR_EL1) == 0x20B
    pe = StillPE(SPE, ImpDef(align=6, external_abort=1, flag_update=True), el=3)
    assert pe.registers.raw(PMBIDR_EL1) == 0x126


def test_identification_registers_keep_their_values() -> None:
    pe = StillPE(SPE)
    before = pe.registers.raw(PMSIDR_EL1)
    for register in (PMSIDR_EL1, PMBIDR_EL1):
        pe.registers.write(register, (1 << 64) - 1)
        pe.registers.set_raw(register, (1 << 64) - 1)
    assert pe.registers.raw(PMSIDR_EL1) == before == 0x0003_7007


PMSVER = [
    ((), 0),
    ((F.FEAT_SPE,), 1),
    ((F.FEAT_SPE, F.FEAT_SPEv1p1), 2),
    ((F.FEAT_SPE, F.FEAT_SPEv1p1, F.FEAT_SPEv1p2), 3),
    ((F.FEAT_SPE, F.FEAT_SPEv1p3), 4),
    ((F.FEAT_SPE, F.FEAT_SPEv1p4), 5),
    ((F.FEAT_SPE, F.FEAT_SPEv1p4, F.FEAT_SPEv1p5), 6),
]
PMUVER = [
    ((), 0),
    ((F.FEAT_PMUv3,), 1),
    ((F.FEAT_PMUv3, F.FEAT_PMUv3p1), 4),
    ((F.FEAT_PMUv3p4,), 5),
    ((F.FEAT_PMUv3p5,), 6),
    ((F.FEAT_PMUv3p7,), 7),
    ((F.FEAT_PMUv3p8,), 8),
    ((F.FEAT_PMUv3, F.FEAT_PMUv3p9), 9),
]


def shown(register: type[SysReg], engine: int, *features: Feature) -> SysReg:
    return register(id_register(register, engine, frozenset(features), ImpDef()))


@pytest.mark.parametrize(("features", "version"), PMSVER)
def test_pmsver_is_that_of_the_core(features: tuple[Feature, ...], version: int) -> None:
    assert shown(ID_AA64DFR0_EL1, 0x1030_5506, *features).value >> 32 & 15 == version


@pytest.mark.parametrize(("features", "version"), PMUVER)
def test_pmuver_is_that_of_the_core_not_of_the_engine(
    features: tuple[Feature, ...], version: int
) -> None:
    value = shown(ID_AA64DFR0_EL1, 0x1030_5506, *features).value
    assert value >> 8 & 15 == version
    others = 0xF << 36 | 0xF << 32 | 0xF << 24 | 0xF << 8
    assert value & ~others == 0x1030_5006  # counts, and the debug version of Armv8.0


@pytest.mark.parametrize(
    ("register", "engine", "features", "value"),
    [
        # 6 breakpoints, 2 of them context-aware, and 4 watchpoints; DoubleLock is 15 for none
        (ID_AA64DFR0_EL1, 0, (F.FEAT_SEBEP,), 0xF0_1130_5006),
        (ID_AA64DFR0_EL1, 0, (F.FEAT_DoubleLock,), 0x1030_5006),
        (ID_AA64DFR0_EL1, 0, (F.FEAT_DoubleLock, F.FEAT_VHE), 0x1030_5007),
        (ID_AA64DFR0_EL1, 0, (F.FEAT_VHE, F.FEAT_Debugv8p2), 0xF0_1030_5008),
        (ID_AA64DFR0_EL1, 0, (F.FEAT_Debugv8p2, F.FEAT_Debugv8p4), 0xF0_1030_5009),
        (ID_AA64DFR0_EL1, 0, (F.FEAT_Debugv8p4, F.FEAT_Debugv8p8), 0xF0_1030_500A),
        (ID_AA64DFR1_EL1, 0, (F.FEAT_SPE_DPFZS,), 1 << 52),
        (ID_AA64DFR1_EL1, 0, (F.FEAT_EBEP,), 1 << 48),
        (ID_AA64DFR1_EL1, 0, (F.FEAT_PMUv3_ICNTR,), 1 << 36),
        (ID_AA64DFR2_EL1, 0, (F.FEAT_SPE_nVM,), 1 << 20),
        (ID_AA64DFR2_EL1, 0, (F.FEAT_SPE_EXC,), 1 << 16),
        (ID_AA64MMFR0_EL1, 0x1124, (F.FEAT_FGT,), 1 << 56 | 1 << 20 | 0x1124),
        (ID_AA64MMFR0_EL1, 0x1124, (F.FEAT_FGT, F.FEAT_FGT2), 2 << 56 | 1 << 20 | 0x1124),
        (ID_AA64MMFR0_EL1, 0x1124, (F.FEAT_ECV,), 1 << 60 | 1 << 20 | 0x1124),
        (ID_AA64MMFR0_EL1, 0x1124, (F.FEAT_ECV, F.FEAT_ECV_POFF), 2 << 60 | 1 << 20 | 0x1124),
        (ID_AA64MMFR1_EL1, 0x211120, (F.FEAT_VHE,), 0x211120),
        (ID_AA64MMFR1_EL1, 0x211120, (), 0x211020),
        # The engine has AArch32 at every level, we have it at none.
        (
            ID_AA64PFR0_EL1,
            0x1_0011_2222,
            (F.FEAT_CSV3, F.FEAT_SVE, F.FEAT_EL2, F.FEAT_EL3),
            0x1000_0001_0011_1111,
        ),
        (ID_AA64PFR0_EL1, 0x1_0011_2222, (), 0x0011_0011),
        # What the engine does not execute stays hidden.
        (ID_AA64MMFR2_EL1, 0x11, (F.FEAT_NV, F.FEAT_NV2), 0x11),
        (ID_AA64ISAR0_EL1, 0x1021_1111_1021_2120, (), 0x1021_1111_1021_2120),
        (ID_AA64ISAR0_EL1, 0x1021_1111_1021_2120, (F.FEAT_TLBIOS,), 0x1121_1111_1021_2120),
        (ID_AA64ISAR0_EL1, 0x1021_1111_1021_2120, tuple(Feature), 0x1221_1111_1031_2120),
    ],
)
def test_id_fields_follow_the_core_and_otherwise_the_engine(
    register: type[SysReg], engine: int, features: tuple[Feature, ...], value: int
) -> None:
    assert shown(register, engine, *features).value == value


def test_parange_follows_the_physical_address_size() -> None:
    for bits, code in ((32, 0), (36, 1), (40, 2), (42, 3), (44, 4)):
        value = id_register(ID_AA64MMFR0_EL1, 0x1124, frozenset(), ImpDef(pa_bits=bits))
        assert value & 15 == code


def test_a_core_that_says_nothing_of_external_aborts_ignores_them() -> None:
    assert ImpDef().external_abort == 1  # PMBIDR_EL1.EA, 2 would be an SError
