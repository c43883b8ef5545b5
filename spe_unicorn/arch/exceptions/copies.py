"""Who may copy and set memory by one instruction (FEAT_MOPS), and the exceptions of doing it wrong.

Arm ARM J1.1, CheckMOPSEnabled() and MismatchedMemCpyException().
"""

from __future__ import annotations

from spe_unicorn.arch.exceptions.routing import Routed
from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome
from spe_unicorn.arch.pe import EL0, EL1, EL2, PE
from spe_unicorn.arch.registers.system import HCRX_EL2
from spe_unicorn.arch.rules.effective import (
    el2_enabled,
    el_is_in_host,
    hcrx_enabled,
    sctlr,
    tge,
)


def copies_enabled(pe: PE) -> bool:
    """CheckMOPSEnabled(): whether CPY* and SET* are not UNDEFINED at the PE's Exception level."""
    below = pe.el <= EL1 and el2_enabled(pe) and not el_is_in_host(pe, EL0)
    if below and not (hcrx_enabled(pe) and pe.registers.read(HCRX_EL2).MSCEn):
        return False
    return pe.el != EL0 or bool(sctlr(pe).MSCEn)


def mismatch(pe: PE, iss: int) -> Routed:
    """MismatchedCpySetTargetEL(): a Memory Copy or Memory Set exception, with its syndrome."""
    to_el2 = pe.el == EL0 and tge(pe)
    if pe.el == EL1:
        to_el2 = hcrx_enabled(pe) and bool(pe.registers.read(HCRX_EL2).MCE2)
    return Routed(EL2 if to_el2 else max(pe.el, EL1), Syndrome(EC.MemoryCopy, iss))
