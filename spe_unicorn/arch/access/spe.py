"""The accessors of SPE's registers and of those that steer it; the trap of PSB CSYNC."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.accessors import allowed
from spe_unicorn.arch.access.checks import (
    E2PB,
    ECVEN,
    ENPMS3,
    ENPMS4,
    ENPMSN,
    FGTEN,
    FGTEN2,
    HXEN,
    NSPB,
    PMSEE,
    TDA,
    TPMS,
    fgt,
    fgt2,
    fine_grained_traps_enabled,
    host_at_el2,
)
from spe_unicorn.arch.access.shapes import (
    accessor_of,
    buffer_control,
    by_level,
    control,
    everywhere,
    host_alias,
    hypervisor_register,
    id_register,
    monitor_register,
    needs_features,
    nvmem_step,
    sampling_control,
    trap_of,
    untrapped,
)
from spe_unicorn.arch.access.tag_registers import TAG_ACCESSORS
from spe_unicorn.arch.access.verdicts import (
    PSB_CSYNC_TRAP,
    Accessor,
    Allowed,
    NVMem,
    Rule,
    Step,
    SystemAccessTrap,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.fgt import (
    HDFGRTR2_EL2,
    HDFGRTR_EL2,
    HDFGWTR2_EL2,
    HDFGWTR_EL2,
    HFGITR2_EL2,
    HFGITR_EL2,
    HFGRTR2_EL2,
    HFGRTR_EL2,
    HFGWTR2_EL2,
    HFGWTR_EL2,
)
from spe_unicorn.arch.registers.id import ID_REGISTERS
from spe_unicorn.arch.registers.spe import (
    PMBIDR_EL1,
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSDSFR_EL1,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIDR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
    PMSNEVFR_EL1,
    ExceptionEnable,
)
from spe_unicorn.arch.registers.system import (
    CNTPOFF_EL2,
    DIT,
    HCR_EL2,
    HCRX_EL2,
    ISR_EL1,
    MDCR_EL2,
    MDCR_EL3,
    PM,
    RNDR,
    RNDRRS,
    SCR_EL3,
    SSBS,
    TCO,
    VNCR_EL2,
)
from spe_unicorn.arch.rules.effective import (
    effective_hcr_nvx,
    effective_pmscr_el2_ee,
    el_is_in_host,
)


def _pmbsr_el1_nvmem(pe: PE) -> bool:
    """Nested, and SPE Profiling exceptions off, or NV1 set."""
    nvx = effective_hcr_nvx(pe)
    if nvx & 0b101 != 0b101:
        return False
    if nvx == 0b111 or effective_pmscr_el2_ee(pe) == ExceptionEnable.DISABLED:
        return True
    return pe.registers.read(PMSCR_EL1).EE == ExceptionEnable.DISABLED


def _pmbsr_el2_by_el1_name(pe: PE) -> bool:
    enabled = effective_pmscr_el2_ee(pe) != ExceptionEnable.DISABLED
    return enabled and el_is_in_host(pe, EL2)


_PMSCR_EL1_AT_EL2 = Step(host_at_el2, Allowed(PMSCR_EL2, Rule("EL2/host", "HCR_EL2.E2H is 1")))
_PMBSR_EL1_AT_EL1 = Step(
    _pmbsr_el1_nvmem,
    NVMem(
        0x820,
        Rule(
            "EL1/NVMem",
            "the Effective value of HCR_EL2.{NV2,NV1,NV} is 0b111, or it is 0b101 and "
            "PMSCR_EL2.EE, in effect, or PMSCR_EL1.EE is 0b00",
        ),
    ),
)
_PMBSR_EL1_AT_EL2 = Step(
    _pmbsr_el2_by_el1_name,
    Allowed(
        PMBSR_EL2, Rule("EL2/host", "HCR_EL2.E2H is 1 and PMSCR_EL2.EE, in effect, is not 0b00")
    ),
)

_PMBIDR_LEVELS = by_level(
    needs_features(Feature.FEAT_SPE),
    el1=(trap_of(EL1, EL2, fgt("PMBIDR_EL1")(True)), allowed(EL1, PMBIDR_EL1)),
    el2=(allowed(EL2, PMBIDR_EL1),),
    el3=(allowed(EL3, PMBIDR_EL1),),
)

SPE_ACCESSORS: Final[tuple[Accessor, ...]] = (
    sampling_control(
        PMSCR_EL1,
        fgt_bit="PMSCR_EL1",
        nvmem=nvmem_step(0x828, "111"),
        at_el2=(_PMSCR_EL1_AT_EL2,),
    ),
    control(
        PMSNEVFR_EL1,
        needs=Feature.FEAT_SPE_FnE,
        el2=(fgt("nPMSNEVFR_EL1"), TPMS),
        el3=(NSPB, ENPMSN),
        nvmem=nvmem_step(0x850, "1x1"),
    ),
    sampling_control(PMSICR_EL1, fgt_bit="PMSICR_EL1", nvmem=nvmem_step(0x838, "1x1")),
    sampling_control(PMSIRR_EL1, fgt_bit="PMSIRR_EL1", nvmem=nvmem_step(0x840, "1x1")),
    sampling_control(PMSFCR_EL1, fgt_bit="PMSFCR_EL1", nvmem=None),
    sampling_control(PMSEVFR_EL1, fgt_bit="PMSEVFR_EL1", nvmem=nvmem_step(0x830, "1x1")),
    sampling_control(PMSLATFR_EL1, fgt_bit="PMSLATFR_EL1", nvmem=nvmem_step(0x848, "1x1")),
    sampling_control(PMSIDR_EL1, fgt_bit="PMSIDR_EL1", nvmem=None),
    buffer_control(PMBLIMITR_EL1, fgt_bit="PMBLIMITR_EL1", nvmem=nvmem_step(0x800, "1x1")),
    buffer_control(PMBPTR_EL1, fgt_bit="PMBPTR_EL1", nvmem=nvmem_step(0x810, "1x1")),
    buffer_control(
        PMBSR_EL1,
        fgt_bit="PMBSR_EL1",
        nvmem=_PMBSR_EL1_AT_EL1,
        at_el2=(_PMBSR_EL1_AT_EL2,),
    ),
    control(
        PMSDSFR_EL1,
        needs=Feature.FEAT_SPE_FDS,
        el2=(fgt2("nPMSDSFR_EL1"), TPMS),
        el3=(ENPMS3, NSPB),
        el3_at_el2=(NSPB, ENPMS3),
        nvmem=nvmem_step(0x858, "1x1"),
    ),
    control(
        PMBMAR_EL1,
        needs=Feature.FEAT_SPE_nVM,
        el2=(fgt2("nPMBMAR_EL1"), E2PB),
        el3=(ENPMS4, NSPB),
        el3_at_el2=(NSPB, ENPMS4),
    ),
    accessor_of(PMBIDR_EL1, lambda read: _PMBIDR_LEVELS),
    hypervisor_register(PMSCR_EL2, needs=Feature.FEAT_SPE, el3=(NSPB,)),
    hypervisor_register(PMBSR_EL2, needs=Feature.FEAT_SPE_EXC, el3=(NSPB, PMSEE)),
    host_alias("PMSCR_EL12", PMSCR_EL1, needs=(Feature.FEAT_SPE, Feature.FEAT_VHE), nvmem=0x828),
    host_alias(
        "PMBSR_EL12", PMBSR_EL1, needs=(Feature.FEAT_SPE_EXC, Feature.FEAT_VHE), nvmem=0x820
    ),
    monitor_register(PMBSR_EL3, needs=Feature.FEAT_SPE_EXC),
)
"""The nineteen names of SPE registers."""

STEERING_ACCESSORS: Final[tuple[Accessor, ...]] = (
    hypervisor_register(HCR_EL2, nvmem=0x78),
    hypervisor_register(HCRX_EL2, needs=Feature.FEAT_HCX, el3=(HXEN,), nvmem=0xA0),
    hypervisor_register(MDCR_EL2, el3=(TDA,)),
    hypervisor_register(HFGRTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1B8),
    hypervisor_register(HFGWTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1C0),
    hypervisor_register(HFGITR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1C8),
    hypervisor_register(HDFGRTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x1A0),
    hypervisor_register(HDFGWTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x1B0),
    hypervisor_register(HDFGRTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1D0),
    hypervisor_register(HDFGWTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1D8),
    hypervisor_register(HFGRTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x2C0),
    hypervisor_register(HFGWTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x2C8),
    hypervisor_register(HFGITR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x310),
    hypervisor_register(VNCR_EL2, needs=Feature.FEAT_NV2, nvmem=0xB0),
    hypervisor_register(CNTPOFF_EL2, needs=Feature.FEAT_ECV_POFF, el3=(ECVEN,), nvmem=0x1A8),
    monitor_register(SCR_EL3),
    monitor_register(MDCR_EL3),
    untrapped(PM, needs=Feature.FEAT_EBEP),
    everywhere(SSBS, needs=Feature.FEAT_SSBS2),
    everywhere(DIT, needs=Feature.FEAT_DIT),
    everywhere(TCO, needs=Feature.FEAT_MTE),
    *TAG_ACCESSORS,
    untrapped(ISR_EL1),
    everywhere(RNDR),
    everywhere(RNDRRS),
    *map(id_register, ID_REGISTERS),
)
"""Registers that steer SPE and that an engine lacks, keeps in part, or answers wrongly.

A host answers these itself: HCR_EL2 and SCR_EL3 in part, the rest in whole. MDCR_EL2 and MDCR_EL3
may live in the engine, but SPE has to hear of their writes.
"""


def psb_csync(pe: PE) -> SystemAccessTrap | None:
    """What PSB CSYNC does besides its work: None, or a trap to EL2."""
    if Feature.FEAT_SPEv1p5 not in pe.features or pe.el > EL1 or not fine_grained_traps_enabled(pe):
        return None
    if el_is_in_host(pe, EL0) and pe.el == EL0:
        return None
    if not pe.registers.read(HFGITR_EL2).PSBCSYNC:
        return None
    return _PSB_CSYNC_TRAP


_PSB_CSYNC_TRAP = SystemAccessTrap(
    EL2, PSB_CSYNC_TRAP, Rule("PSBCSYNC", "HFGITR_EL2.PSBCSYNC is 1")
)
