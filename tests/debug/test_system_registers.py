"""The System registers as people and debuggers see them."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from spe_unicorn import Machine
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.by_name import Registers
from spe_unicorn.arch.registers.caches import CSSELR_EL1
from spe_unicorn.arch.registers.fgt import HFGRTR_EL2
from spe_unicorn.arch.registers.identity import (
    IDENTITY_REGISTERS,
    MIDR_EL1,
    MPIDR_EL1,
    VMPIDR_EL2,
    VPIDR_EL2,
)
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3, SCTLR_EL1, SCTLR_EL2, SCTLR_EL3
from spe_unicorn.cores.profile import core_names, load_core
from spe_unicorn.debug.system_registers import SystemRegisters
from spe_unicorn.devices.gicv3.registers import ICC_IAR1_EL1
from spe_unicorn.devices.gicv3.virtual_registers import ICH_LR0_EL2, ICV_EOIR1_EL1, ICV_IAR1_EL1
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.parts import encode_parts
from tests.support import a64
from tests.support.small_boards import RAM, board_at


@pytest.mark.parametrize("core", core_names())
def test_all_of_a_core_are_read_and_nothing_changes(core: str) -> None:
    machine = Machine(shipped_firmware("hello"), core=core)
    machine.run(operations=200)
    system = SystemRegisters(machine.board.pes[0])
    before = encode_parts(machine.save().board.parts)
    values = {register: system.raw(register) for register in system}
    assert encode_parts(machine.save().board.parts) == before
    assert all(0 <= value < 1 << 64 for value in values.values())
    assert not {ICC_IAR1_EL1, ICV_IAR1_EL1, ICV_EOIR1_EL1} & set(values)  # accesses are acts
    assert (ICH_LR0_EL2 in values) == (Feature.FEAT_EL2 in machine.board.core.features)


@pytest.mark.parametrize("counters", [0, 2, 6, 31])
def test_event_counters_are_those_that_the_core_has(counters: int) -> None:
    core = replace(load_core("max"), counters=counters)
    machine = Machine(shipped_firmware("hello"), core=core)
    names = {register.__name__ for register in SystemRegisters(machine.board.pes[0])}
    for name in ("PMEVCNTR", "PMEVTYPER"):
        mine = {each for each in names if each.startswith(name)}
        assert mine == {f"{name}{n}_EL0" for n in range(counters)}
    assert {"PMCR_EL0", "PMCCNTR_EL0", "PMCCFILTR_EL0"} <= names


@pytest.mark.parametrize("el", [1, 2, 3])
@pytest.mark.parametrize("secure", [False, True])
def test_identity_is_what_an_mrs_reads_at_the_level_of_the_pe(el: int, secure: bool) -> None:
    code = [a64.mrs(n, astuple(each.encoding)) for n, each in enumerate(IDENTITY_REGISTERS)]
    board = board_at(code, core=load_core("generic"))
    pe = board.pes[0]
    system = SystemRegisters(pe)
    for register, value in (
        *((SCR_EL3, 0x430 | (not secure)), (HCR_EL2, 1 << 31), (HFGRTR_EL2, 0)),
        *((SCTLR_EL1, 0x30D0_0800), (SCTLR_EL2, 0x30C5_0830), (SCTLR_EL3, 0x30C5_0830)),
    ):
        pe.cpu.registers.set_raw(register, value)
    system.write(VPIDR_EL2, 0x1234_5678)
    system.write(VMPIDR_EL2, 0x55)
    pe.cpu.set_pstate(0x3C0 | el << 2 | 1)
    pe.resync()
    chosen = el == 1 and not secure  # by EL2
    for number, register in enumerate(IDENTITY_REGISTERS):
        if el >= (2 if register in (VPIDR_EL2, VMPIDR_EL2) else 1) and (el, secure) != (2, True):
            pe.cpu.pc = RAM + 4 * number
            board.run(1)
            assert pe.cpu.engine.x(number) == system.raw(register), register
    assert system.raw(MIDR_EL1) == (0x1234_5678 if chosen else board.core.midr)
    assert system.raw(MPIDR_EL1) == (1 << 31 | 0x55 * chosen)


AARCH32 = {
    1: "ID_PFR0 ID_PFR1 ID_DFR0 ID_AFR0 ID_MMFR0 ID_MMFR1 ID_MMFR2 ID_MMFR3",
    2: "ID_ISAR0 ID_ISAR1 ID_ISAR2 ID_ISAR3 ID_ISAR4 ID_ISAR5 ID_MMFR4 ID_ISAR6",
    3: "MVFR0 MVFR1 MVFR2 - ID_PFR2 ID_DFR1 ID_MMFR5",
}
"""Arm ARM D24.2: what is at S3_0_C0_Cm_op2 in the order of op2, by Cm."""


@pytest.mark.parametrize("core", ["generic", "neoverse-n1"])
def test_the_id_registers_of_aarch32_are_what_an_mrs_reads(core: str) -> None:
    named = {
        f"{name}_EL1": (3, 0, 0, crm, op2)
        for crm, names in AARCH32.items()
        for op2, name in enumerate(names.split())
        if name != "-"
    }
    board = board_at([a64.mrs(n, op) for n, op in enumerate(named.values())], core=load_core(core))
    cpu = board.pes[0].cpu
    registers = Registers(SystemRegisters(board.pes[0]))
    assert len(named) == 22
    board.run(len(named))
    assert cpu.pc == RAM + 4 * len(named)
    assert [registers[name].value for name in named] == [cpu.engine.x(n) for n in range(22)]
    assert registers.ID_PFR0_EL1.State0 == 1  # A32
    assert registers.ID_ISAR0_EL1.Divide == 2  # SDIV and UDIV, in A32 as well
    assert registers.ID_ISAR5_EL1.AES == 2  # AESE, and polynomial multiplication
    assert registers.MVFR0_EL1.SIMDReg == 2  # 32 registers of 64 bits


def test_reserved_bits_of_what_el2_shows_stay() -> None:
    system = SystemRegisters(Machine(shipped_firmware("hello")).board.pes[0])
    for register in (VPIDR_EL2, VMPIDR_EL2, CSSELR_EL1):
        system.write(register, (1 << 64) - 1)
        features = load_core("generic").features
        assert system.raw(register) & ~register.writable_mask(features) == (
            register.res1_mask(features)
        )
    system.write(CSSELR_EL1, 2)
    assert system.raw(CSSELR_EL1) == 2
