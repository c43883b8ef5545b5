"""Registers of which each Exception level but EL0 has one, by Exception level."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg

SCTLR: Final[dict[int, type[system.SCTLR]]] = {
    1: system.SCTLR_EL1,
    2: system.SCTLR_EL2,
    3: system.SCTLR_EL3,
}
SPSR: Final[dict[int, type[system.SPSR]]] = {
    1: system.SPSR_EL1,
    2: system.SPSR_EL2,
    3: system.SPSR_EL3,
}
VBAR: Final[dict[int, type[SysReg]]] = {1: system.VBAR_EL1, 2: system.VBAR_EL2, 3: system.VBAR_EL3}
ELR: Final[dict[int, type[SysReg]]] = {1: system.ELR_EL1, 2: system.ELR_EL2, 3: system.ELR_EL3}
ESR: Final[dict[int, type[SysReg]]] = {1: system.ESR_EL1, 2: system.ESR_EL2, 3: system.ESR_EL3}
FAR: Final[dict[int, type[SysReg]]] = {1: system.FAR_EL1, 2: system.FAR_EL2, 3: system.FAR_EL3}
TCR: Final[dict[int, type[SysReg]]] = {
    1: system.TCR_EL1,
    2: system.TCR_EL2,
    3: system.TCR_EL3,
}
