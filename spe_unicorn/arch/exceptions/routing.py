"""Where exceptions go: target Exception levels, masks, and the traps of SMC, HVC, FP and WFx."""

from __future__ import annotations

from typing import Final, NamedTuple

from spe_unicorn.arch.exceptions.entry import ExceptionType
from spe_unicorn.arch.exceptions.syndromes import (
    FP_ACCESS_TRAP,
    PAC_TRAP,
    SVE_ACCESS_TRAP,
    UNDEFINED,
    Syndrome,
    WFx,
    data_abort,
    hvc,
    smc,
    wfx_trap,
)
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, SecurityState
from spe_unicorn.arch.registers.system import (
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    HCR_EL2,
    MDCR_EL2,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
)
from spe_unicorn.arch.rules.effective import (
    effective_hcr_nvx,
    el2_enabled,
    el_is_in_host,
    have_el,
    lower_security_state,
    secure_el2_enabled,
    tge,
)


class Routed(NamedTuple):
    """A synchronous exception and the Exception level that takes it."""

    target_el: int
    syndrome: Syndrome


def default_target(pe: PE) -> int:
    """The target of a synchronous exception that no control routes elsewhere.

    That is UNDEFINED, SVC, illegal state, and PC and SP alignment faults.
    """
    if pe.el > EL1:
        return pe.el
    return EL2 if pe.el == EL0 and tge(pe) else EL1


def breakpoint_target(pe: PE) -> int:
    """AArch64.SoftwareBreakpoint(). The target of a BRK instruction."""
    if pe.el <= EL1 and el2_enabled(pe) and pe.registers.read(MDCR_EL2).TDE:
        return EL2
    return default_target(pe)


def abort_target(pe: PE, fault: FaultRecord) -> int:
    """AArch64.Abort(). The target of an Instruction Abort or Data Abort."""
    external = fault.kind in (Fault.SyncExternal, Fault.SyncExternalOnWalk)
    if external and have_el(pe, EL3) and pe.registers.read(SCR_EL3).EA:
        return EL3
    if pe.el <= EL1 and (
        fault.stage2 or (external and el2_enabled(pe) and pe.registers.read(HCR_EL2).TEA)
    ):
        return EL2
    return default_target(pe)


def data_abort_of(pe: PE, fault: FaultRecord) -> Routed:
    """The Data Abort of a fault."""
    return Routed(abort_target(pe, fault), data_abort(fault))


def alignment_fault(pe: PE, *, write: bool) -> Routed:
    """The Data Abort of an access that is not aligned, whatever its translation would be."""
    return data_abort_of(pe, FaultRecord(Fault.Alignment, 0, write=write))


def call_hypervisor(pe: PE, imm16: int) -> Routed:
    """HVC and AArch64.CallHypervisor(): the call, or UNDEFINED."""
    undefined = Routed(default_target(pe), UNDEFINED)
    if not have_el(pe, EL2) or pe.el == EL0:
        return undefined
    secure = lower_security_state(pe) is SecurityState.SECURE
    if pe.el == EL1 and secure and not secure_el2_enabled(pe):
        return undefined
    if have_el(pe, EL3):
        enabled = bool(pe.registers.read(SCR_EL3).HCE)
    else:
        enabled = not pe.registers.read(HCR_EL2).HCD
    return Routed(max(pe.el, EL2), hvc(imm16)) if enabled else undefined


def call_secure_monitor(pe: PE, imm16: int) -> Routed:
    """AArch64.CheckForSMCUndefOrTrap() and AArch64.CallSecureMonitor().

    The call to EL3, its trap to EL2, or UNDEFINED.
    """
    undefined = Routed(default_target(pe), UNDEFINED)
    if pe.el == EL0:
        return undefined
    trapped = pe.el == EL1 and el2_enabled(pe) and bool(pe.registers.read(HCR_EL2).TSC)
    if not have_el(pe, EL3):
        # Without EL3 only a guest hypervisor has an SMC to trap.
        return Routed(EL2, smc(imm16)) if trapped and effective_hcr_nvx(pe) & 1 else undefined
    if trapped:
        return Routed(EL2, smc(imm16))
    if pe.registers.read(SCR_EL3).SMD:
        return undefined
    return Routed(EL3, smc(imm16))


def fp_access_trap(pe: PE) -> Routed | None:
    """CheckFPAdvSIMDEnabled64(). The trap of an FP or SIMD instruction, None where it may run."""
    registers = pe.registers
    if pe.el <= EL1 and not el_is_in_host(pe, pe.el):
        fpen = registers.read(CPACR_EL1).FPEN
        if _fpen_traps(fpen, unprivileged=pe.el == EL0):
            # An EL1 trap that HCR_EL2.TGE takes away from EL1 loses its class on the way.
            return Routed(EL2, UNDEFINED) if tge(pe) else Routed(EL1, FP_ACCESS_TRAP)
    if pe.el <= EL2 and el2_enabled(pe):
        cptr, hcr = registers.read(CPTR_EL2).value, registers.read(HCR_EL2)
        if not hcr.E2H:
            traps = bool(cptr >> 10 & 1)
        else:
            # The layout of CPACR_EL1. EL0 of a guest counts as privileged here.
            traps = _fpen_traps(cptr >> 20 & 3, unprivileged=pe.el == EL0 and bool(hcr.TGE))
        if traps:
            return Routed(EL2, FP_ACCESS_TRAP)
    if have_el(pe, EL3) and registers.read(CPTR_EL3).TFP:
        return Routed(EL3, FP_ACCESS_TRAP)
    return None


def sve_access_trap(pe: PE) -> Routed | None:
    """CheckSVEEnabled(). The trap of an SVE instruction, None where it may run."""
    registers = pe.registers
    if pe.el <= EL1 and not el_is_in_host(pe, pe.el):
        cpacr = registers.read(CPACR_EL1)
        if _fpen_traps(cpacr.ZEN, unprivileged=pe.el == EL0):
            return Routed(EL2 if tge(pe) else EL1, SVE_ACCESS_TRAP)
        if _fpen_traps(cpacr.FPEN, unprivileged=pe.el == EL0):
            return Routed(EL2, UNDEFINED) if tge(pe) else Routed(EL1, FP_ACCESS_TRAP)
    if pe.el <= EL2 and el2_enabled(pe):
        cptr, hcr = registers.read(CPTR_EL2).value, registers.read(HCR_EL2)
        if hcr.E2H:
            unprivileged = pe.el == EL0 and bool(hcr.TGE)
            sve = _fpen_traps(cptr >> 16 & 3, unprivileged=unprivileged)
            fp = _fpen_traps(cptr >> 20 & 3, unprivileged=unprivileged)
        else:
            sve, fp = bool(cptr >> 8 & 1), bool(cptr >> 10 & 1)
        if sve or fp:
            return Routed(EL2, SVE_ACCESS_TRAP if sve else FP_ACCESS_TRAP)
    if have_el(pe, EL3):
        cptr_el3 = registers.read(CPTR_EL3)
        if not cptr_el3.EZ:
            return Routed(EL3, SVE_ACCESS_TRAP)
        if cptr_el3.TFP:
            return Routed(EL3, FP_ACCESS_TRAP)
    return None


def pointer_authentication_trap(pe: PE) -> Routed | None:
    """TrapPACUse(). The trap of a pointer authentication instruction, None where it may run."""
    if pe.el <= EL1 and el2_enabled(pe):
        hcr = pe.registers.read(HCR_EL2)
        if not hcr.API and not (pe.el == EL0 and hcr.TGE and hcr.E2H):
            return Routed(EL2, PAC_TRAP)
    if pe.el <= EL2 and have_el(pe, EL3) and not pe.registers.read(SCR_EL3).API:
        return Routed(EL3, PAC_TRAP)
    return None


def _fpen_traps(fpen: int, *, unprivileged: bool) -> bool:
    """Whether FPEN traps: x0 everything, 01 only unprivileged code, 11 nothing."""
    return fpen & 1 == 0 or (fpen == 0b01 and unprivileged)


_WAIT_TRAPS: Final = {
    WFx.WFI: (HCR_EL2.TWI.mask, SCR_EL3.TWI.mask),
    WFx.WFE: (HCR_EL2.TWE.mask, SCR_EL3.TWE.mask),
    WFx.WFIT: (HCR_EL2.TWI.mask, SCR_EL3.TWI.mask),
    WFx.WFET: (HCR_EL2.TWE.mask, SCR_EL3.TWE.mask),
}
"""What traps each wait to EL2, and to EL3."""


def wait_trap(pe: PE, wait: WFx, rt: int = 0) -> Routed | None:
    """AArch64.CheckForWFxTrap(). The trap of a WFI or WFE, None where it may wait.

    ``rt`` is the register of a WFIT or WFET. The trap applies only to a wait that would not
    complete at once.
    """
    el, registers = pe.el, pe.registers
    if el == EL0:
        host = el_is_in_host(pe, EL0)
        sctlr = registers.read(SCTLR_EL2 if host else SCTLR_EL1)
        if not (sctlr.nTWE if wait in (WFx.WFE, WFx.WFET) else sctlr.nTWI):
            return Routed(EL2 if tge(pe) else EL1, wfx_trap(wait, rt))
    to_el2, to_el3 = _WAIT_TRAPS[wait]
    trapped = el <= EL1 and have_el(pe, EL2) and registers.raw(HCR_EL2) & to_el2
    if trapped and el2_enabled(pe) and not el_is_in_host(pe, el):
        return Routed(EL2, wfx_trap(wait, rt))
    if el <= EL2 and have_el(pe, EL3) and registers.raw(SCR_EL3) & to_el3:
        return Routed(EL3, wfx_trap(wait, rt))
    return None


class InterruptRoute(NamedTuple):
    """Where an asynchronous exception would go, and whether it has to stay pending."""

    target_el: int
    masked: bool


def route_interrupt(pe: PE, kind: ExceptionType, *, mask: bool) -> InterruptRoute:
    """Target and mask of a physical IRQ, FIQ or SError (Arm ARM D1.3.6).

    ``mask`` is PSTATE.I, F or A.
    """
    to_el3, to_el2 = _ROUTING_BITS[kind]
    if have_el(pe, EL3) and pe.registers.raw(SCR_EL3) & to_el3:
        target = EL3
    elif el2_enabled(pe) and pe.registers.raw(HCR_EL2) & (to_el2 | HCR_EL2.TGE.mask):
        target = EL2
    else:
        target = EL1
    if target < pe.el:
        return InterruptRoute(target, True)
    # Below EL2 and EL3 nothing masks what they take, but a host's EL0 has the host's mask.
    maskable = target == pe.el or target == EL1 or (target == EL2 and el_is_in_host(pe, pe.el))
    return InterruptRoute(target, maskable and mask)


_ROUTING_BITS = {
    ExceptionType.IRQ: (SCR_EL3.IRQ.mask, HCR_EL2.IMO.mask),
    ExceptionType.FIQ: (SCR_EL3.FIQ.mask, HCR_EL2.FMO.mask),
    ExceptionType.SERROR: (SCR_EL3.EA.mask, HCR_EL2.AMO.mask),
}
"""What routes each to EL3 (a bit of SCR_EL3) and to EL2 (a bit of HCR_EL2)."""
