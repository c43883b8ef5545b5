"""A PE whose registers are those that the Performance Monitors look at, all zero."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from tests.support.fakes import FakePE

F = Feature
PMU = frozenset({F.FEAT_PMUv3, F.FEAT_PMUv3p1, F.FEAT_PMUv3p4})
P5: Features = PMU | {F.FEAT_PMUv3p5}
P7: Features = P5 | {F.FEAT_PMUv3p7}
LEVELS: Features = frozenset({F.FEAT_EL2, F.FEAT_EL3, F.FEAT_SEL2, F.FEAT_VHE})
SYNC: Features = P7 | {
    *(F.FEAT_PMUv3p8, F.FEAT_PMUv3p9, F.FEAT_PMUv3_ICNTR, F.FEAT_EBEP, F.FEAT_SEBEP)
}
FREEZE: Features = P7 | {F.FEAT_SPE, F.FEAT_SPEv1p1, F.FEAT_SPEv1p2}


class MonitoredPE(FakePE):
    """A PE with the registers of the Performance Monitors."""

    def __init__(self, features: Features, el: int = 1) -> None:
        super().__init__(el=el, features=features)
        for register in PMU_REGISTERS:
            self.registers.add(register)

    def set(self, register: type[SysReg], **fields: int) -> None:
        self.registers.set_raw(register, register.of(**fields).value)
