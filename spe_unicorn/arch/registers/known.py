"""All registers that every PE knows, and which of them affect what."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.registers.roles import Affects
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS

REGISTERS: Final[tuple[type[SysReg], ...]] = (*SYSTEM_REGISTERS, *SPE_REGISTERS)
"""The system's registers and SPE's, in the order in which they are reset.

Those of the timer and the GIC are their devices'.
"""


def affecting(what: Affects) -> frozenset[type[SysReg]]:
    """The registers that affect any of ``what``."""
    return frozenset(register for register in REGISTERS if register.affects & what)
