"""What a PE begins with: registers that are not UNKNOWN, and what firmware leaves behind."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.pe import EL2, EL3
from spe_unicorn.arch.registers.fgt import FGT_REGISTERS
from spe_unicorn.arch.registers.spe import PMBSR_EL2, PMBSR_EL3, PMSCR_EL2
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.registers.system import (
    CNTHCTL_EL2,
    CNTKCTL_EL1,
    CNTPOFF_EL2,
    CNTVOFF_EL2,
    CONTEXTIDR_EL2,
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    HCR_EL2,
    HCRX_EL2,
    MDCR_EL2,
    MDCR_EL3,
    PAR_EL1,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    VNCR_EL2,
    VTCR_EL2,
    VTTBR_EL2,
)

_SCTLR_RES1: Final = 0x30D0_0800
"""Bits of SCTLR_ELx that were RES1 in Armv8.0, all others 0: what firmware leaves."""
RESET_VALUES: Final[dict[type[SysReg], int]] = {
    SCTLR_EL1: _SCTLR_RES1,
    SCTLR_EL2: 0x30C5_0830,
    SCTLR_EL3: 0x30C5_0830,
    CPACR_EL1: 0,
    CPTR_EL2: 0x32FF,  # nothing traps, SVE included
    CPTR_EL3: 1 << 8,  # EZ: SVE does not trap
    CNTKCTL_EL1: 0,
    CNTHCTL_EL2: 0b11,
    CNTVOFF_EL2: 0,
    CNTPOFF_EL2: 0,
    VTCR_EL2: 0,
    VTTBR_EL2: 0,
    VNCR_EL2: 0,
    PAR_EL1: 0,
}
"""Registers that never start UNKNOWN: higher software sets them before it hands over."""


def firmware_state(registers: RegisterFile, el: int) -> None:
    """Set what software above ``el`` has set when it enters Non-secure state at ``el``.

    Only registers that the file holds are touched. A start at EL3 finds the reset state: nothing
    is set then.
    """
    if el == EL3:
        return
    lets_through = ("HCE", "APK", "API", "FGTEn", "FGTEn2", "ECVEn", "ATA", "HXEn")
    _set(registers, SCR_EL3, NS=1, RW=1, **dict.fromkeys(lets_through, 1))
    # SPE and the Performance Monitors, and their exceptions, are left to the lower levels
    kept = registers.impdef.programming_denied
    _set(
        registers,
        MDCR_EL3,
        NSPB=0b00 if kept else 0b11,
        EnPMSN=1,
        EnPMS3=1,
        EnPMS4=1,
        EnPM2=1,
        PMEE=0b01,
    )
    if MDCR_EL2 in registers:
        counters = registers.read(MDCR_EL2).HPMN  # all of them, since reset
        below = {"E2PB": 0b00 if kept else 0b11, "TPMS": kept, "PMEE": 0b01} if el < EL2 else {}
        _set(registers, MDCR_EL2, HPMN=counters, **below)
    _set(registers, HCR_EL2, RW=1, APK=1, API=1, ATA=el != EL2)
    _set(registers, HCRX_EL2, MSCEn=el != EL2, EnALS=el != EL2)
    if el != EL2:
        # of what is EL2's in SPE, EL1 may record physical addresses and the physical count
        _set(registers, PMSCR_EL2, PCT=0b01, PA=1)
        _set(registers, PMBSR_EL2)
        _set(registers, CONTEXTIDR_EL2)
    _set(registers, PMBSR_EL3)
    for register in FGT_REGISTERS:
        # at EL1 nothing is trapped: the bits that trap when they are 0 are 1
        negative = (f.name for f in register.fields if f.name.startswith("n"))
        _set(registers, register, **(dict.fromkeys(negative, 1) if el != EL2 else {}))


def _set(registers: RegisterFile, register: type[SysReg], **values: int) -> None:
    """Give the named fields these values and all others zero, as far as the core has them."""
    if register in registers:
        value = register.of(**values).value & registers.writable(register)
        registers.set_raw(register, value | register.res1_mask(registers.features))
