"""Effective values: what the controls of EL2 and EL3 come to, for one PE as it stands.

Each function bears Arm's name for it, or for the pseudocode that it follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, SecurityState
from spe_unicorn.arch.registers.banked import SCTLR as SCTLRS
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMSCR_EL1,
    PMSCR_EL2,
    ExceptionEnable,
)
from spe_unicorn.arch.registers.system import (
    CNTHCTL_EL2,
    CNTPOFF_EL2,
    CNTVOFF_EL2,
    HCR_EL2,
    MDCR_EL2,
    MDCR_EL3,
    SCR_EL3,
    SCTLR,
)

_NS = SCR_EL3.NS.mask


def have_el(pe: PE, el: int) -> bool:
    """HaveEL(): whether the PE has an Exception level."""
    if el == EL3:
        return Feature.FEAT_EL3 in pe.features
    return el < EL2 or Feature.FEAT_EL2 in pe.features


def lower_security_state(pe: PE) -> SecurityState:
    """The Security state of EL0, EL1 and EL2: SCR_EL3.{NSE,NS}, or the only one without EL3.

    NSE set with NS clear is reserved; it is taken for Secure, the state that it came from.
    """
    if Feature.FEAT_EL3 not in pe.features:
        return SecurityState.SECURE if pe.impdef.secure_only else SecurityState.NON_SECURE
    scr = pe.registers.read(SCR_EL3)
    if not scr.NS:
        return SecurityState.SECURE
    realm = scr.NSE and Feature.FEAT_RME in pe.features
    return SecurityState.REALM if realm else SecurityState.NON_SECURE


def security_state_at(pe: PE, el: int) -> SecurityState:
    """SecurityStateAtEL(): Root at EL3 with FEAT_RME, Secure at EL3 without it."""
    if el != EL3:
        return lower_security_state(pe)
    return SecurityState.ROOT if Feature.FEAT_RME in pe.features else SecurityState.SECURE


def secure_el2_enabled(pe: PE) -> bool:
    """IsSecureEL2Enabled()."""
    if Feature.FEAT_EL2 not in pe.features or Feature.FEAT_SEL2 not in pe.features:
        return False
    if Feature.FEAT_EL3 in pe.features:
        return bool(pe.registers.read(SCR_EL3).EEL2)
    return pe.impdef.secure_only


def el2_enabled_in(pe: PE, state: SecurityState) -> bool:
    """Whether there is an EL2, enabled in a Security state."""
    if Feature.FEAT_EL2 not in pe.features:
        return False
    return state is not SecurityState.SECURE or secure_el2_enabled(pe)


def el2_enabled(pe: PE) -> bool:
    """EL2Enabled(): whether EL2 is there and enabled in the current state of the lower levels."""
    if Feature.FEAT_EL2 not in pe.features:
        return False
    if Feature.FEAT_EL3 in pe.features and pe.registers.raw(SCR_EL3) & _NS:
        return True  # by far the most frequent answer
    return el2_enabled_in(pe, lower_security_state(pe))


def tge(pe: PE) -> bool:
    """The Effective value of HCR_EL2.TGE: EL0 belongs to EL2."""
    return el2_enabled(pe) and bool(pe.registers.read(HCR_EL2).TGE)


def el_is_in_host(pe: PE, el: int) -> bool:
    """ELIsInHost(): whether an Exception level belongs to an operating system at EL2."""
    if Feature.FEAT_VHE not in pe.features or not el2_enabled(pe):
        return False
    hcr = pe.registers.read(HCR_EL2)
    return bool(hcr.E2H) and (el == EL2 or (el == EL0 and bool(hcr.TGE)))


def sctlr_register(pe: PE) -> type[SCTLR]:
    """Which SCTLR_ELx is in force at the PE's Exception level."""
    return SCTLRS[EL2 if el_is_in_host(pe, pe.el) else max(pe.el, EL1)]


def sctlr(pe: PE) -> SCTLR:
    """SCTLR_ELx at the PE's Exception level."""
    return pe.registers.read(sctlr_register(pe))


def hcrx_enabled(pe: PE) -> bool:
    """IsHCRXEL2Enabled(): whether HCRX_EL2 is there, and SCR_EL3 lets it have effect."""
    if Feature.FEAT_HCX not in pe.features or not el2_enabled(pe):
        return False
    return Feature.FEAT_EL3 not in pe.features or bool(pe.registers.read(SCR_EL3).HXEn)


def effective_hcr_nvx(pe: PE) -> int:
    """EffectiveHCR_EL2_NVx(): HCR_EL2.{NV2,NV1,NV} as three bits.

    NV1 without NV is CONSTRAINED UNPREDICTABLE; our choice is 0b000.
    """
    if Feature.FEAT_NV not in pe.features or not el2_enabled(pe):
        return 0b000
    hcr = pe.registers.read(HCR_EL2)
    if not hcr.NV:
        return 0b000
    nv2 = hcr.NV2 if Feature.FEAT_NV2 in pe.features else 0
    return nv2 << 2 | hcr.NV1 << 1 | 1


def unprivileged_access_is_privileged(pe: PE, *, uao: bool) -> bool:
    """AArch64.IsUnprivAccessPriv(): whether LDTR and STTR access memory as LDR and STR do.

    ``uao`` is PSTATE.UAO.
    """
    if uao and pe.el != EL0:
        return True
    if pe.el == EL1:
        return effective_hcr_nvx(pe) & 0b011 == 0b011
    return pe.el == EL3 or (pe.el == EL2 and not (el_is_in_host(pe, EL2) and tge(pe)))


def effective_mdcr_el3_pmsee(pe: PE) -> int:
    """The Effective value of MDCR_EL3.PMSEE: delegated where there is no EL3."""
    if Feature.FEAT_EL3 not in pe.features:
        return ExceptionEnable.DELEGATED
    return pe.registers.read(MDCR_EL3).PMSEE


def effective_pmscr_el2_ee(pe: PE) -> int:
    """EffectivePMSCR_EL2_EE()."""
    if Feature.FEAT_SPE_EXC not in pe.features:
        return ExceptionEnable.DISABLED
    if effective_mdcr_el3_pmsee(pe) == ExceptionEnable.DISABLED:
        return ExceptionEnable.DISABLED
    if not el2_enabled(pe):
        return ExceptionEnable.DELEGATED
    return pe.registers.read(PMSCR_EL2).EE


def effective_pmscr_el1_ee(pe: PE) -> int:
    """EffectivePMSCR_EL1_EE(): DISABLED or ALL_EVENTS.

    01 and 10 are a guest hypervisor's and mean 00 and 11. Without FEAT_NV they are reserved, and
    what they mean is a choice.
    """
    if effective_pmscr_el2_ee(pe) == ExceptionEnable.DISABLED:
        return ExceptionEnable.DISABLED
    enable = pe.registers.read(PMSCR_EL1).EE
    if Feature.FEAT_NV in pe.features:
        enabled = enable in (ExceptionEnable.OWN_EVENTS, ExceptionEnable.ALL_EVENTS)
    elif enable in (ExceptionEnable.DELEGATED, ExceptionEnable.OWN_EVENTS):
        enabled = pe.impdef.reserved_ee_enables
    else:
        enabled = enable == ExceptionEnable.ALL_EVENTS
    if enabled:
        return ExceptionEnable.ALL_EVENTS
    return ExceptionEnable.DISABLED


@dataclass(frozen=True)
class BufferOwner:
    """Who owns the Profiling Buffer: a Security state, and EL1 or EL2 in it."""

    state: SecurityState
    el: int


_OWNING_STATES = {
    (0, 0): SecurityState.SECURE,
    (0, 1): SecurityState.NON_SECURE,
    (1, 1): SecurityState.REALM,
}
"""By MDCR_EL3.NSPBE and the upper bit of MDCR_EL3.NSPB."""


def profiling_buffer_owner(pe: PE) -> BufferOwner | None:
    """ProfilingBufferOwner(); None where nobody does, and profiling is disabled.

    Where MDCR_EL3.{NSPBE,NSPB} or MDCR_EL2.E2PB are reserved, what happens is CONSTRAINED
    UNPREDICTABLE, and a choice.
    """
    defined = pe.impdef.reserved_owner
    if Feature.FEAT_EL3 in pe.features:
        mdcr = pe.registers.read(MDCR_EL3)
        rme = Feature.FEAT_RME in pe.features
        realm, upper = mdcr.NSPBE if rme else 0, mdcr.NSPB >> 1
        if defined and (realm, upper) not in _OWNING_STATES:
            realm = 0
        state = _OWNING_STATES.get((realm, upper))
        if state is None or (state is SecurityState.SECURE and rme and not pe.impdef.secure_state):
            return None
    else:
        state = lower_security_state(pe)
    if el2_enabled_in(pe, state):
        e2pb = pe.registers.read(MDCR_EL2).E2PB
        if e2pb == 0b00 or (e2pb == 0b01 and defined):
            return BufferOwner(state, EL2)
    return BufferOwner(state, EL1)


def effective_pmscr_el2_envm(pe: PE) -> bool:
    """The Effective value of PMSCR_EL2.EnVM: whether PMBLIMITR_EL1.nVM counts."""
    if Feature.FEAT_SPE_nVM not in pe.features:
        return False
    owner = profiling_buffer_owner(pe)
    if owner is None or owner.el == EL2 or not el2_enabled_in(pe, owner.state):
        return True
    return bool(pe.registers.read(PMSCR_EL2).EnVM)


def effective_pmblimitr_nvm(pe: PE) -> bool:
    """EffectivePMBLIMITR_EL1_nVM(): whether buffer pointers are not virtual addresses."""
    return effective_pmscr_el2_envm(pe) and bool(pe.registers.read(PMBLIMITR_EL1).nVM)


def physical_offset(pe: PE) -> int:
    """PhysicalOffset, in ticks, as far as EL3 and EL2 have enabled it (CNTPOFF_EL2)."""
    if not have_el(pe, EL2) or Feature.FEAT_ECV_POFF not in pe.features:
        return 0
    if not pe.registers.read(CNTHCTL_EL2).ECV:
        return 0
    if have_el(pe, EL3) and not pe.registers.read(SCR_EL3).ECVEn:
        return 0
    return pe.registers.raw(CNTPOFF_EL2)


def virtual_count_offset(pe: PE) -> int:
    """What CNTVCT_EL0 and the EL1 virtual timer are behind, in ticks: nothing without EL2."""
    return pe.registers.raw(CNTVOFF_EL2) if CNTVOFF_EL2 in pe.registers else 0


def physical_count_offset(pe: PE) -> int:
    """What CNTPCT_EL0 and the EL1 physical timer are behind at EL1 and EL0, in ticks.

    Nothing without EL2, and nothing for the applications of an OS at EL2.
    """
    if not el2_enabled(pe) or (el_is_in_host(pe, EL2) and tge(pe)):
        return 0
    return physical_offset(pe)
