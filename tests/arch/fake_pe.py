"""A PE made of plain values."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS

ALL_LEVELS: Features = frozenset(
    {Feature.FEAT_EL2, Feature.FEAT_EL3, Feature.FEAT_VHE, Feature.FEAT_SEL2, Feature.FEAT_NV}
)


class FakePE:
    """A PE at ``el`` whose registers are all zero but for those given."""

    pm = False
    halted = False
    sdd = False

    def __init__(
        self,
        registers: dict[type[SysReg], int],
        *,
        el: int = 1,
        features: Features = ALL_LEVELS,
        impdef: ImpDef | None = None,
    ) -> None:
        self.el = el
        self.features = features
        self.impdef = impdef or ImpDef()
        self.registers = RegisterFile(features, SYSTEM_REGISTERS)
        for register, value in registers.items():
            self.registers.set_raw(register, value)
