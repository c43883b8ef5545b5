"""A PE that stands still: what explains the rules without running anything."""

from __future__ import annotations

from dataclasses import dataclass, field

from spe_unicorn.arch.features import Features, ImpDef
from spe_unicorn.arch.registers.debug import DEBUG_REGISTERS
from spe_unicorn.arch.registers.known import REGISTERS
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.sysreg import RegisterFile
from spe_unicorn.arch.rules.identification import identify


@dataclass
class StillPE:
    """Implements ``arch.pe.PE``: all registers, zero but for RES1 bits, at an Exception level."""

    features: Features
    impdef: ImpDef = field(default_factory=ImpDef)
    el: int = 1
    pm: bool = False
    halted: bool = False
    sdd: bool = False
    registers: RegisterFile = field(init=False)

    def __post_init__(self) -> None:
        everything = (*REGISTERS, *PMU_REGISTERS, *DEBUG_REGISTERS)
        self.registers = RegisterFile(self.features, everything, self.impdef)
        self.registers.reset(lambda: 0)
        identify(self)
