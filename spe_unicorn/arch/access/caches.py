"""Who may access the registers that tell of caches: HCR_EL2.TID2 traps them (Arm ARM D24.2).

CSSELR_EL1 is the engine's, with its traps.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.accessors import allowed, trap
from spe_unicorn.arch.access.checks import TID2
from spe_unicorn.arch.access.shapes import accessor_of, by_level, trap_of
from spe_unicorn.arch.access.verdicts import Accessor
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.caches import CCSIDR_EL1, CLIDR_EL1, CTR_EL0
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import SCTLR_EL1, SCTLR_EL2
from spe_unicorn.arch.rules.effective import el_is_in_host, tge

_UCT: Final = SCTLR_EL1.UCT.mask


def _host(pe: PE) -> bool:
    return el_is_in_host(pe, EL0)


def _kernel_hides(pe: PE) -> bool:
    return not _host(pe) and pe.registers.raw(SCTLR_EL1) & _UCT == 0


def _host_hides(pe: PE) -> bool:
    return _host(pe) and pe.registers.raw(SCTLR_EL2) & _UCT == 0


def _size(register: type[SysReg]) -> Accessor:
    levels = by_level(
        None,
        el1=(trap_of(EL1, EL2, TID2), allowed(EL1, register)),
        el2=(allowed(EL2, register),),
        el3=(allowed(EL3, register),),
    )
    return accessor_of(register, lambda read: levels)


def _type() -> Accessor:
    hidden = "SCTLR_EL1.UCT is 0"
    levels = (
        (
            trap(EL0, EL2, "UCT/TGE", hidden, lambda pe: _kernel_hides(pe) and tge(pe)),
            trap(EL0, EL1, "UCT", hidden, _kernel_hides),
            trap(EL0, EL2, TID2.name, TID2.text, lambda pe: not _host(pe) and TID2.test(pe)),
            trap(EL0, EL2, "UCT/host", "SCTLR_EL2.UCT is 0", _host_hides),
            allowed(EL0, CTR_EL0),
        ),
        (trap_of(EL1, EL2, TID2), allowed(EL1, CTR_EL0)),
        (allowed(EL2, CTR_EL0),),
        (allowed(EL3, CTR_EL0),),
    )
    return accessor_of(CTR_EL0, lambda read: levels)


CACHE_ACCESSORS: Final = (_size(CLIDR_EL1), _size(CCSIDR_EL1), _type())
"""Their accessors."""
