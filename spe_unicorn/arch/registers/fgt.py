"""Fine-grained traps: the registers by which EL2 traps single registers and instructions of EL1.

A bit whose name begins with ``n`` traps while it is 0, any other while it is 1. Bits for
extensions that no core here has (BRBE, TRBE, trace, SPMU, RAS, SCXTNUM, SME, PIE and so on) are
RES0.
"""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, every
from spe_unicorn.arch.registers.highest import zero_if_el2_is_highest
from spe_unicorn.arch.registers.roles import Affects, Owner
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, Res0

_FGT = every(Feature.FEAT_FGT, Feature.FEAT_EL2)
_FGT2 = every(Feature.FEAT_FGT2, Feature.FEAT_EL2)
_reset = zero_if_el2_is_highest


class FineGrainedTraps(SysReg, affects=Affects.TRAPS, owner=Owner.HOST):
    """What the fine-grained trap registers share."""

    __slots__ = ()


class HFGRTR_EL2(FineGrainedTraps, op=(3, 4, 1, 1, 4), when=_FGT):
    """Hypervisor Fine-Grained Read Trap Register."""

    RES0_63_40 = Res0(63, 40)
    ICC_IGRPENn_EL1 = Field(39, reset=_reset)
    VBAR_EL1 = Field(38, reset=_reset)
    TTBR1_EL1 = Field(37, reset=_reset)
    TTBR0_EL1 = Field(36, reset=_reset)
    TPIDR_EL0 = Field(35, reset=_reset)
    TPIDRRO_EL0 = Field(34, reset=_reset)
    TPIDR_EL1 = Field(33, reset=_reset)
    TCR_EL1 = Field(32, reset=_reset)
    RES0_31_30 = Res0(31, 30)
    SCTLR_EL1 = Field(29, reset=_reset)
    REVIDR_EL1 = Field(28, reset=_reset)
    PAR_EL1 = Field(27, reset=_reset)
    MPIDR_EL1 = Field(26, reset=_reset)
    MIDR_EL1 = Field(25, reset=_reset)
    MAIR_EL1 = Field(24, reset=_reset)
    LORSA_EL1 = Field(23, reset=_reset)
    LORN_EL1 = Field(22, reset=_reset)
    LORID_EL1 = Field(21, reset=_reset)
    LOREA_EL1 = Field(20, reset=_reset)
    LORC_EL1 = Field(19, reset=_reset)
    ISR_EL1 = Field(18, reset=_reset)
    FAR_EL1 = Field(17, reset=_reset)
    ESR_EL1 = Field(16, reset=_reset)
    DCZID_EL0 = Field(15, reset=_reset)
    CTR_EL0 = Field(14, reset=_reset)
    CSSELR_EL1 = Field(13, reset=_reset)
    CPACR_EL1 = Field(12, reset=_reset)
    CONTEXTIDR_EL1 = Field(11, reset=_reset)
    CLIDR_EL1 = Field(10, reset=_reset)
    CCSIDR_EL1 = Field(9, reset=_reset)
    APIBKey = Field(8, reset=_reset)
    APIAKey = Field(7, reset=_reset)
    APGAKey = Field(6, reset=_reset)
    APDBKey = Field(5, reset=_reset)
    APDAKey = Field(4, reset=_reset)
    AMAIR_EL1 = Field(3, reset=_reset)
    AIDR_EL1 = Field(2, reset=_reset)
    AFSR1_EL1 = Field(1, reset=_reset)
    AFSR0_EL1 = Field(0, reset=_reset)


class HFGWTR_EL2(FineGrainedTraps, op=(3, 4, 1, 1, 5), when=_FGT):
    """Hypervisor Fine-Grained Write Trap Register."""

    RES0_63_40 = Res0(63, 40)
    ICC_IGRPENn_EL1 = Field(39, reset=_reset)
    VBAR_EL1 = Field(38, reset=_reset)
    TTBR1_EL1 = Field(37, reset=_reset)
    TTBR0_EL1 = Field(36, reset=_reset)
    TPIDR_EL0 = Field(35, reset=_reset)
    TPIDRRO_EL0 = Field(34, reset=_reset)
    TPIDR_EL1 = Field(33, reset=_reset)
    TCR_EL1 = Field(32, reset=_reset)
    RES0_31_30 = Res0(31, 30)
    SCTLR_EL1 = Field(29, reset=_reset)
    RES0_28 = Res0(28)
    PAR_EL1 = Field(27, reset=_reset)
    RES0_26_25 = Res0(26, 25)
    MAIR_EL1 = Field(24, reset=_reset)
    LORSA_EL1 = Field(23, reset=_reset)
    LORN_EL1 = Field(22, reset=_reset)
    RES0_21 = Res0(21)
    LOREA_EL1 = Field(20, reset=_reset)
    LORC_EL1 = Field(19, reset=_reset)
    RES0_18 = Res0(18)
    FAR_EL1 = Field(17, reset=_reset)
    ESR_EL1 = Field(16, reset=_reset)
    RES0_15_14 = Res0(15, 14)
    CSSELR_EL1 = Field(13, reset=_reset)
    CPACR_EL1 = Field(12, reset=_reset)
    CONTEXTIDR_EL1 = Field(11, reset=_reset)
    RES0_10_9 = Res0(10, 9)
    APIBKey = Field(8, reset=_reset)
    APIAKey = Field(7, reset=_reset)
    APGAKey = Field(6, reset=_reset)
    APDBKey = Field(5, reset=_reset)
    APDAKey = Field(4, reset=_reset)
    AMAIR_EL1 = Field(3, reset=_reset)
    RES0_2 = Res0(2)
    AFSR1_EL1 = Field(1, reset=_reset)
    AFSR0_EL1 = Field(0, reset=_reset)


class HFGITR_EL2(FineGrainedTraps, op=(3, 4, 1, 1, 6), when=_FGT):
    """Hypervisor Fine-Grained Instruction Trap Register."""

    PSBCSYNC = Field(63, when=Feature.FEAT_SPEv1p5, reset=_reset)
    ATS1E1A = Field(62, reset=_reset)
    RES0_61 = Res0(61)
    COSPRCTX = Field(60, reset=_reset)
    nGCSEPP = Field(59, when=Feature.FEAT_GCS, reset=_reset)
    nGCSSTR_EL1 = Field(58, when=Feature.FEAT_GCS, reset=_reset)
    nGCSPUSHM_EL1 = Field(57, when=Feature.FEAT_GCS, reset=_reset)
    RES0_56_55 = Res0(56, 55)
    DCCVAC = Field(54, reset=_reset)
    SVC_EL1 = Field(53, reset=_reset)
    SVC_EL0 = Field(52, reset=_reset)
    ERET = Field(51, reset=_reset)
    CPPRCTX = Field(50, reset=_reset)
    DVPRCTX = Field(49, reset=_reset)
    CFPRCTX = Field(48, reset=_reset)
    TLBIVAALE1 = Field(47, reset=_reset)
    TLBIVALE1 = Field(46, reset=_reset)
    TLBIVAAE1 = Field(45, reset=_reset)
    TLBIASIDE1 = Field(44, reset=_reset)
    TLBIVAE1 = Field(43, reset=_reset)
    TLBIVMALLE1 = Field(42, reset=_reset)
    TLBIRVAALE1 = Field(41, reset=_reset)
    TLBIRVALE1 = Field(40, reset=_reset)
    TLBIRVAAE1 = Field(39, reset=_reset)
    TLBIRVAE1 = Field(38, reset=_reset)
    TLBIRVAALE1IS = Field(37, reset=_reset)
    TLBIRVALE1IS = Field(36, reset=_reset)
    TLBIRVAAE1IS = Field(35, reset=_reset)
    TLBIRVAE1IS = Field(34, reset=_reset)
    TLBIVAALE1IS = Field(33, reset=_reset)
    TLBIVALE1IS = Field(32, reset=_reset)
    TLBIVAAE1IS = Field(31, reset=_reset)
    TLBIASIDE1IS = Field(30, reset=_reset)
    TLBIVAE1IS = Field(29, reset=_reset)
    TLBIVMALLE1IS = Field(28, reset=_reset)
    TLBIRVAALE1OS = Field(27, reset=_reset)
    TLBIRVALE1OS = Field(26, reset=_reset)
    TLBIRVAAE1OS = Field(25, reset=_reset)
    TLBIRVAE1OS = Field(24, reset=_reset)
    TLBIVAALE1OS = Field(23, reset=_reset)
    TLBIVALE1OS = Field(22, reset=_reset)
    TLBIVAAE1OS = Field(21, reset=_reset)
    TLBIASIDE1OS = Field(20, reset=_reset)
    TLBIVAE1OS = Field(19, reset=_reset)
    TLBIVMALLE1OS = Field(18, reset=_reset)
    ATS1E1WP = Field(17, reset=_reset)
    ATS1E1RP = Field(16, reset=_reset)
    ATS1E0W = Field(15, reset=_reset)
    ATS1E0R = Field(14, reset=_reset)
    ATS1E1W = Field(13, reset=_reset)
    ATS1E1R = Field(12, reset=_reset)
    DCZVA = Field(11, reset=_reset)
    DCCIVAC = Field(10, reset=_reset)
    DCCVADP = Field(9, reset=_reset)
    DCCVAP = Field(8, reset=_reset)
    DCCVAU = Field(7, reset=_reset)
    DCCISW = Field(6, reset=_reset)
    DCCSW = Field(5, reset=_reset)
    DCISW = Field(4, reset=_reset)
    DCIVAC = Field(3, reset=_reset)
    ICIVAU = Field(2, reset=_reset)
    ICIALLU = Field(1, reset=_reset)
    ICIALLUIS = Field(0, reset=_reset)


class HDFGRTR2_EL2(FineGrainedTraps, op=(3, 4, 3, 1, 0), when=_FGT2):
    """Hypervisor Debug Fine-Grained Read Trap Register 2."""

    RES0_63_25 = Res0(63, 25)
    nPMBMAR_EL1 = Field(24, when=Feature.FEAT_SPE_nVM, reset=_reset)
    RES0_23_20 = Res0(23, 20)
    nPMSDSFR_EL1 = Field(19, when=Feature.FEAT_SPE_FDS, reset=_reset)
    RES0_18_5 = Res0(18, 5)
    nPMUACR_EL1 = Field(4, when=Feature.FEAT_PMUv3p9, reset=_reset)
    nPMICFILTR_EL0 = Field(3, when=Feature.FEAT_PMUv3_ICNTR, reset=_reset)
    nPMICNTR_EL0 = Field(2, when=Feature.FEAT_PMUv3_ICNTR, reset=_reset)
    nPMIAR_EL1 = Field(1, when=Feature.FEAT_SEBEP, reset=_reset)
    nPMECR_EL1 = Field(0, when=Feature.FEAT_EBEP, reset=_reset)


class HDFGWTR2_EL2(FineGrainedTraps, op=(3, 4, 3, 1, 1), when=_FGT2):
    """Hypervisor Debug Fine-Grained Write Trap Register 2."""

    RES0_63_25 = Res0(63, 25)
    nPMBMAR_EL1 = Field(24, when=Feature.FEAT_SPE_nVM, reset=_reset)
    RES0_23_22 = Res0(23, 22)
    nPMZR_EL0 = Field(21, when=Feature.FEAT_PMUv3p9, reset=_reset)
    RES0_20 = Res0(20)
    nPMSDSFR_EL1 = Field(19, when=Feature.FEAT_SPE_FDS, reset=_reset)
    RES0_18_5 = Res0(18, 5)
    nPMUACR_EL1 = Field(4, when=Feature.FEAT_PMUv3p9, reset=_reset)
    nPMICFILTR_EL0 = Field(3, when=Feature.FEAT_PMUv3_ICNTR, reset=_reset)
    nPMICNTR_EL0 = Field(2, when=Feature.FEAT_PMUv3_ICNTR, reset=_reset)
    nPMIAR_EL1 = Field(1, when=Feature.FEAT_SEBEP, reset=_reset)
    nPMECR_EL1 = Field(0, when=Feature.FEAT_EBEP, reset=_reset)


class HDFGRTR_EL2(FineGrainedTraps, op=(3, 4, 3, 1, 4), when=_FGT):
    """Hypervisor Debug Fine-Grained Read Trap Register."""

    PMBIDR_EL1 = Field(63, when=Feature.FEAT_SPE, reset=_reset)
    nPMSNEVFR_EL1 = Field(62, when=Feature.FEAT_SPE_FnE, reset=_reset)
    RES0_61_59 = Res0(61, 59)
    PMCEIDn_EL0 = Field(58, when=Feature.FEAT_PMUv3, reset=_reset)
    PMUSERENR_EL0 = Field(57, when=Feature.FEAT_PMUv3, reset=_reset)
    RES0_56_33 = Res0(56, 33)
    PMSLATFR_EL1 = Field(32, when=Feature.FEAT_SPE, reset=_reset)
    PMSIRR_EL1 = Field(31, when=Feature.FEAT_SPE, reset=_reset)
    PMSIDR_EL1 = Field(30, when=Feature.FEAT_SPE, reset=_reset)
    PMSICR_EL1 = Field(29, when=Feature.FEAT_SPE, reset=_reset)
    PMSFCR_EL1 = Field(28, when=Feature.FEAT_SPE, reset=_reset)
    PMSEVFR_EL1 = Field(27, when=Feature.FEAT_SPE, reset=_reset)
    PMSCR_EL1 = Field(26, when=Feature.FEAT_SPE, reset=_reset)
    PMBSR_EL1 = Field(25, when=Feature.FEAT_SPE, reset=_reset)
    PMBPTR_EL1 = Field(24, when=Feature.FEAT_SPE, reset=_reset)
    PMBLIMITR_EL1 = Field(23, when=Feature.FEAT_SPE, reset=_reset)
    PMMIR_EL1 = Field(22, when=Feature.FEAT_PMUv3p4, reset=_reset)
    RES0_21_20 = Res0(21, 20)
    PMSELR_EL0 = Field(19, when=Feature.FEAT_PMUv3, reset=_reset)
    PMOVS = Field(18, when=Feature.FEAT_PMUv3, reset=_reset)
    PMINTEN = Field(17, when=Feature.FEAT_PMUv3, reset=_reset)
    PMCNTEN = Field(16, when=Feature.FEAT_PMUv3, reset=_reset)
    PMCCNTR_EL0 = Field(15, when=Feature.FEAT_PMUv3, reset=_reset)
    PMCCFILTR_EL0 = Field(14, when=Feature.FEAT_PMUv3, reset=_reset)
    PMEVTYPERn_EL0 = Field(13, when=Feature.FEAT_PMUv3, reset=_reset)
    PMEVCNTRn_EL0 = Field(12, when=Feature.FEAT_PMUv3, reset=_reset)
    OSDLR_EL1 = Field(11, reset=_reset)
    OSECCR_EL1 = Field(10, reset=_reset)
    OSLSR_EL1 = Field(9, reset=_reset)
    RES0_8 = Res0(8)
    DBGPRCR_EL1 = Field(7, reset=_reset)
    DBGAUTHSTATUS_EL1 = Field(6, reset=_reset)
    DBGCLAIM = Field(5, reset=_reset)
    MDSCR_EL1 = Field(4, reset=_reset)
    DBGWVRn_EL1 = Field(3, reset=_reset)
    DBGWCRn_EL1 = Field(2, reset=_reset)
    DBGBVRn_EL1 = Field(1, reset=_reset)
    DBGBCRn_EL1 = Field(0, reset=_reset)


class HDFGWTR_EL2(FineGrainedTraps, op=(3, 4, 3, 1, 5), when=_FGT):
    """Hypervisor Debug Fine-Grained Write Trap Register."""

    RES0_63 = Res0(63)
    nPMSNEVFR_EL1 = Field(62, when=Feature.FEAT_SPE_FnE, reset=_reset)
    RES0_61_58 = Res0(61, 58)
    PMUSERENR_EL0 = Field(57, when=Feature.FEAT_PMUv3, reset=_reset)
    RES0_56_33 = Res0(56, 33)
    PMSLATFR_EL1 = Field(32, when=Feature.FEAT_SPE, reset=_reset)
    PMSIRR_EL1 = Field(31, when=Feature.FEAT_SPE, reset=_reset)
    RES0_30 = Res0(30)
    PMSICR_EL1 = Field(29, when=Feature.FEAT_SPE, reset=_reset)
    PMSFCR_EL1 = Field(28, when=Feature.FEAT_SPE, reset=_reset)
    PMSEVFR_EL1 = Field(27, when=Feature.FEAT_SPE, reset=_reset)
    PMSCR_EL1 = Field(26, when=Feature.FEAT_SPE, reset=_reset)
    PMBSR_EL1 = Field(25, when=Feature.FEAT_SPE, reset=_reset)
    PMBPTR_EL1 = Field(24, when=Feature.FEAT_SPE, reset=_reset)
    PMBLIMITR_EL1 = Field(23, when=Feature.FEAT_SPE, reset=_reset)
    RES0_22 = Res0(22)
    PMCR_EL0 = Field(21, when=Feature.FEAT_PMUv3, reset=_reset)
    PMSWINC_EL0 = Field(20, when=Feature.FEAT_PMUv3, reset=_reset)
    PMSELR_EL0 = Field(19, when=Feature.FEAT_PMUv3, reset=_reset)
    PMOVS = Field(18, when=Feature.FEAT_PMUv3, reset=_reset)
    PMINTEN = Field(17, when=Feature.FEAT_PMUv3, reset=_reset)
    PMCNTEN = Field(16, when=Feature.FEAT_PMUv3, reset=_reset)
    PMCCNTR_EL0 = Field(15, when=Feature.FEAT_PMUv3, reset=_reset)
    PMCCFILTR_EL0 = Field(14, when=Feature.FEAT_PMUv3, reset=_reset)
    PMEVTYPERn_EL0 = Field(13, when=Feature.FEAT_PMUv3, reset=_reset)
    PMEVCNTRn_EL0 = Field(12, when=Feature.FEAT_PMUv3, reset=_reset)
    OSDLR_EL1 = Field(11, reset=_reset)
    OSECCR_EL1 = Field(10, reset=_reset)
    RES0_9 = Res0(9)
    OSLAR_EL1 = Field(8, reset=_reset)
    DBGPRCR_EL1 = Field(7, reset=_reset)
    RES0_6 = Res0(6)
    DBGCLAIM = Field(5, reset=_reset)
    MDSCR_EL1 = Field(4, reset=_reset)
    DBGWVRn_EL1 = Field(3, reset=_reset)
    DBGWCRn_EL1 = Field(2, reset=_reset)
    DBGBVRn_EL1 = Field(1, reset=_reset)
    DBGBCRn_EL1 = Field(0, reset=_reset)


class HFGRTR2_EL2(FineGrainedTraps, op=(3, 4, 3, 1, 2), when=_FGT2):
    """Hypervisor Fine-Grained Read Trap Register 2; kept, without effect."""

    VALUE = Field(63, 0, reset=_reset)


class HFGWTR2_EL2(FineGrainedTraps, op=(3, 4, 3, 1, 3), when=_FGT2):
    """Hypervisor Fine-Grained Write Trap Register 2; kept, without effect."""

    VALUE = Field(63, 0, reset=_reset)


class HFGITR2_EL2(FineGrainedTraps, op=(3, 4, 3, 1, 7), when=_FGT2):
    """Hypervisor Fine-Grained Instruction Trap Register 2; kept, without effect."""

    VALUE = Field(63, 0, reset=_reset)


FGT_REGISTERS: tuple[type[SysReg], ...] = (
    HFGRTR_EL2,
    HFGWTR_EL2,
    HFGITR_EL2,
    HDFGRTR2_EL2,
    HDFGWTR2_EL2,
    HDFGRTR_EL2,
    HDFGWTR_EL2,
    HFGRTR2_EL2,
    HFGWTR2_EL2,
    HFGITR2_EL2,
)
"""All of them."""
