"""A guest hypervisor: its HCR_EL2 is in memory, by nested virtualization."""

from __future__ import annotations

from dataclasses import astuple

from spe_unicorn.arch.registers.system import HCR_EL2, VBAR_EL2, VNCR_EL2
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA, VECTORS = 0x4000_0000, 0x4010_0000, 0x4030_0000
MRS_HCR, MSR_HCR = a.mrs(0, astuple(HCR_EL2.encoding)), a.msr(astuple(HCR_EL2.encoding), 0)
NESTED_LOOP = [MRS_HCR, a.add_imm(1, 1, 1), MSR_HCR, a.b(-12)]


def guest_hypervisor(runner: type[Runner], period: int | None) -> Machine:
    """A guest at EL1 that believes to be at EL2: its HCR_EL2 lies in memory, from ``DATA`` on."""
    image = image_of({CODE: a.code(NESTED_LOOP)}, CODE)
    machine = Machine(image, runner=runner, core="max", period=period)
    registers = machine.board.cpu.registers
    nested = HCR_EL2.of(NV2=1, NV1=1, NV=1).value
    registers.set_raw(HCR_EL2, registers.raw(HCR_EL2) | nested)
    registers.set_raw(VNCR_EL2, DATA)
    registers.set_raw(VBAR_EL2, VECTORS)
    machine.board.handler.controls_written()
    return machine
