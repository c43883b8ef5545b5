"""ERET, as a value: what PSTATE becomes, and whether the return was legal."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.arch.exceptions.entry import el_of, pstate_mask
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, SecurityState
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3, SPSR
from spe_unicorn.arch.rules.debug import debug_exception_return_ss
from spe_unicorn.arch.rules.effective import (
    el2_enabled,
    el_is_in_host,
    have_el,
    lower_security_state,
    secure_el2_enabled,
    tge,
)

_REINSTATED = (
    SPSR.N.mask
    | SPSR.Z.mask
    | SPSR.C.mask
    | SPSR.V.mask
    | SPSR.PAN.mask
    | SPSR.D.mask
    | SPSR.A.mask
    | SPSR.I.mask
    | SPSR.F.mask
)
"""What an illegal return takes from SPSR_ELx all the same."""


@dataclass(frozen=True)
class ExceptionReturn:
    """What an ERET does: the new PSTATE, and the address that it goes to.

    ``illegal`` is True for an illegal exception return: PSTATE.IL is set then, and the Exception
    level stays. ``aarch32`` says that the return asked for AArch32 state, which no PE here has, so
    that it is always illegal, but worth a word of its own to the user.
    """

    pstate: SPSR
    pc: int
    illegal: bool
    aarch32: bool


def exception_return(pe: PE, pstate: SPSR, spsr: SPSR, elr: int) -> ExceptionReturn:
    """AArch64.ExceptionReturn() and SetPSTATEFromPSR(); ``pstate`` is that of the ERET.

    The address is ELR_ELx as it is; whether its top byte counts, the target regime says.
    """
    illegal = illegal_exception_return(pe, pstate, spsr)
    stepping = debug_exception_return_ss(
        pe, pstate, el_of(pstate) if illegal else el_of(spsr), spsr
    )
    ss = SPSR.SS.mask if stepping else 0
    if illegal:
        reinstated = _REINSTATED & pstate_mask(pe)
        value = pstate.value & ~reinstated | spsr.value & reinstated
        return ExceptionReturn(
            SPSR(value & ~SPSR.SS.mask | SPSR.IL.mask | ss), elr, True, bool(spsr.nRW)
        )
    return ExceptionReturn(SPSR(spsr.value & pstate_mask(pe) | ss), elr, False, False)


def illegal_exception_return(pe: PE, pstate: SPSR, spsr: SPSR) -> bool:
    """IllegalExceptionReturn(). Whether SPSR_ELx asks for what cannot be returned to."""
    target = el_of(spsr)
    if spsr.nRW or spsr.M & 0b10 or spsr.M == 0b0001:
        return True
    if not have_el(pe, target) or target > el_of(pstate):
        return True
    if target == EL3:
        return False
    if target == EL2 and not el2_enabled(pe):
        return True
    if Feature.FEAT_RME in pe.features and _security_state_is_reserved(pe):
        return True
    if not _uses_aarch64(pe, target):
        return True
    return target == EL1 and tge(pe)


def _security_state_is_reserved(pe: PE) -> bool:
    """Whether SCR_EL3.{NSE,NS} is 10, which selects no Security state."""
    if not have_el(pe, EL3):
        return False
    scr = pe.registers.read(SCR_EL3)
    return bool(scr.NSE and not scr.NS)


def _uses_aarch64(pe: PE, el: int) -> bool:
    """ELUsingAArch32(), negated, for EL0 to EL2: what SCR_EL3.RW and HCR_EL2.RW ask for.

    EL0 counts as EL1 here: in AArch64 state it needs EL1 in AArch64 state.
    """
    secure_el2 = lower_security_state(pe) is SecurityState.SECURE and secure_el2_enabled(pe)
    if have_el(pe, EL3) and not pe.registers.read(SCR_EL3).RW and not secure_el2:
        return False
    if el == EL2 or not el2_enabled(pe) or el_is_in_host(pe, EL0):
        return True
    return bool(pe.registers.read(HCR_EL2).RW)
