"""ESR_ELx values, bit by bit from the register's description."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.exceptions import syndromes
from spe_unicorn.arch.exceptions.syndromes import (
    ProfilingSource,
    Syndrome,
    TransferSyndrome,
    WFx,
    data_abort,
    instruction_abort,
)
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.registers.spe import PMSCR_EL1


@pytest.mark.parametrize(
    ("syndrome", "esr"),
    [
        (syndromes.UNDEFINED, 0x0200_0000),
        (syndromes.ILLEGAL_STATE, 0x3A00_0000),
        (syndromes.PC_ALIGNMENT, 0x8A00_0000),
        (syndromes.SP_ALIGNMENT, 0x9A00_0000),
        (syndromes.FP_ACCESS_TRAP, 0x1FE0_0000),
        (syndromes.SVE_ACCESS_TRAP, 0x6600_0000),
        (syndromes.PSB_CSYNC_TRAP, 0x2A00_0003),
        (syndromes.svc(0x1234), 0x5600_1234),
        (syndromes.hvc(0), 0x5A00_0000),
        (syndromes.smc(0xFFFF), 0x5E00_FFFF),
        (syndromes.brk(0xF000), 0xF200_F000),
        (syndromes.wfx_trap(WFx.WFI), 0x07E0_0000),
        (syndromes.wfx_trap(WFx.WFE), 0x07E0_0001),
        (syndromes.profiling(ProfilingSource.PMU), 0xF600_0000),
        (syndromes.profiling(ProfilingSource.SPE), 0xF600_0002),
        # MSR PMSCR_EL1, X0 and MRS X7, PMSCR_EL1: the digest's ISS for Rt=0 and a write is 302412.
        (syndromes.system_register_trap(PMSCR_EL1.encoding, 0, read=False), 0x6230_2412),
        (syndromes.system_register_trap(PMSCR_EL1.encoding, 7, read=True), 0x6230_24F3),
    ],
)
def test_syndrome_of(syndrome: Syndrome, esr: int) -> None:
    assert syndrome.esr() == esr
    assert Syndrome.of_esr(esr) == syndrome


def test_iss2_lies_in_the_upper_half() -> None:
    assert Syndrome(0x24, 0x47, 0x12).esr() == 0x12_9200_0047
    assert Syndrome.of_esr(0x12_9200_0047) == Syndrome(0x24, 0x47, 0x12)


def test_immediate_of_more_than_16_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="SupervisorCall takes 16 bits, got 0x10000"):
        syndromes.svc(0x10000)


def test_data_abort_of_an_access_through_vncr_el2_is_of_the_class_of_el2() -> None:
    fault = FaultRecord(Fault.SyncExternal, 0)
    assert data_abort(fault, vncr=True).esr() == 0x9600_2010
    assert data_abort(fault._replace(write=True), vncr=True).esr() == 0x9600_2050


def test_data_abort_shows_direction_and_status() -> None:
    read = FaultRecord(Fault.Translation, 3)
    assert data_abort(read).esr() == 0x9200_0007
    assert data_abort(read._replace(write=True)).esr() == 0x9200_0047
    assert data_abort(FaultRecord(Fault.Permission, 2, write=True)).esr() == 0x9200_004E


def test_cache_maintenance_reports_as_a_write() -> None:
    assert data_abort(FaultRecord(Fault.Translation, 1), maintenance=True).esr() == 0x9200_0145


def test_stage_2_abort_describes_the_transfer() -> None:
    fault = FaultRecord(Fault.Translation, 2, stage2=True, ipa=0x900_0000, write=True)
    # STRB W5: ISV, SAS 00, SRT 5, SF 0
    assert data_abort(fault, transfer=TransferSyndrome(1, 5)).esr() == 0x9305_0046
    # LDRSH X3: ISV, SAS 01, SSE, SRT 3, SF
    load = TransferSyndrome(2, 3, sign_extend=True, sixty_four=True)
    assert data_abort(fault._replace(write=False), transfer=load).esr() == 0x9363_8006
    # LDAR X30: ISV, SAS 11, SRT 30, SF, AR
    acquire = TransferSyndrome(8, 30, sixty_four=True, acquire_release=True)
    assert data_abort(fault._replace(write=False), transfer=acquire).esr() == 0x93DE_C006


@pytest.mark.parametrize(
    "fault",
    [
        FaultRecord(Fault.Translation, 2),
        FaultRecord(Fault.Translation, 2, stage2=True, s1ptw=True, ipa=0x4000_0000),
    ],
)
def test_only_a_stage_2_abort_of_the_access_itself_describes_the_transfer(
    fault: FaultRecord,
) -> None:
    assert data_abort(fault, transfer=TransferSyndrome(8, 1)).iss >> 24 == 0


def test_stage_2_fault_on_a_stage_1_walk_sets_s1ptw() -> None:
    fault = FaultRecord(Fault.Permission, 3, stage2=True, s1ptw=True, ipa=0x4000_0000)
    assert data_abort(fault).esr() == 0x9200_008F
    assert instruction_abort(fault).esr() == 0x8200_008F


def test_instruction_abort_has_no_direction() -> None:
    assert instruction_abort(FaultRecord(Fault.Permission, 3, write=True)).esr() == 0x8200_000F


def test_far_not_valid_exists_for_external_aborts_only() -> None:
    assert data_abort(FaultRecord(Fault.SyncExternal, 0), fnv=True).esr() == 0x9200_0410
    assert data_abort(FaultRecord(Fault.Translation, 3), fnv=True).esr() == 0x9200_0007
    assert instruction_abort(FaultRecord(Fault.SyncExternal, 0), fnv=True).esr() == 0x8200_0410
