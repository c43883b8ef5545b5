from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.fgt_registers import FGT_REGISTERS
from spe_unicorn.arch.start_state import firmware_state
from spe_unicorn.arch.still import StillPE
from spe_unicorn.arch.system_registers import HCR_EL2, MDCR_EL2, MDCR_EL3, SCR_EL3
from tests.arch.access_matrix import EVERYTHING

ONES = (1 << 64) - 1


@pytest.mark.parametrize(("el", "e2pb"), [(0, 3), (1, 3), (2, 0)])
def test_firmware_leaves_spe_to_the_level_that_it_starts(el: int, e2pb: int) -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: ONES)
    firmware_state(pe.registers, el)
    # NS, RW, HCE, FGTEn, FGTEn2, ECVEn and the two bits that are RES1.
    assert pe.registers.raw(SCR_EL3) == 1 | 0x30 | 1 << 8 | 1 << 10 | 3 << 27 | 1 << 59
    # NSPB 11, EnPMSN, EnPMS3, EnPMS4
    assert pe.registers.raw(MDCR_EL3) == 3 << 12 | 1 << 36 | 1 << 42 | 1 << 55
    assert pe.registers.raw(MDCR_EL2) == e2pb << 12 | 31  # HPMN stays
    assert pe.registers.raw(HCR_EL2) == 1 << 31
    assert {pe.registers.raw(register) for register in FGT_REGISTERS} == {0}


def test_firmware_sets_only_what_the_core_has() -> None:
    pe = StillPE(frozenset({Feature.FEAT_SPE, Feature.FEAT_EL2, Feature.FEAT_EL3}))
    firmware_state(pe.registers, 1)
    assert pe.registers.raw(SCR_EL3) == 1 | 0x30 | 1 << 8 | 1 << 10
    assert pe.registers.raw(MDCR_EL3) == 3 << 12


def test_a_start_at_el3_finds_the_reset_state() -> None:
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: ONES)
    before = pe.registers.save()
    firmware_state(pe.registers, 3)
    assert pe.registers.save() == before
