"""The System registers as people and debuggers see them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn import Machine
from spe_unicorn.arch.features import Feature
from spe_unicorn.cores.profile import core_names, load_core
from spe_unicorn.debug.system_registers import SystemRegisters
from spe_unicorn.devices.gicv3.registers import ICC_IAR1_EL1
from spe_unicorn.devices.gicv3.virtual_registers import ICH_LR0_EL2, ICV_EOIR1_EL1, ICV_IAR1_EL1
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.parts import encode_parts


@pytest.mark.parametrize("core", core_names())
def test_all_of_a_core_are_read_and_nothing_changes(core):
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
def test_event_counters_are_those_that_the_core_has(counters):
    core = replace(load_core("max"), counters=counters)
    machine = Machine(shipped_firmware("hello"), core=core)
    names = {register.__name__ for register in SystemRegisters(machine.board.pes[0])}
    for name in ("PMEVCNTR", "PMEVTYPER"):
        mine = {each for each in names if each.startswith(name)}
        assert mine == {f"{name}{n}_EL0" for n in range(counters)}
    assert {"PMCR_EL0", "PMCCNTR_EL0", "PMCCFILTR_EL0"} <= names
