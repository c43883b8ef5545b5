"""Translation regimes: which registers control each, and what they say.

A :class:`TranslationContext` is what one regime's registers mean, worked out once and then used for
any number of walks. It is a value: make a new one after a write to a register that it came from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from spe_unicorn.arch.memory.descriptors import MemoryAttributes, Regime
from spe_unicorn.arch.memory.vmsa import VMSA, vmsa_of
from spe_unicorn.arch.memory.walk_parameters import (
    S1TTWParams,
    S2TTWParams,
    Stage1Registers,
    Stage2Registers,
    get_s1_ttw_params,
    get_s2_ttw_params,
)
from spe_unicorn.arch.pe import EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MAIR_EL1,
    MAIR_EL2,
    MAIR_EL3,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    TCR_EL1,
    TCR_EL2,
    TCR_EL3,
    TTBR0_EL1,
    TTBR0_EL2,
    TTBR0_EL3,
    TTBR1_EL1,
    TTBR1_EL2,
    VSTCR_EL2,
    VSTTBR_EL2,
    VTCR_EL2,
    VTTBR_EL2,
)
from spe_unicorn.arch.rules.effective import (
    el2_enabled_in,
    el_is_in_host,
    have_el,
    security_state_at,
)
from spe_unicorn.arch.spaces import PASpace

_Stage1 = tuple[int, type[SysReg], type[SysReg], type[SysReg], "type[SysReg] | None", type[SysReg]]


@dataclass(frozen=True)
class TranslationContext:
    """One translation regime, ready to walk.

    ``paspace`` is the PA space that belongs to the regime's Security state. ``lower`` and ``upper``
    are the VA ranges that bit 55 selects; a regime without EL0 has no ``upper``. ``s1_enabled`` is
    False where stage 1 is off. ``stage2`` is None where stage 2 is off; ``stage2_ns`` is for the
    Non-secure IPAs of Secure state. ``dc`` is HCR_EL2.DC, ``dct`` HCR_EL2.DCT, ``dcache`` and
    ``icache`` are SCTLR_ELx.{C,I}, ``sif`` is SCR_EL3.SIF. ``nvm`` is set while the Profiling
    Buffer's pointers are physical: the attributes that PMBMAR_EL1 gives them.
    """

    regime: Regime
    paspace: PASpace
    vmsa: VMSA
    lower: S1TTWParams
    upper: S1TTWParams | None = None
    s1_enabled: bool = True
    stage2: S2TTWParams | None = None
    stage2_ns: S2TTWParams | None = None
    dc: bool = False
    dct: bool = False
    dcache: bool = True
    icache: bool = True
    sif: bool = False
    nvm: MemoryAttributes | None = None

    def with_physical_pointers(self, attributes: MemoryAttributes) -> TranslationContext:
        """The context while Effective PMBLIMITR_EL1.nVM is 1: stage 1 off, stage 2 as it is."""
        return replace(self, s1_enabled=False, nvm=attributes)


@lru_cache(maxsize=256)
def translation_context(
    regime: Regime,
    stage1: Stage1Registers,
    stage2: Stage2Registers | None = None,
    *,
    paspace: PASpace = PASpace.NonSecure,
    vmsa: VMSA | None = None,
    sif: bool = False,
) -> TranslationContext:
    """The context of a regime with these registers.

    ``stage2`` is None unless EL2 is enabled in the Security state of ``paspace``; regimes other
    than EL1&0 never have a stage 2 and ignore it.
    """
    vmsa = vmsa or VMSA()
    sctlr = SCTLR_EL1(stage1.sctlr)
    hcr = HCR_EL2(stage2.hcr if stage2 is not None and regime is Regime.EL10 else 0)
    nv1 = bool(hcr.NV and hcr.NV1)
    upper = (
        get_s1_ttw_params(regime, stage1, vmsa, nv1=nv1, upper=True)
        if regime.has_unprivileged
        else None
    )
    context = TranslationContext(
        regime,
        paspace,
        vmsa,
        get_s1_ttw_params(regime, stage1, vmsa, nv1=nv1, upper=False),
        upper,
        s1_enabled=bool(sctlr.M) and not hcr.DC and not hcr.TGE,
        dc=bool(hcr.DC),
        dct=bool(hcr.DCT),
        dcache=bool(sctlr.C),
        icache=bool(sctlr.I),
        sif=sif,
    )
    if stage2 is None or not (hcr.VM or hcr.DC):
        return context
    vtcr = VTCR_EL2(stage2.vtcr)
    normal = get_s2_ttw_params(stage2, vtcr, stage2.vttbr, vmsa, paspace, paspace)
    if paspace is not PASpace.Secure:
        return replace(context, stage2=normal)
    vstcr = VSTCR_EL2(stage2.vstcr)
    secure_out = PASpace.NonSecure if vstcr.SA else PASpace.Secure
    tables = PASpace.NonSecure if vstcr.SW else PASpace.Secure
    return replace(
        context,
        stage2=get_s2_ttw_params(stage2, vstcr, stage2.vsttbr, vmsa, secure_out, tables),
        stage2_ns=replace(
            normal,
            paspace=PASpace.NonSecure if vtcr.NSA else secure_out,
            tables=PASpace.NonSecure if vtcr.NSW else tables,
        ),
    )


def translation_regime(pe: PE, el: int) -> Regime:
    """TranslationRegime(). The regime in which accesses at an Exception level are translated."""
    if el == EL3:
        return Regime.EL3
    if el_is_in_host(pe, el):
        return Regime.EL20
    return Regime.EL2 if el == EL2 else Regime.EL10


def context_at(pe: PE, el: int) -> TranslationContext:
    """The regime of accesses at an Exception level as the PE's registers have it now."""
    return context_for(pe, translation_regime(pe, el))


def context_for(pe: PE, regime: Regime) -> TranslationContext:
    """One of the PE's regimes as its registers have it now."""
    el, sctlr, tcr, ttbr0, ttbr1, mair = _STAGE1_REGISTERS[regime]
    raw = pe.registers.raw
    state = security_state_at(pe, el)
    paspace = PASpace(state)
    stage1 = Stage1Registers(
        raw(sctlr), raw(tcr), raw(ttbr0), 0 if ttbr1 is None else raw(ttbr1), raw(mair)
    )
    stage2 = None
    if regime is Regime.EL10 and el2_enabled_in(pe, state):
        secure = paspace is PASpace.Secure
        stage2 = Stage2Registers(
            raw(HCR_EL2),
            raw(VTCR_EL2),
            raw(VTTBR_EL2),
            raw(VSTCR_EL2) if secure else 0,
            raw(VSTTBR_EL2) if secure else 0,
            raw(SCTLR_EL2),
        )
    return translation_context(
        regime,
        stage1,
        stage2,
        paspace=paspace,
        vmsa=vmsa_of(pe),
        sif=have_el(pe, EL3) and bool(pe.registers.read(SCR_EL3).SIF),
    )


_STAGE1_REGISTERS: dict[Regime, _Stage1] = {
    Regime.EL10: (EL1, SCTLR_EL1, TCR_EL1, TTBR0_EL1, TTBR1_EL1, MAIR_EL1),
    Regime.EL20: (EL2, SCTLR_EL2, TCR_EL2, TTBR0_EL2, TTBR1_EL2, MAIR_EL2),
    Regime.EL2: (EL2, SCTLR_EL2, TCR_EL2, TTBR0_EL2, None, MAIR_EL2),
    Regime.EL3: (EL3, SCTLR_EL3, TCR_EL3, TTBR0_EL3, None, MAIR_EL3),
}
"""By regime: its Exception level, and its SCTLR, TCR, TTBR0, TTBR1 and MAIR."""
