"""ERET: legal and illegal returns."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.exceptions.returns import exception_return
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.registers.id import (
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64PFR0_EL1,
    ID_AA64PFR1_EL1,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3, SPSR
from tests.support.fakes import ALL_LEVELS, FakePE

EL0T, EL1T, EL1H, EL2T, EL2H, EL3T, EL3H = 0x0, 0x4, 0x5, 0x8, 0x9, 0xC, 0xD
NS_RW = SCR_EL3.of(NS=1, RW=1).value
RW = HCR_EL2.of(RW=1).value


def pe(
    scr: int = NS_RW,
    hcr: int = RW,
    features: Features = ALL_LEVELS,
    extra: dict[type[SysReg], int] | None = None,
) -> FakePE:
    registers: dict[type[SysReg], int] = {SCR_EL3: scr, HCR_EL2: hcr}
    return FakePE({**registers, **(extra or {})}, features=features)


def is_illegal(mode: int, spsr: int, machine: FakePE | None = None) -> bool:
    return exception_return(machine or pe(), SPSR(mode), SPSR(spsr), 0x1000).illegal


@pytest.mark.parametrize("mode", [EL1T, EL1H, EL2T, EL2H, EL3T, EL3H])
@pytest.mark.parametrize("target", [EL0T, EL1T, EL1H, EL2T, EL2H, EL3T, EL3H])
def test_return_goes_down_or_stays(mode: int, target: int) -> None:
    result = exception_return(pe(), SPSR(mode), SPSR(target), 0x8000_0004)
    assert result.illegal is (target >> 2 > mode >> 2)
    assert result.pc == 0x8000_0004
    if not result.illegal:
        assert result.pstate == SPSR(target)


@pytest.mark.parametrize("m", [0b0001, 0b0010, 0b0011, 0b0110, 0b0111, 0b1010, 0b1110, 0b1111])
def test_reserved_mode_is_illegal(m: int) -> None:
    assert is_illegal(EL3H, m)


@pytest.mark.parametrize("m", [0x10, 0x13, 0x1F, 0x1A])
def test_aarch32_request_is_illegal_and_says_so(m: int) -> None:
    result = exception_return(pe(), SPSR(EL3H), SPSR(m), 0x1000)
    assert result.illegal
    assert result.aarch32
    assert not exception_return(pe(), SPSR(EL3H), SPSR(0b10), 0x1000).aarch32


def test_return_to_a_missing_level_is_illegal() -> None:
    no_el2 = pe(features=ALL_LEVELS - {Feature.FEAT_EL2, Feature.FEAT_VHE, Feature.FEAT_SEL2})
    assert is_illegal(EL3H, EL2H, no_el2)
    assert not is_illegal(EL3H, EL1H, no_el2)


def test_return_to_el2_in_secure_state_needs_secure_el2() -> None:
    assert is_illegal(EL3H, EL2H, pe(scr=SCR_EL3.of(RW=1).value))
    assert not is_illegal(EL3H, EL2H, pe(scr=SCR_EL3.of(RW=1, EEL2=1).value))


def test_return_to_el1_with_tge_is_illegal() -> None:
    tge = HCR_EL2.of(RW=1, TGE=1).value
    assert is_illegal(EL2H, EL1H, pe(hcr=tge))
    assert not is_illegal(EL2H, EL0T, pe(hcr=tge))
    assert not is_illegal(EL2H, EL2H, pe(hcr=tge))
    # Where EL2 is disabled its controls are not looked at.
    assert not is_illegal(EL3H, EL1H, pe(scr=SCR_EL3.of(RW=1).value, hcr=tge))


def test_return_below_a_level_that_asks_for_aarch32_is_illegal() -> None:
    assert is_illegal(EL3H, EL2H, pe(scr=SCR_EL3.of(NS=1).value))
    assert is_illegal(EL3H, EL1H, pe(scr=SCR_EL3.of(NS=1).value))
    assert is_illegal(EL2H, EL1H, pe(hcr=0))
    assert is_illegal(EL2H, EL0T, pe(hcr=0))
    assert not is_illegal(EL2H, EL2H, pe(hcr=0))
    # A host has no EL1 that could be AArch32.
    assert not is_illegal(EL2H, EL0T, pe(hcr=HCR_EL2.of(E2H=1, TGE=1).value))


def test_reserved_security_state_allows_only_el3() -> None:
    rme = pe(scr=SCR_EL3.of(NSE=1, RW=1).value, features=ALL_LEVELS | {Feature.FEAT_RME})
    assert is_illegal(EL3H, EL1H, rme)
    assert not is_illegal(EL3H, EL3H, rme)


FEATURES: dict[type[SysReg], int] = {
    ID_AA64PFR0_EL1: ID_AA64PFR0_EL1.of(DIT=1).value,
    ID_AA64PFR1_EL1: ID_AA64PFR1_EL1.of(SSBS=1, BT=1).value,
    ID_AA64MMFR1_EL1: ID_AA64MMFR1_EL1.of(PAN=1).value,
    ID_AA64MMFR2_EL1: ID_AA64MMFR2_EL1.of(UAO=1).value,
}


def test_legal_return_takes_all_of_pstate_but_software_step() -> None:
    machine = pe(
        extra=FEATURES,
        features=ALL_LEVELS | {Feature.FEAT_MTE2, Feature.FEAT_EBEP, Feature.FEAT_SEBEP},
    )
    wanted = SPSR.of(
        **dict.fromkeys("NZCVDAIF", 1),
        TCO=1,
        DIT=1,
        UAO=1,
        PAN=1,
        IL=1,
        SSBS=1,
        BTYPE=3,
        PM=1,
        PPEND=1,
        M=EL0T,
    )
    result = exception_return(machine, SPSR(EL1H), wanted.replace(SS=1), 0x1000)
    assert result.pstate == wanted
    assert not result.illegal


def test_legal_return_leaves_out_what_the_core_lacks() -> None:
    wanted = SPSR.of(TCO=1, DIT=1, UAO=1, PAN=1, SSBS=1, BTYPE=3, PM=1, PPEND=1, Z=1, M=EL0T)
    assert exception_return(pe(), SPSR(EL1H), wanted, 0).pstate == SPSR.of(Z=1, M=EL0T)


def test_illegal_return_takes_flags_masks_and_pan_and_stays() -> None:
    machine = pe(extra=FEATURES)
    before = SPSR.of(V=1, D=1, DIT=1, SSBS=1, M=EL1H)
    asked = SPSR.of(N=1, I=1, PAN=1, UAO=1, M=EL2H)
    result = exception_return(machine, before, asked, 0x1000)
    assert result.illegal
    assert result.pstate == SPSR.of(N=1, I=1, PAN=1, DIT=1, SSBS=1, IL=1, M=EL1H)
