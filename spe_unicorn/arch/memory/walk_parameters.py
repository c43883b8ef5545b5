"""Parameters of a table walk, from register values: sizes, starting level, base, controls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spe_unicorn.arch.memory.descriptors import AccessType, Regime
from spe_unicorn.arch.memory.vmsa import VMSA
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    SCTLR_EL1,
    SCTLR_EL2,
    TCR_EL1,
    TCR_EL3,
    VSTCR_EL2,
    VTCR_EL2,
)
from spe_unicorn.arch.spaces import PASpace

_PS_BITS = (32, 36, 40, 42, 44, 48, 52, 56)
_PS_52 = 6
_GRANULE_OF_TG0 = (12, 16, 14, 16)
_GRANULE_OF_TG1 = (12, 14, 12, 16)
"""The reserved values, TG0=11 and TG1=00, mean what the engine takes them for."""


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
    """S2TTWParams. Stage 2 of one IPA space; where its pages (``paspace``) and its tables are."""

    paspace: PASpace = PASpace.NonSecure
    tables: PASpace = PASpace.NonSecure
    ptw: bool = False
    xnx: bool = True
    sh: int = 0


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


def get_s1_ttw_params(
    regime: Regime, registers: Stage1Registers, vmsa: VMSA, *, nv1: bool, upper: bool
) -> S1TTWParams:
    """AArch64.GetS1TTWParams()."""
    sctlr = SCTLR_EL1(registers.sctlr)
    epd = e0pd = 0
    if regime.has_unprivileged:
        tcr = TCR_EL1(registers.tcr)
        ps, ds, ha, hd = tcr.IPS, tcr.DS, tcr.HA, tcr.HD
        if upper:
            txsz, granule, sh = tcr.T1SZ, _GRANULE_OF_TG1[tcr.TG1], tcr.SH1
            tbi, tbid, hpd, epd, e0pd = tcr.TBI1, tcr.TBID1, tcr.HPD1, tcr.EPD1, tcr.E0PD1
        else:
            txsz, granule, sh = tcr.T0SZ, _GRANULE_OF_TG0[tcr.TG0], tcr.SH0
            tbi, tbid, hpd, epd, e0pd = tcr.TBI0, tcr.TBID0, tcr.HPD0, tcr.EPD0, tcr.E0PD0
    else:
        short = TCR_EL3(registers.tcr)  # TCR_EL2 has the same fields while E2H is 0
        ps, ds, ha, hd = short.PS, short.DS, short.HA, short.HD
        txsz, granule, sh = short.T0SZ, _GRANULE_OF_TG0[short.TG0], short.SH0
        tbi, tbid, hpd = short.TBI, short.TBID, short.HPD
    granule = _implemented(granule, vmsa.granules)
    wide = bool(ds) and granule in vmsa.lpa2
    lpa = granule == 16 and vmsa.pa_bits >= 52
    iasize = 64 - txsz
    level = 3 - (iasize - 1 - granule) // (granule - 3)
    legal = level <= 3 and _txsz_is_legal(txsz, granule, vmsa, ds=wide)
    start_level = level if legal else None
    ttbr = registers.ttbr1 if upper else registers.ttbr0
    return S1TTWParams(
        granule=granule,
        iasize=iasize,
        oasize=_physical_address_size(ps, vmsa, ds=wide, lpa=lpa),
        base=_table_base(ttbr, granule, iasize, start_level, wide=wide or (lpa and ps == _PS_52)),
        start_level=start_level,
        ds=wide,
        lpa=lpa,
        ha=bool(ha) and vmsa.af,
        hd=bool(ha and hd) and vmsa.dbm,
        ee=bool(sctlr.EE),
        upper=upper,
        epd=bool(epd),
        tbi=bool(tbi),
        tbid=bool(tbid),
        hpd=bool(hpd) and vmsa.hpds,
        e0pd=bool(e0pd) and vmsa.e0pd,
        wxn=bool(sctlr.WXN),
        epan=bool(sctlr.EPAN) and vmsa.epan,
        nv1=nv1,
        mair=registers.mair,
        sh=sh,
    )


def get_s2_ttw_params(
    registers: Stage2Registers,
    tcr: VTCR_EL2 | VSTCR_EL2,
    ttbr: int,
    vmsa: VMSA,
    paspace: PASpace,
    tables: PASpace,
) -> S2TTWParams:
    """AArch64.GetS2TTWParams(). ``tcr`` and ``ttbr`` are those of the IPA space."""
    vtcr, hcr = VTCR_EL2(registers.vtcr), HCR_EL2(registers.hcr)
    granule = _implemented(_GRANULE_OF_TG0[tcr.TG0], vmsa.granules2)
    wide = bool(vtcr.DS) and granule in vmsa.lpa2_stage2
    lpa = granule == 16 and vmsa.pa_bits >= 52
    iasize = 64 - tcr.T0SZ
    start_level = _s2_start_level(granule, tcr.SL0, tcr.SL2, vmsa, ds=wide)
    # An IPA wider than PAMax may be refused or clamped: refused, as by the engine.
    if start_level is not None and (
        not _txsz_is_legal(tcr.T0SZ, granule, vmsa, ds=wide)
        or iasize > vmsa.pa_bits
        or _s2_inconsistent_sl(granule, iasize, start_level)
    ):
        start_level = None
    return S2TTWParams(
        granule=granule,
        iasize=iasize,
        oasize=_physical_address_size(vtcr.PS, vmsa, ds=wide, lpa=lpa),
        base=_table_base(
            ttbr, granule, iasize, start_level, wide=wide or (lpa and vtcr.PS == _PS_52)
        ),
        start_level=start_level,
        ds=wide,
        lpa=lpa,
        ha=bool(vtcr.HA) and vmsa.af,
        hd=bool(vtcr.HA and vtcr.HD) and vmsa.dbm,
        ee=bool(SCTLR_EL2(registers.sctlr).EE),
        paspace=paspace,
        tables=tables,
        ptw=bool(hcr.PTW),
        xnx=vmsa.xnx,
        sh=vtcr.SH0,
    )


def _implemented(granule: int, granules: frozenset[int]) -> int:
    """The granule that TGx selects, or the smallest there is where that one is not implemented."""
    return granule if granule in granules else min(granules)


def _txsz_is_legal(txsz: int, granule: int, vmsa: VMSA, *, ds: bool) -> bool:
    """AArch64.S1TxSZFaults(), negated: a size out of range faults here, it is never clamped."""
    minimum = 12 if ds or (granule == 16 and vmsa.lva) else 16
    maximum = 39 if not vmsa.ttst else 47 if granule == 16 else 48
    return minimum <= txsz <= maximum


def _physical_address_size(ps: int, vmsa: VMSA, *, ds: bool, lpa: bool) -> int:
    """AArch64.PhysicalAddressSize(). The output address size in bits."""
    return min(_PS_BITS[ps], vmsa.pa_bits, 52 if ds or lpa else 48)


def _table_base(
    ttbr: int, granule: int, iasize: int, start_level: int | None, *, wide: bool
) -> int:
    """AArch64.S1TTBaseAddress(). The address of the first table; 0 where there is no walk."""
    if start_level is None:
        return 0
    size_log2 = iasize - ((3 - start_level) * (granule - 3) + granule) + 3
    base = ttbr & 0xFFFF_FFFF_FFFE
    if wide:
        size_log2 = max(size_log2, 6)
        base |= (ttbr >> 2 & 0xF) << 48
    return base >> size_log2 << size_log2


def _s2_start_level(granule: int, sl0: int, sl2: int, vmsa: VMSA, *, ds: bool) -> int | None:
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
