"""AT instructions and PAR_EL1."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.memory.address_translation import AT_OPERATIONS, address_translate, encode_par
from spe_unicorn.arch.memory.descriptors import (
    AddressDescriptor,
    Fault,
    FaultRecord,
    MemoryAttributes,
)
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
    VTCR_EL2,
    VTTBR_EL2,
)
from spe_unicorn.arch.spaces import PASpace
from tests.arch.translation_tables import (
    AF,
    AP_EL0,
    BLOCK,
    READ_ONLY,
    S2_NORMAL,
    S2R,
    S2W,
)
from tests.support.fakes import FakeMemory, FakePE

S1E1R, S1E1W, S1E0R, S1E0W = ((0, 8, op2) for op2 in range(4))
S1E1RP, S1E1WP = (0, 9, 0), (0, 9, 1)
S1E2R, S1E2W = (4, 8, 0), (4, 8, 1)
S12E1R, S12E1W, S12E0R, S12E0W = ((4, 8, op2) for op2 in range(4, 8))
S1E3R, S1E3W = (6, 8, 0), (6, 8, 1)


@pytest.mark.parametrize(
    ("result", "par"),
    [
        (
            AddressDescriptor(0x12_3456_7ABC, PASpace.NonSecure, MemoryAttributes(0xFF, 3), 12, 3),
            0xFF00_0012_3456_7B80,  # bit 11, NS, SH=11
        ),
        (
            AddressDescriptor(0x4000_0000, PASpace.Secure, MemoryAttributes(0x04, 2), 12, 3),
            0x0400_0000_4000_0900,
        ),
        (FaultRecord(Fault.Translation, 3), 0x80F),
        (FaultRecord(Fault.Permission, 1), 0x81B),
        (FaultRecord(Fault.Translation, 2, stage2=True, ipa=0), 0xA0D),
        (FaultRecord(Fault.AccessFlag, 3, stage2=True, s1ptw=True, ipa=0), 0xB17),
        (FaultRecord(Fault.AddressSize, 0), 0x801),
    ],
)
def test_par_encoding(result: AddressDescriptor | FaultRecord, par: int) -> None:
    assert encode_par(result) == par


@pytest.mark.parametrize(
    ("space", "bits"),
    [
        (PASpace.Secure, 0),
        (PASpace.NonSecure, 1 << 9),
        (PASpace.Root, 1 << 11),
        (PASpace.Realm, 1 << 11 | 1 << 9),
    ],
)
def test_par_names_the_address_space_with_rme(space: PASpace, bits: int) -> None:
    found = AddressDescriptor(0x1000, space, MemoryAttributes(0, 0), 12, 3)
    assert encode_par(found, rme=True) == 0x1000 | bits


# Each regime's level 1 table maps its first gigabyte elsewhere: EL1 at 0x8000_0000, EL2 at
# 0xC000_0000, EL3 at 0x1_0000_0000, and stage 2 moves 0x8000_0000 to 0x2_0000_0000.
LEAF = BLOCK | AF
S2_LEAF = BLOCK | AF | S2R | S2W | S2_NORMAL
REGISTERS: dict[type[SysReg], int] = {
    SCR_EL3: SCR_EL3.of(NS=1).value,
    SCTLR_EL1: 1,
    SCTLR_EL2: 1,
    SCTLR_EL3: 1,
    TCR_EL1: TCR_EL1.of(T0SZ=25, T1SZ=25, TG1=2, IPS=2).value,
    TCR_EL2: 25 | 2 << 16,
    TCR_EL3: TCR_EL3.of(T0SZ=25, PS=2).value,
    TTBR0_EL1: 0x1000,
    TTBR0_EL2: 0x2000,
    TTBR0_EL3: 0x3000,
    MAIR_EL1: 0xFF,
    VTCR_EL2: VTCR_EL2.of(T0SZ=25, SL0=1, PS=2).value,
    VTTBR_EL2: 0x4000,
}
HOST_TCR = TCR_EL2.of(T0SZ=25, T1SZ=25, TG1=2, IPS=2).value


def memory() -> FakeMemory:
    result = FakeMemory()
    result.cells = {
        0x1000: 0x8000_0000 | LEAF | AP_EL0,
        0x2000: 0xC000_0000 | LEAF,
        0x3000: 0x1_0000_0000 | LEAF,
        0x4000: S2_LEAF,
        0x4010: 0x2_0000_0000 | S2_LEAF,
    }
    return result


def at(
    name: tuple[int, int, int],
    el: int,
    *,
    hcr: int = 0,
    pan: bool = False,
    extra: dict[type[SysReg], int] | None = None,
    cells: FakeMemory | None = None,
) -> int | FaultRecord:
    pe = FakePE({**REGISTERS, HCR_EL2: hcr, **(extra or {})}, el=el)
    return address_translate(pe, AT_OPERATIONS[name], 0x1234_5678, cells or memory(), pan=pan)


def pa_of(par: int | FaultRecord) -> int:
    assert isinstance(par, int)
    assert par & 1 == 0
    return par & 0xF_FFFF_FFFF_F000


HOST = HCR_EL2.of(E2H=1, TGE=1).value
VM = HCR_EL2.of(VM=1).value


@pytest.mark.parametrize(
    ("name", "el", "hcr", "pa"),
    [
        (S1E1R, 1, 0, 0x9234_5000),
        (S1E0W, 2, 0, 0x9234_5000),
        (S1E1R, 2, VM, 0x9234_5000),
        (S12E1R, 2, VM, 0x2_1234_5000),
        (S12E0W, 3, VM, 0x2_1234_5000),
        (S12E1R, 2, 0, 0x9234_5000),
        (S1E2R, 2, 0, 0xD234_5000),
        (S1E2W, 3, 0, 0xD234_5000),
        (S1E3R, 3, 0, 0x1_1234_5000),
        (S1E1W, 2, HOST, 0xD234_5000),
    ],
)
def test_each_instruction_asks_its_regime(
    name: tuple[int, int, int], el: int, hcr: int, pa: int
) -> None:
    tcr: dict[type[SysReg], int] = {TCR_EL2: HOST_TCR} if hcr == HOST else {}
    assert pa_of(at(name, el, hcr=hcr, extra=tcr)) == pa


def test_read_write_and_privilege_make_the_difference() -> None:
    cells = memory()
    cells.cells[0x1000] = 0x8000_0000 | LEAF | READ_ONLY
    assert pa_of(at(S1E1R, 1, cells=cells)) == 0x9234_5000
    assert at(S1E1W, 1, cells=cells) == 0x81B
    assert at(S1E0R, 1, cells=cells) == 0x81B


def test_only_the_p_forms_obey_pan() -> None:
    assert pa_of(at(S1E1R, 1, pan=True)) == 0x9234_5000
    assert at(S1E1RP, 1, pan=True) == 0x81B
    assert at(S1E1WP, 1, pan=True) == 0x81B
    assert pa_of(at(S1E1RP, 1, pan=False)) == 0x9234_5000


def test_stage_2_fault_is_reported_in_par() -> None:
    cells = memory()
    cells.cells[0x4010] = 0
    assert at(S12E1R, 2, hcr=VM, cells=cells) == 0xA0B


def test_stage_2_fault_on_the_walk_is_an_abort_at_el1_and_a_report_at_el2() -> None:
    cells = memory()
    cells.cells[0x4000] = 0
    fault = at(S1E1R, 1, hcr=VM, cells=cells)
    assert isinstance(fault, FaultRecord)
    assert (fault.fsc, fault.stage2, fault.s1ptw, fault.ipa) == (0x05, True, True, 0x1000)
    assert at(S1E1R, 2, hcr=VM, cells=cells) == 0xB0B


def test_external_abort_on_the_walk_is_an_abort_at_every_level() -> None:
    cells = memory()
    cells.aborting = {0x2000}
    fault = at(S1E2R, 2, cells=cells)
    assert isinstance(fault, FaultRecord)
    assert fault.fsc == 0x15
