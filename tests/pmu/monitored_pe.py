"""A PE whose registers are those that the Performance Monitors look at, all zero."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.registers.pmu import PMEVTYPER, PMU_REGISTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.pmu.monitors import PerformanceMonitors
from tests.support.fakes import FakePE

F = Feature
CYCLES, INSTRUCTIONS = 31, 32
ALL = (1 << 33) - 1
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


def monitors(
    *events: int,
    features: Features = P7,
    el: int = 1,
    control: int = 1,
    enabled: int = ALL,
    noticed: int = 0,
    stopped: bool = False,
) -> tuple[PerformanceMonitors, MonitoredPE]:
    """Monitors whose counters count ``events``, as many as there are; PMCR_EL0.E is 1."""
    pe = MonitoredPE(features, el)
    if F.FEAT_EL3 in features:
        pe.set(SCR_EL3, NS=1)
        pe.set(MDCR_EL3, PMEE=1 if F.FEAT_EBEP in features else 0)
    if F.FEAT_EL2 in features:
        pe.set(MDCR_EL2, HPMN=len(events), PMEE=1 if F.FEAT_EBEP in features else 0)
    subject = PerformanceMonitors(pe, len(events), lambda: stopped)
    for counter, event in enumerate(events):
        subject.configure(counter, PMEVTYPER.of(evtCount=event).value)
    subject.s.control = control
    subject.s.enabled = enabled
    subject.s.noticed = noticed
    return subject, pe
