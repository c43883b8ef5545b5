"""Registers of which each Exception level but EL0 has one, by Exception level."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.registers import system as s
from spe_unicorn.arch.registers.sysreg import SysReg

SCTLR: Final[dict[int, type[s.SCTLR]]] = {1: s.SCTLR_EL1, 2: s.SCTLR_EL2, 3: s.SCTLR_EL3}
SPSR: Final[dict[int, type[s.SPSR]]] = {1: s.SPSR_EL1, 2: s.SPSR_EL2, 3: s.SPSR_EL3}
VBAR: Final[dict[int, type[SysReg]]] = {1: s.VBAR_EL1, 2: s.VBAR_EL2, 3: s.VBAR_EL3}
ELR: Final[dict[int, type[SysReg]]] = {1: s.ELR_EL1, 2: s.ELR_EL2, 3: s.ELR_EL3}
ESR: Final[dict[int, type[SysReg]]] = {1: s.ESR_EL1, 2: s.ESR_EL2, 3: s.ESR_EL3}
FAR: Final[dict[int, type[SysReg]]] = {1: s.FAR_EL1, 2: s.FAR_EL2, 3: s.FAR_EL3}
