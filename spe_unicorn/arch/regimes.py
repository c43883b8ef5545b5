"""Translation regimes: from register values to the parameters that a table walk needs.

A :class:`TranslationContext` is what one regime's registers mean, worked out once and then used for
any number of walks. It is a value: make a new one after a write to a register that it came from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from spe_unicorn.arch.descriptors import AccessType, MemoryAttributes, PASpace, Regime

_PS_BITS = (32, 36, 40, 42, 44, 48, 52, 56)
_GRANULE_OF_TG0 = (12, 16, 14, 16)
_GRANULE_OF_TG1 = (12, 14, 12, 16)
"""The reserved values, TG0=11 and TG1=00, mean what the engine takes them for."""


@dataclass(frozen=True)
class VMSA:
    """What a core implements of VMSAv8-64, as ID_AA64MMFR<n>_EL1 say it.

    ``pa_bits`` is PAMax. ``granules`` and ``granules2`` hold the sizes, in address bits, that
    stage 1 and stage 2 support, ``lpa2`` and ``lpa2_stage2`` those that support 52 bits with
    TCR_ELx.DS. ``af`` and ``dbm`` are the two halves of FEAT_HAFDBS. ``spe_flag_update`` is
    PMBIDR_EL1.F.
    """

    pa_bits: int = 40
    granules: frozenset[int] = frozenset({12, 14, 16})
    granules2: frozenset[int] = frozenset({12, 14, 16})
    lpa2: frozenset[int] = frozenset()
    lpa2_stage2: frozenset[int] = frozenset()
    lva: bool = False
    ttst: bool = False
    af: bool = True
    dbm: bool = True
    hpds: bool = True
    epan: bool = True
    e0pd: bool = True
    xnx: bool = True
    spe_flag_update: bool = True


@dataclass(frozen=True)
class TTWParams:
    """TTWParams. What a walk in one address range needs, of either stage.

    ``granule`` is the base-2 logarithm of the granule size in bytes, ``iasize`` and ``oasize``
    are the input and output address sizes in bits, ``base`` is the address of the first table.
    ``start_level`` is None where the registers describe no walk at all: every translation faults
    at level 0. ``ds`` and ``lpa`` say that descriptors hold address bits 51:48, in the places of
    TCR_ELx.DS or of the 64 KB granule. ``ee`` is True for big-endian descriptors.
    """

    granule: int
    iasize: int
    oasize: int
    base: int
    start_level: int | None
    ds: bool = False
    lpa: bool = False
    ha: bool = False
    hd: bool = False
    ee: bool = False

    @cached_property
    def stride(self) -> int:
        """How many address bits one level resolves."""
        return self.granule - 3

    @cached_property
    def first_block_level(self) -> int:
        """The first level at which a block descriptor is valid."""
        if self.granule == 12:
            return 0 if self.ds else 1
        if self.granule == 14:
            return 1 if self.ds else 2
        return 1 if self.lpa else 2


@dataclass(frozen=True)
class S1TTWParams(TTWParams):
    """S1TTWParams. Stage 1 of one VA range; fields by Arm's names in TCR_ELx and SCTLR_ELx."""

    upper: bool = False
    epd: bool = False
    tbi: bool = False
    tbid: bool = False
    hpd: bool = False
    e0pd: bool = False
    wxn: bool = False
    epan: bool = False
    nv1: bool = False
    mair: int = 0
    sh: int = 0

    def addr_top(self, acctype: AccessType) -> int:
        """AArch64.AddrTop(). The highest address bit that takes part in translation."""
        return 55 if self.tbi and not (self.tbid and acctype is AccessType.IFETCH) else 63

    def out_of_range(self, va: int, acctype: AccessType) -> bool:
        """AArch64.VAIsOutOfRange(). Whether ``va`` lies outside the range TxSZ opens."""
        spare = self._spare_fetch_bits if acctype is AccessType.IFETCH else self._spare_bits
        return va & spare != (spare if self.upper else 0)

    @cached_property
    def _spare_bits(self) -> int:
        return (2 << self.addr_top(AccessType.GPR)) - (1 << self.iasize)

    @cached_property
    def _spare_fetch_bits(self) -> int:
        return (2 << self.addr_top(AccessType.IFETCH)) - (1 << self.iasize)


@dataclass(frozen=True)
class S2TTWParams(TTWParams):
    """S2TTWParams. Stage 2 of one IPA space, whose pages lie in ``paspace``."""

    paspace: PASpace = PASpace.NonSecure
    ptw: bool = False
    xnx: bool = True
    sh: int = 0


@dataclass(frozen=True)
class TranslationContext:
    """One translation regime, ready to walk.

    ``paspace`` is the PA space that belongs to the regime's Security state. ``lower`` and ``upper``
    are the VA ranges that bit 55 selects; a regime without EL0 has no ``upper``. ``s1_enabled`` is
    False where stage 1 is off. ``stage2`` is None where stage 2 is off; ``stage2_ns`` is for the
    Non-secure IPAs of Secure state. ``dc`` is HCR_EL2.DC, ``dcache`` and ``icache`` are
    SCTLR_ELx.{C,I}, ``sif`` is SCR_EL3.SIF. ``nvm`` is set while the Profiling Buffer's pointers
    are physical: the attributes that PMBMAR_EL1 gives them.
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
    dcache: bool = True
    icache: bool = True
    sif: bool = False
    nvm: MemoryAttributes | None = None

    def with_physical_pointers(self, attributes: MemoryAttributes) -> TranslationContext:
        """The context while Effective PMBLIMITR_EL1.nVM is 1: stage 1 off, stage 2 as it is."""
        return replace(self, s1_enabled=False, nvm=attributes)


@dataclass(frozen=True)
class Stage1Registers:
    """Raw values of the registers that control stage 1 of one regime, by their names less _ELx."""

    sctlr: int = 0
    tcr: int = 0
    ttbr0: int = 0
    ttbr1: int = 0
    mair: int = 0


@dataclass(frozen=True)
class Stage2Registers:
    """Raw values of the EL2 registers that control stage 2, by their names less _EL2."""

    hcr: int = 0
    vtcr: int = 0
    vttbr: int = 0
    vstcr: int = 0
    vsttbr: int = 0
    sctlr: int = 0


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
    hcr = stage2.hcr if stage2 and regime is Regime.EL10 else 0
    dc, tge = bool(hcr >> 12 & 1), bool(hcr >> 27 & 1)
    nv1 = hcr >> 42 & 3 == 3
    lower = _s1_params(regime, stage1, vmsa, nv1, upper=False)
    upper = _s1_params(regime, stage1, vmsa, nv1, upper=True) if regime.has_unprivileged else None
    context = TranslationContext(
        regime,
        paspace,
        vmsa,
        lower,
        upper,
        s1_enabled=bool(stage1.sctlr & 1) and not dc and not tge,
        dc=dc,
        dcache=bool(stage1.sctlr >> 2 & 1),
        icache=bool(stage1.sctlr >> 12 & 1),
        sif=sif,
    )
    if stage2 is None or not (dc or hcr & 1):
        return context
    if paspace is not PASpace.Secure:
        return replace(context, stage2=_s2_params(stage2, stage2.vtcr, stage2.vttbr, vmsa, paspace))
    # Secure EL2: SA moves all pages to the Non-secure space, NSA those of Non-secure IPAs.
    secure_out = PASpace.NonSecure if stage2.vstcr >> 30 & 1 else PASpace.Secure
    ns_out = PASpace.NonSecure if stage2.vtcr >> 30 & 1 else secure_out
    return replace(
        context,
        stage2=_s2_params(stage2, stage2.vstcr, stage2.vsttbr, vmsa, secure_out),
        stage2_ns=_s2_params(stage2, stage2.vtcr, stage2.vttbr, vmsa, ns_out),
    )


def _s1_params(
    regime: Regime, registers: Stage1Registers, vmsa: VMSA, nv1: bool, *, upper: bool
) -> S1TTWParams:
    """AArch64.GetS1TTWParams()."""
    tcr, sctlr = registers.tcr, registers.sctlr
    if regime.has_unprivileged:
        txsz = tcr >> (16 if upper else 0) & 0x3F
        granule = _GRANULE_OF_TG1[tcr >> 30 & 3] if upper else _GRANULE_OF_TG0[tcr >> 14 & 3]
        ps, ds = tcr >> 32 & 7, tcr >> 59 & 1
        n = int(upper)
        epd = bool(tcr >> (23 if upper else 7) & 1)
        tbi, tbid = bool(tcr >> 37 + n & 1), bool(tcr >> 51 + n & 1)
        ha, hd, hpd = tcr >> 39 & 1, tcr >> 40 & 1, tcr >> 41 + n & 1
        e0pd = bool(tcr >> 55 + n & 1) and vmsa.e0pd
        sh = tcr >> (28 if upper else 12) & 3
    else:
        txsz = tcr & 0x3F
        granule = _GRANULE_OF_TG0[tcr >> 14 & 3]
        ps, ds = tcr >> 16 & 7, tcr >> 32 & 1
        epd = e0pd = False
        tbi, tbid = bool(tcr >> 20 & 1), bool(tcr >> 29 & 1)
        ha, hd, hpd = tcr >> 21 & 1, tcr >> 22 & 1, tcr >> 24 & 1
        sh = tcr >> 12 & 3
    granule = _implemented(granule, vmsa.granules)
    wide = bool(ds) and granule in vmsa.lpa2
    lpa = granule == 16 and vmsa.pa_bits >= 52
    iasize = 64 - txsz
    level = 3 - (iasize - 1 - granule) // (granule - 3)
    legal = level <= 3 and _txsz_is_legal(txsz, granule, vmsa, wide)
    start_level = level if legal else None
    ttbr = registers.ttbr1 if upper else registers.ttbr0
    return S1TTWParams(
        granule=granule,
        iasize=iasize,
        oasize=_physical_address_size(ps, vmsa, wide, lpa),
        base=_table_base(ttbr, granule, iasize, start_level, wide or (lpa and ps == 6)),
        start_level=start_level,
        ds=wide,
        lpa=lpa,
        ha=bool(ha) and vmsa.af,
        hd=bool(ha and hd) and vmsa.dbm,
        ee=bool(sctlr >> 25 & 1),
        upper=upper,
        epd=epd,
        tbi=tbi,
        tbid=tbid,
        hpd=bool(hpd) and vmsa.hpds,
        e0pd=e0pd,
        wxn=bool(sctlr >> 19 & 1),
        epan=bool(sctlr >> 57 & 1) and vmsa.epan and regime.has_unprivileged,
        nv1=nv1,
        mair=registers.mair,
        sh=sh,
    )


def _s2_params(
    registers: Stage2Registers, tcr: int, ttbr: int, vmsa: VMSA, paspace: PASpace
) -> S2TTWParams:
    """AArch64.GetS2TTWParams(). ``tcr`` and ``ttbr`` are those of the IPA space."""
    vtcr = registers.vtcr
    granule = _implemented(_GRANULE_OF_TG0[tcr >> 14 & 3], vmsa.granules2)
    wide = bool(vtcr >> 32 & 1) and granule in vmsa.lpa2_stage2
    lpa = granule == 16 and vmsa.pa_bits >= 52
    txsz, ps = tcr & 0x3F, vtcr >> 16 & 7
    iasize = 64 - txsz
    start_level = _s2_start_level(granule, tcr >> 6 & 3, tcr >> 33 & 1, vmsa, wide)
    # An IPA wider than PAMax may be refused or clamped: refused, as by the engine.
    if start_level is not None and (
        not _txsz_is_legal(txsz, granule, vmsa, wide)
        or iasize > vmsa.pa_bits
        or _s2_inconsistent_sl(granule, iasize, start_level)
    ):
        start_level = None
    ha = bool(vtcr >> 21 & 1)
    return S2TTWParams(
        granule=granule,
        iasize=iasize,
        oasize=_physical_address_size(ps, vmsa, wide, lpa),
        base=_table_base(ttbr, granule, iasize, start_level, wide or (lpa and ps == 6)),
        start_level=start_level,
        ds=wide,
        lpa=lpa,
        ha=ha and vmsa.af,
        hd=ha and bool(vtcr >> 22 & 1) and vmsa.dbm,
        ee=bool(registers.sctlr >> 25 & 1),
        paspace=paspace,
        ptw=bool(registers.hcr >> 2 & 1),
        xnx=vmsa.xnx,
        sh=vtcr >> 12 & 3,
    )


def _implemented(granule: int, granules: frozenset[int]) -> int:
    """The granule that TGx selects, or the smallest there is where that one is not implemented."""
    return granule if granule in granules else min(granules)


def _txsz_is_legal(txsz: int, granule: int, vmsa: VMSA, ds: bool) -> bool:
    """AArch64.S1TxSZFaults(), negated: a size out of range faults here, it is never clamped."""
    minimum = 12 if ds or (granule == 16 and vmsa.lva) else 16
    maximum = 39 if not vmsa.ttst else 47 if granule == 16 else 48
    return minimum <= txsz <= maximum


def _physical_address_size(ps: int, vmsa: VMSA, ds: bool, lpa: bool) -> int:
    """AArch64.PhysicalAddressSize(). The output address size in bits."""
    return min(_PS_BITS[ps], vmsa.pa_bits, 52 if ds or lpa else 48)


def _table_base(ttbr: int, granule: int, iasize: int, start_level: int | None, wide: bool) -> int:
    """AArch64.S1TTBaseAddress(). The address of the first table; 0 where there is no walk."""
    if start_level is None:
        return 0
    size_log2 = iasize - ((3 - start_level) * (granule - 3) + granule) + 3
    base = ttbr & 0xFFFF_FFFF_FFFE
    if wide:
        size_log2 = max(size_log2, 6)
        base |= (ttbr >> 2 & 0xF) << 48
    return base >> size_log2 << size_log2


def _s2_start_level(granule: int, sl0: int, sl2: int, vmsa: VMSA, ds: bool) -> int | None:
    """AArch64.S2StartLevel(), None where AArch64.S2InvalidSL() holds."""
    if granule == 12:
        if sl2:
            return -1 if ds and sl0 == 0 else None
        level = (2, 1, 0, 3)[sl0]
        invalid = (level == 3 and not vmsa.ttst) or (level == 0 and vmsa.pa_bits < 44)
    elif granule == 14:
        level = (3, 2, 1, 0)[sl0]
        invalid = (level == 0 and not ds) or (level == 1 and vmsa.pa_bits < 42)
    else:
        level = 3 - sl0
        invalid = level == 0 or (level == 1 and vmsa.pa_bits < 44)
    return None if invalid else level


def _s2_inconsistent_sl(granule: int, iasize: int, start_level: int) -> bool:
    """AArch64.S2InconsistentSL(). Whether the first lookup would resolve too little or too much."""
    stride = granule - 3
    least = (3 - start_level) * stride + granule + 1
    return not least <= iasize <= least + stride - 1 + 4
