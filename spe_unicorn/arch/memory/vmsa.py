"""What a core implements of the Virtual Memory System Architecture, VMSAv8-64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.registers.id import ID_AA64MMFR0_EL1, ID_AA64MMFR1_EL1, ID_AA64MMFR2_EL1


@dataclass(frozen=True)
class VMSA:
    """The features of translation, with as much as VMSAv8-64 without LPA2 has for defaults.

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


def vmsa_of(pe: PE) -> VMSA:
    """What a PE's ID_AA64MMFR<n>_EL1 say, and its IMPLEMENTATION DEFINED choices."""
    return _vmsa(
        pe.registers.read(ID_AA64MMFR0_EL1),
        pe.registers.read(ID_AA64MMFR1_EL1),
        pe.registers.read(ID_AA64MMFR2_EL1),
        pe.impdef.pa_bits,
        spe_flag_update=pe.impdef.flag_update,
    )


@lru_cache(maxsize=16)
def _vmsa(
    mmfr0: ID_AA64MMFR0_EL1,
    mmfr1: ID_AA64MMFR1_EL1,
    mmfr2: ID_AA64MMFR2_EL1,
    pa_bits: int,
    *,
    spe_flag_update: bool,
) -> VMSA:
    # TGran4 and TGran64 count up from 0 for present, 0b1111 for absent; TGran16 from 1.
    stage1 = {12: mmfr0.TGran4 + 1 & 15, 14: mmfr0.TGran16, 16: mmfr0.TGran64 + 1 & 15}
    # TGran<n>_2 repeats stage 1 where it is 0, then 1 absent, 2 present, 3 with LPA2.
    own = {12: mmfr0.TGran4_2, 14: mmfr0.TGran16_2, 16: mmfr0.TGran64_2}
    stage2 = {n: own[n] - 1 if own[n] else stage1[n] for n in own}
    return VMSA(
        pa_bits=pa_bits,
        granules=frozenset(n for n, support in stage1.items() if support),
        granules2=frozenset(n for n, support in stage2.items() if support),
        lpa2=frozenset(n for n, support in stage1.items() if support == 2),
        lpa2_stage2=frozenset(n for n, support in stage2.items() if support == 2),
        lva=mmfr2.VARange >= 1,
        ttst=mmfr2.ST >= 1,
        af=mmfr1.HAFDBS >= 1,
        dbm=mmfr1.HAFDBS >= 2,
        hpds=mmfr1.HPDS >= 1,
        epan=mmfr1.PAN >= 3,
        e0pd=mmfr2.E0PD >= 1,
        xnx=mmfr1.XNX >= 1,
        spe_flag_update=spe_flag_update,
    )
