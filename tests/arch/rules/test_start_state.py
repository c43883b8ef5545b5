from __future__ import annotations

import pytest

from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.fgt import FGT_REGISTERS, HDFGRTR_EL2, HDFGWTR2_EL2
from spe_unicorn.arch.registers.spe import PMBSR_EL2, PMBSR_EL3, PMSCR_EL2
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL2, HCR_EL2, MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.arch.rules.start_state import firmware_state
from tests.arch.access_matrix import EVERYTHING

ONES = (1 << 64) - 1


@pytest.mark.parametrize(("el", "e2pb"), [(0, 3), (1, 3), (2, 0)])
def test_firmware_leaves_spe_to_the_level_that_it_starts(el: int, e2pb: int) -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: ONES)
    firmware_state(pe.registers, el)
    # NS, RW, HCE, APK, API, ATA, FGTEn, FGTEn2, ECVEn, HXEn and the two bits that are RES1.
    scr = 1 | 0x30 | 1 << 8 | 1 << 10 | 3 << 16 | 7 << 26 | 1 << 38 | 1 << 59
    assert pe.registers.raw(SCR_EL3) == scr
    # NSPB 11, EnPMSN, EnPMS3, EnPMS4, EnPM2, PMEE 01
    assert pe.registers.raw(MDCR_EL3) == 3 << 12 | 1 << 36 | 1 << 42 | 1 << 55 | 1 << 7 | 1 << 40
    pmee = 0b01 if el < 2 else 0b00
    assert pe.registers.raw(MDCR_EL2) == e2pb << 12 | pmee << 40 | 31  # HPMN stays
    ata = el < 2  # EL2 lets EL1 have tags, or is there to do so
    assert pe.registers.raw(HCR_EL2) == 1 << 31 | 3 << 40 | ata << 56  # RW, APK, API
    assert pe.registers.raw(PMBSR_EL3) == 0


def test_at_el2_the_fine_grained_traps_are_zero() -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: ONES)
    firmware_state(pe.registers, 2)
    assert {pe.registers.raw(register) for register in FGT_REGISTERS} == {0}


def test_at_el1_no_fine_grained_trap_traps() -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: 0)
    firmware_state(pe.registers, 1)
    hdfgrtr, hdfgwtr2 = pe.registers.read(HDFGRTR_EL2), pe.registers.read(HDFGWTR2_EL2)
    assert (hdfgrtr.nPMSNEVFR_EL1, hdfgrtr.PMSICR_EL1) == (1, 0)
    assert (hdfgwtr2.nPMSDSFR_EL1, hdfgwtr2.nPMBMAR_EL1) == (1, 1)


def test_at_el1_physical_addresses_and_the_physical_count_may_be_recorded() -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: ONES)
    firmware_state(pe.registers, 1)
    assert pe.registers.raw(PMSCR_EL2) == 1 << 6 | 1 << 4  # PCT 01, PA
    assert pe.registers.raw(PMBSR_EL2) == 0


@pytest.mark.parametrize(("el", "left"), [(1, 0), (2, 0xFFFF_FFFF)])
def test_firmware_leaves_no_context_of_el2_for_el1(el: int, left: int) -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: ONES)
    firmware_state(pe.registers, el)
    assert pe.registers.raw(CONTEXTIDR_EL2) == left


def test_firmware_sets_only_what_the_core_has() -> None:
    pe = StillPE(frozenset({Feature.FEAT_SPE, Feature.FEAT_EL2, Feature.FEAT_EL3}))
    firmware_state(pe.registers, 1)
    assert pe.registers.raw(SCR_EL3) == 1 | 0x30 | 1 << 8 | 1 << 10 | 3 << 16
    assert pe.registers.raw(MDCR_EL3) == 3 << 12


def test_a_start_at_el3_finds_the_reset_state() -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: ONES)
    before = pe.registers.save()
    firmware_state(pe.registers, 3)
    assert pe.registers.save() == before
