"""A PE whose registers are those that the Performance Monitors look at, all zero."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS

F = Feature
PMU = frozenset({F.FEAT_PMUv3, F.FEAT_PMUv3p1, F.FEAT_PMUv3p4})
P5: Features = PMU | {F.FEAT_PMUv3p5}
P7: Features = P5 | {F.FEAT_PMUv3p7}
LEVELS: Features = frozenset({F.FEAT_EL2, F.FEAT_EL3, F.FEAT_SEL2, F.FEAT_VHE})
SYNC: Features = P7 | {
    *(F.FEAT_PMUv3p8, F.FEAT_PMUv3p9, F.FEAT_PMUv3_ICNTR, F.FEAT_EBEP, F.FEAT_SEBEP)
}
FREEZE: Features = P7 | {F.FEAT_SPE, F.FEAT_SPEv1p1, F.FEAT_SPEv1p2}


class FakePE:
    def __init__(self, features: Features, el: int = 1) -> None:
        self.features = features
        self.impdef = ImpDef()
        registers = (*SYSTEM_REGISTERS, *SPE_REGISTERS, *PMU_REGISTERS)
        self.registers = RegisterFile(features, registers, self.impdef)
        self.el = el
        self.pm = self.halted = self.sdd = False

    def set(self, register: type[SysReg], **fields: int) -> None:
        self.registers.set_raw(register, register.of(**fields).value)
