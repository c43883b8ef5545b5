"""Who may read the registers that say which PE this is, and AArch32's ID registers (Arm ARM D24.2).

The PE's own identity is read at EL2 and EL3; EL1 reads what an enabled EL2 has chosen.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.accessors import allowed
from spe_unicorn.arch.access.checks import TID1, Check, fgt_by
from spe_unicorn.arch.access.shapes import accessor_of, by_level, id_register, trap_of
from spe_unicorn.arch.access.verdicts import Accessor
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.aarch32_id import AARCH32_ID_REGISTERS
from spe_unicorn.arch.registers.fgt import HFGRTR_EL2
from spe_unicorn.arch.registers.identity import (
    AIDR_EL1,
    MIDR_EL1,
    MPIDR_EL1,
    REVIDR_EL1,
    SHOWN_TO_EL1,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.rules.effective import el2_enabled


def _identity(register: type[SysReg], *checks: Check) -> Accessor:
    checks = (*checks, fgt_by(HFGRTR_EL2, register.__name__))
    at_el1 = [trap_of(EL1, EL2, check) for check in checks]
    if register in SHOWN_TO_EL1:
        at_el1.append(allowed(EL1, SHOWN_TO_EL1[register], el2_enabled))
    levels = by_level(
        None,
        el1=(*at_el1, allowed(EL1, register)),
        el2=(allowed(EL2, register),),
        el3=(allowed(EL3, register),),
    )
    return accessor_of(register, lambda read: levels)


IDENTITY_ACCESSORS: Final = (
    _identity(MIDR_EL1),
    _identity(MPIDR_EL1),
    _identity(REVIDR_EL1, TID1),
    _identity(AIDR_EL1, TID1),
    *map(id_register, AARCH32_ID_REGISTERS),
)
"""Their accessors."""
