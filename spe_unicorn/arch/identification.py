"""What the identification registers of SPE read as."""

from __future__ import annotations

from spe_unicorn.arch.effective import (
    effective_pmscr_el2_envm,
    profiling_buffer_owner,
    security_state_at,
)
from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.pe import EL3, PE
from spe_unicorn.arch.spe_registers import PMBIDR_EL1, PMSIDR_EL1
from spe_unicorn.arch.sysreg import ReadOnlyCell


def pmsidr_el1(features: Features, impdef: ImpDef) -> PMSIDR_EL1:
    """PMSIDR_EL1 of a core."""
    return PMSIDR_EL1.of(
        SME=Feature.FEAT_SPE_SME in features,
        ALTCLK=impdef.altclk if Feature.FEAT_SPE_ALTCLK in features else 0,
        FPF=Feature.FEAT_SPE_FPF in features,
        EFT=Feature.FEAT_SPE_EFT in features,
        CRR=Feature.FEAT_SPE_CRR in features,
        PBT=Feature.FEAT_SPE_PBT in features,
        Format=0,
        CountSize=impdef.count_size,
        MaxSize=impdef.max_size,
        Interval=impdef.interval,
        FDS=Feature.FEAT_SPE_FDS in features,
        FnE=Feature.FEAT_SPE_FnE in features,
        ERnd=Feature.FEAT_SPE_ERnd in features,
        LDS=Feature.FEAT_SPE_LDS in features,
        ArchInst=Feature.FEAT_SPE_ArchInst in features,
        FL=1,
        FT=1,
        FE=1,
    )


def programming_not_allowed(pe: PE) -> bool:
    """PMBIDR_EL1.P at the current Exception level."""
    owner = profiling_buffer_owner(pe)
    if pe.el == EL3 or owner is None:
        return False
    return owner.el > pe.el or owner.state is not security_state_at(pe, pe.el)


def pmbidr_el1(pe: PE) -> PMBIDR_EL1:
    """PMBIDR_EL1 as a PE reads it now."""
    p = programming_not_allowed(pe)
    return PMBIDR_EL1.of(
        EA=pe.impdef.external_abort,
        AddrMode=effective_pmscr_el2_envm(pe) and not p,
        F=pe.impdef.flag_update,
        P=p,
        Align=pe.impdef.align,
    )


def identify(pe: PE) -> None:
    """Let PMSIDR_EL1 and PMBIDR_EL1 in the PE's register file read as they must."""
    pmsidr = pmsidr_el1(pe.features, pe.impdef).value
    pe.registers.add(PMSIDR_EL1, ReadOnlyCell(lambda: pmsidr))
    pe.registers.add(PMBIDR_EL1, ReadOnlyCell(lambda: pmbidr_el1(pe).value))
