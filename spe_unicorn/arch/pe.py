"""The processing element as the rules see it; the host's CPU implements it, tests have a fake."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

from spe_unicorn.arch.features import Features, ImpDef
from spe_unicorn.arch.registers.sysreg import RegisterFile

EL0: Final = 0
EL1: Final = 1
EL2: Final = 2
EL3: Final = 3


class SecurityState(IntEnum):
    """A Security state, numbered as SCR_EL3.{NSE,NS} where that selects one."""

    SECURE = 0
    NON_SECURE = 1
    ROOT = 2
    REALM = 3


class PE(Protocol):
    """What the rules ask a processing element. AArch64 state only: it has no other."""

    @property
    def features(self) -> Features:
        """The features that it implements."""
        ...

    @property
    def impdef(self) -> ImpDef:
        """Its IMPLEMENTATION DEFINED choices."""
        ...

    @property
    def registers(self) -> RegisterFile:
        """Its System registers."""
        ...

    @property
    def el(self) -> int:
        """PSTATE.EL, the current Exception level: 0 to 3."""
        ...

    @property
    def pm(self) -> bool:
        """PSTATE.PM: profiling exceptions are masked at their own Exception level."""
        ...

    @property
    def halted(self) -> bool:
        """Whether it is in Debug state."""
        ...

    @property
    def sdd(self) -> bool:
        """EDSCR.SDD: in Debug state, traps to EL3 become UNDEFINED."""
        ...


class PEAt:
    """A PE as it would be at another Exception level."""

    def __init__(self, pe: PE, el: int) -> None:
        self.features = pe.features
        self.impdef = pe.impdef
        self.registers = pe.registers
        self.el = el
        self.pm = pe.pm
        self.halted = self.sdd = False
