"""Who may load and store 64 bytes by one instruction (FEAT_LS64).

Arm ARM J1.1, CheckLDST64BEnabled() and LDST64BTrap().
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.exceptions.routing import Routed
from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, PE
from spe_unicorn.arch.registers.system import HCRX_EL2
from spe_unicorn.arch.rules.effective import (
    el2_enabled,
    el_is_in_host,
    hcrx_enabled,
    sctlr,
    tge,
)

_TRAPPED: Final = Syndrome(EC.OtherTrap, 0x2)
"""ISS 2 stands for LD64B and ST64B."""


def bytes_64_trap(pe: PE) -> tuple[Routed, None] | None:
    """The trap of LD64B and ST64B at the PE's Exception level, which has no address; else None."""
    in_host = el_is_in_host(pe, EL0)
    if pe.el == EL0 and not sctlr(pe).EnALS:
        return Routed(EL2 if in_host or tge(pe) else EL1, _TRAPPED), None
    if Feature.FEAT_HCX not in pe.features or not el2_enabled(pe):
        return None
    below = pe.el == EL1 or (pe.el == EL0 and not in_host)
    if below and not (hcrx_enabled(pe) and pe.registers.read(HCRX_EL2).EnALS):
        return Routed(EL2, _TRAPPED), None
    return None
