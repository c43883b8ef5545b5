"""The way from a PE's registers to a translation context."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.memory.descriptors import Regime
from spe_unicorn.arch.memory.regimes import context_for, translation_regime
from spe_unicorn.arch.registers.id import ID_AA64MMFR0_EL1, ID_AA64MMFR1_EL1, ID_AA64MMFR2_EL1
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MAIR_EL1,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    TCR_EL1,
    TCR_EL2,
    TCR_EL3,
    TTBR0_EL1,
    TTBR0_EL2,
    TTBR0_EL3,
    TTBR1_EL1,
    TTBR1_EL2,
    VSTCR_EL2,
    VSTTBR_EL2,
    VTCR_EL2,
    VTTBR_EL2,
)
from spe_unicorn.arch.spaces import PASpace
from tests.support.fakes import ALL_LEVELS, FakePE

NS = SCR_EL3.of(NS=1).value
VHE = HCR_EL2.of(E2H=1, TGE=1).value


def test_el1_0_takes_el1s_registers() -> None:
    pe = FakePE(
        {
            SCR_EL3: NS,
            SCTLR_EL1: SCTLR_EL1.of(M=1, C=1, I=1, EE=1, WXN=1).value,
            TCR_EL1: TCR_EL1.of(T0SZ=25, T1SZ=16, TG1=2, IPS=2, TBI1=1, HPD0=1, EPD1=1).value,
            TTBR0_EL1: 0x4000_1000,
            TTBR1_EL1: 0x4000_2001,
            MAIR_EL1: 0xFF44,
            ID_AA64MMFR1_EL1: ID_AA64MMFR1_EL1.of(HPDS=1).value,
        }
    )
    context = context_for(pe, Regime.EL10)
    assert context.s1_enabled
    assert context.paspace is PASpace.NonSecure
    assert context.dcache
    assert context.icache
    assert context.stage2 is None
    lower, upper = context.lower, context.upper
    assert upper is not None
    assert (lower.base, lower.iasize, lower.oasize, lower.start_level) == (0x4000_1000, 39, 40, 1)
    assert (upper.base, upper.iasize, upper.start_level) == (0x4000_2000, 48, 0)
    assert (lower.tbi, upper.tbi) == (False, True)
    assert (lower.hpd, upper.hpd) == (True, False)
    assert (lower.epd, upper.epd) == (False, True)
    assert lower.ee
    assert lower.wxn
    assert lower.mair == 0xFF44


@pytest.mark.parametrize("field", ["DC", "TGE"])
def test_hcr_dc_and_tge_turn_stage_1_of_el1_0_off(field: str) -> None:
    registers: dict[type[SysReg], int] = {SCR_EL3: NS, SCTLR_EL1: 1}
    assert context_for(FakePE(registers), Regime.EL10).s1_enabled
    registers[HCR_EL2] = HCR_EL2.of(**{field: 1}).value
    assert not context_for(FakePE(registers), Regime.EL10).s1_enabled


def test_hcr_counts_for_nothing_where_el2_is_disabled() -> None:
    # Secure state without SCR_EL3.EEL2.
    pe = FakePE({SCTLR_EL1: 1, HCR_EL2: HCR_EL2.of(VM=1, DC=1, TGE=1).value})
    context = context_for(pe, Regime.EL10)
    assert context.paspace is PASpace.Secure
    assert context.s1_enabled
    assert context.stage2 is None


@pytest.mark.parametrize("field", ["VM", "DC"])
def test_hcr_vm_and_dc_turn_stage_2_on(field: str) -> None:
    pe = FakePE(
        {
            SCR_EL3: NS,
            HCR_EL2: HCR_EL2.of(**{field: 1, "PTW": 1}).value,
            VTCR_EL2: VTCR_EL2.of(T0SZ=25, SL0=1, PS=2).value,
            VTTBR_EL2: 5 << 48 | 0x4000_3000,
            SCTLR_EL2: SCTLR_EL2.of(EE=1).value,
        }
    )
    context = context_for(pe, Regime.EL10)
    stage2 = context.stage2
    assert stage2 is not None
    assert (stage2.base, stage2.iasize, stage2.start_level) == (0x4000_3000, 39, 1)
    assert stage2.ptw
    assert stage2.ee
    assert context.dc is (field == "DC")


def test_secure_stage_2_has_tables_for_each_ipa_space() -> None:
    pe = FakePE(
        {
            SCR_EL3: SCR_EL3.of(EEL2=1).value,
            HCR_EL2: 1,
            VTCR_EL2: VTCR_EL2.of(T0SZ=25, SL0=1, PS=2, NSA=1).value,
            VTTBR_EL2: 0x4000_3000,
            VSTCR_EL2: VSTCR_EL2.of(T0SZ=32, SL0=1).value,
            VSTTBR_EL2: 0x4000_4000,
        }
    )
    context = context_for(pe, Regime.EL10)
    assert context.stage2 is not None
    assert context.stage2_ns is not None
    assert (context.stage2.base, context.stage2.iasize) == (0x4000_4000, 32)
    assert context.stage2.paspace is PASpace.Secure
    assert (context.stage2_ns.base, context.stage2_ns.iasize) == (0x4000_3000, 39)
    assert context.stage2_ns.paspace is PASpace.NonSecure


def test_el2_and_el2_0_read_the_same_tcr_differently() -> None:
    tcr = TCR_EL2.of(T0SZ=25, T1SZ=25, TG1=2, IPS=2, TBI0=1).value
    registers: dict[type[SysReg], int] = {
        SCR_EL3: NS,
        SCTLR_EL2: 1,
        TCR_EL2: tcr,
        TTBR0_EL2: 0x1000,
        TTBR1_EL2: 0x2000,
    }
    host = context_for(FakePE({**registers, HCR_EL2: VHE}), Regime.EL20)
    assert host.upper is not None
    assert (host.lower.base, host.upper.base) == (0x1000, 0x2000)
    assert host.lower.tbi
    alone = context_for(FakePE(registers), Regime.EL2)
    assert alone.upper is None
    # T1SZ=25 lies in PS and above: bits 18:16 are 001, 36 bits; bit 20 is TBI.
    assert alone.lower.oasize == 36
    assert alone.lower.tbi


def test_el3_lies_in_the_secure_space_whatever_scr_says() -> None:
    pe = FakePE(
        {
            SCR_EL3: NS,
            SCTLR_EL3: 1,
            TCR_EL3: TCR_EL3.of(T0SZ=32, PS=1).value,
            TTBR0_EL3: 0x8000,
        }
    )
    context = context_for(pe, Regime.EL3)
    assert context.paspace is PASpace.Secure
    assert (context.lower.base, context.lower.oasize, context.lower.start_level) == (0x8000, 36, 1)


def test_el3_is_root_with_rme() -> None:
    pe = FakePE({SCR_EL3: NS}, features=ALL_LEVELS | {Feature.FEAT_RME})
    assert context_for(pe, Regime.EL3).paspace is PASpace.Root


def test_core_without_el2_and_el3_needs_none_of_their_registers() -> None:
    context = context_for(FakePE({SCTLR_EL1: 1}, features=frozenset()), Regime.EL10)
    assert context.paspace is PASpace.NonSecure
    assert context.stage2 is None


@pytest.mark.parametrize(
    ("hcr", "regimes"),
    [
        (0, [Regime.EL10, Regime.EL10, Regime.EL2, Regime.EL3]),
        (HCR_EL2.of(TGE=1).value, [Regime.EL10, Regime.EL10, Regime.EL2, Regime.EL3]),
        (HCR_EL2.of(E2H=1).value, [Regime.EL10, Regime.EL10, Regime.EL20, Regime.EL3]),
        (VHE, [Regime.EL20, Regime.EL10, Regime.EL20, Regime.EL3]),
    ],
)
def test_regime_of_each_exception_level(hcr: int, regimes: list[Regime]) -> None:
    pe = FakePE({SCR_EL3: NS, HCR_EL2: hcr})
    assert [translation_regime(pe, el) for el in range(4)] == regimes


def test_id_registers_tell_what_the_walker_may_do() -> None:
    pe = FakePE(
        {
            SCR_EL3: NS,
            ID_AA64MMFR0_EL1: ID_AA64MMFR0_EL1.of(
                TGran4=1, TGran16=0, TGran64=0xF, TGran16_2=3, TGran4_2=1
            ).value,
            ID_AA64MMFR1_EL1: ID_AA64MMFR1_EL1.of(HAFDBS=1, PAN=3, XNX=1).value,
            ID_AA64MMFR2_EL1: ID_AA64MMFR2_EL1.of(VARange=1, ST=1, E0PD=1).value,
        },
        impdef=ImpDef(pa_bits=52, flag_update=False),
    )
    vmsa = context_for(pe, Regime.EL10).vmsa
    assert vmsa.pa_bits == 52
    assert (vmsa.granules, vmsa.lpa2) == ({12}, {12})
    assert (vmsa.granules2, vmsa.lpa2_stage2) == ({14}, {14})
    assert (vmsa.af, vmsa.dbm, vmsa.hpds) == (True, False, False)
    assert (vmsa.epan, vmsa.xnx, vmsa.e0pd) == (True, True, True)
    assert (vmsa.lva, vmsa.ttst) == (True, True)
    assert not vmsa.spe_flag_update
