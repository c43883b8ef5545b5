"""The system registers that steer SPE, and those of the PE around it.

They are those of exceptions, translation, context and timers; the fine-grained traps are in
``arch.registers.fgt``, the ID registers in ``arch.registers.id``.

Fields whose features no core here can have are plain storage under their names; where a value
lives, in our cells or in the engine's, is the host's business.
"""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features, ImpDef, every, lacks, some
from spe_unicorn.arch.registers.fgt import FGT_REGISTERS
from spe_unicorn.arch.registers.highest import zero_if_el2_is_highest
from spe_unicorn.arch.registers.id import ID_REGISTERS
from spe_unicorn.arch.registers.roles import Affects, Owner
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Register, Res0, Res1

_EL2 = Feature.FEAT_EL2
_EL3 = Feature.FEAT_EL3
_WALKS = Affects.TRANSLATION | Affects.BUFFER
_EVERYTHING = _WALKS | Affects.CHECKS | Affects.TRAPS | Affects.PROFILING


class SCTLR(SysReg):
    """What the System Control Registers share, as EL1 and EL2&0 see it."""

    __slots__ = ()

    TIDCP = Field(63)
    SPINTMASK = Field(62)
    NMI = Field(61, reset=0)
    EnTP2 = Field(60)
    TCSO = Field(59)
    TCSO0 = Field(58)
    EPAN = Field(57)
    EnALS = Field(56)
    EnAS0 = Field(55)
    EnASR = Field(54)
    TME = Field(53)
    TME0 = Field(52)
    TMT = Field(51)
    TMT0 = Field(50)
    TWEDEL = Field(49, 46)
    TWEDEn = Field(45)
    DSSBS = Field(44, when=Feature.FEAT_SSBS)
    ATA = Field(43)
    ATA0 = Field(42)
    TCF = Field(41, 40)
    TCF0 = Field(39, 38)
    ITFSB = Field(37)
    BT1 = Field(36)
    BT0 = Field(35)
    EnFPM = Field(34)
    MSCEn = Field(33)
    CMOW = Field(32)
    EnIA = Field(31)
    EnIB = Field(30)
    LSMAOE = Field(29)
    nTLSMD = Field(28)
    EnDA = Field(27)
    UCI = Field(26)
    EE = Field(25, reset=0)
    E0E = Field(24)
    SPAN = Field(23)
    EIS = Field(22)
    IESB = Field(21)
    TSCXT = Field(20)
    WXN = Field(19)
    nTWE = Field(18)
    RES0_17 = Res0(17)
    nTWI = Field(16)
    UCT = Field(15)
    DZE = Field(14)
    EnDB = Field(13)
    I = Field(12, reset=0)
    EOS = Field(11)
    EnRCTX = Field(10)
    UMA = Field(9)
    SED = Field(8)
    ITD = Field(7)
    nAA = Field(6)
    CP15BEN = Field(5)
    SA0 = Field(4)
    SA = Field(3)
    C = Field(2, reset=0)
    A = Field(1)
    M = Field(0, reset=0)


class SCTLR_EL1(SCTLR, op=(3, 0, 1, 0, 0), affects=_WALKS | Affects.CHECKS):
    """System Control Register (EL1)."""

    __slots__ = ()


class CPACR_EL1(SysReg, op=(3, 0, 1, 0, 2), affects=Affects.TRAPS):
    """Architectural Feature Access Control Register."""

    RES0_63_32 = Res0(63, 32)
    TCPAC = Field(31)
    TAM = Field(30)
    E0POE = Field(29)
    TTA = Field(28)
    RES0_27_26 = Res0(27, 26)
    SMEN = Field(25, 24)
    RES0_23_22 = Res0(23, 22)
    FPEN = Field(21, 20)
    RES0_19_18 = Res0(19, 18)
    ZEN = Field(17, 16)
    RES0_15_0 = Res0(15, 0)


class SCTLR_EL2(SCTLR, op=(3, 4, 1, 0, 0), when=_EL2, affects=_WALKS | Affects.CHECKS):
    """System Control Register (EL2), its fields as with HCR_EL2.E2H set."""

    __slots__ = ()


class HCR_EL2(
    SysReg,
    op=(3, 4, 1, 1, 0),
    when=_EL2,
    affects=_EVERYTHING,
    owner=Owner.SPLIT,
    kept=("TEA", "NV", "NV1", "NV2", "GPF", "ATA", "DCT", "TID5"),
    withheld=("VI", "VF"),
):
    """Hypervisor Configuration Register."""

    TWEDEL = Field(63, 60, reset=zero_if_el2_is_highest)
    TWEDEn = Field(59, reset=zero_if_el2_is_highest)
    TID5 = Field(58, when=Feature.FEAT_MTE2, reset=zero_if_el2_is_highest)
    DCT = Field(57, when=Feature.FEAT_MTE2, reset=zero_if_el2_is_highest)
    ATA = Field(
        56,
        when=Feature.FEAT_MTE2,
        reset=zero_if_el2_is_highest,
        doc="EL1 and EL0 may access Allocation Tags.",
    )
    TTLBOS = Field(55, reset=zero_if_el2_is_highest)
    TTLBIS = Field(54, reset=zero_if_el2_is_highest)
    EnSCXT = Field(53, reset=zero_if_el2_is_highest)
    TOCU = Field(52, reset=zero_if_el2_is_highest)
    AMVOFFEN = Field(51, reset=zero_if_el2_is_highest)
    TICAB = Field(50, reset=zero_if_el2_is_highest)
    TID4 = Field(49, reset=zero_if_el2_is_highest)
    GPF = Field(
        48,
        when=Feature.FEAT_RME,
        reset=zero_if_el2_is_highest,
        doc="Granule protection faults go to EL2.",
    )
    FIEN = Field(47, reset=zero_if_el2_is_highest)
    FWB = Field(46, reset=zero_if_el2_is_highest)
    NV2 = Field(
        45,
        when=Feature.FEAT_NV2,
        reset=zero_if_el2_is_highest,
        doc="Nested hypervisor: accesses go to memory at VNCR_EL2.",
    )
    AT = Field(44, when=Feature.FEAT_NV, reset=zero_if_el2_is_highest)
    NV1 = Field(
        43,
        when=Feature.FEAT_NV,
        reset=zero_if_el2_is_highest,
        doc="Nested hypervisor with HCR_EL2.E2H clear.",
    )
    NV = Field(
        42,
        when=Feature.FEAT_NV,
        reset=zero_if_el2_is_highest,
        doc="Nested hypervisor: registers of EL2 trap from EL1.",
    )
    API = Field(41, reset=zero_if_el2_is_highest)
    APK = Field(40, reset=zero_if_el2_is_highest)
    TME = Field(39, reset=zero_if_el2_is_highest)
    MIOCNCE = Field(38, reset=zero_if_el2_is_highest)
    TEA = Field(37, reset=zero_if_el2_is_highest, doc="External aborts go to EL2.")
    TERR = Field(36, reset=zero_if_el2_is_highest)
    TLOR = Field(35, reset=zero_if_el2_is_highest)
    E2H = Field(
        34,
        when=Feature.FEAT_VHE,
        reset=zero_if_el2_is_highest,
        doc="Host at EL2: EL1 names reach registers of EL2.",
    )
    ID = Field(33, reset=zero_if_el2_is_highest)
    CD = Field(32, reset=zero_if_el2_is_highest)
    RW = Field(31, reset=1, doc="EL1 is in AArch64 state, the only one there is.")
    TRVM = Field(30, reset=zero_if_el2_is_highest)
    HCD = Field(29, reset=zero_if_el2_is_highest)
    TDZ = Field(28, reset=zero_if_el2_is_highest)
    TGE = Field(27, reset=zero_if_el2_is_highest, doc="EL0 belongs to EL2.")
    TVM = Field(26, reset=zero_if_el2_is_highest)
    TTLB = Field(25, reset=zero_if_el2_is_highest)
    TPU = Field(24, reset=zero_if_el2_is_highest)
    TPCP = Field(23, reset=zero_if_el2_is_highest)
    TSW = Field(22, reset=zero_if_el2_is_highest)
    TACR = Field(21, reset=zero_if_el2_is_highest)
    TIDCP = Field(20, reset=zero_if_el2_is_highest)
    TSC = Field(19, reset=zero_if_el2_is_highest)
    TID3 = Field(18, reset=zero_if_el2_is_highest, doc="Trap ID registers from EL1.")
    TID2 = Field(17, reset=zero_if_el2_is_highest)
    TID1 = Field(16, reset=zero_if_el2_is_highest)
    TID0 = Field(15, reset=zero_if_el2_is_highest)
    TWE = Field(14, reset=zero_if_el2_is_highest)
    TWI = Field(13, reset=zero_if_el2_is_highest)
    DC = Field(
        12, reset=zero_if_el2_is_highest, doc="Default cacheability: stage 1 off, Normal memory."
    )
    BSU = Field(11, 10, reset=zero_if_el2_is_highest)
    FB = Field(9, reset=zero_if_el2_is_highest)
    VSE = Field(8, reset=zero_if_el2_is_highest)
    VI = Field(7, reset=zero_if_el2_is_highest)
    VF = Field(6, reset=zero_if_el2_is_highest)
    AMO = Field(5, reset=zero_if_el2_is_highest)
    IMO = Field(4, reset=zero_if_el2_is_highest)
    FMO = Field(3, reset=zero_if_el2_is_highest)
    PTW = Field(2, reset=zero_if_el2_is_highest)
    SWIO = Field(1, reset=zero_if_el2_is_highest)
    VM = Field(0, reset=zero_if_el2_is_highest, doc="Stage 2 translation.")


class MDCR_EL2(SysReg, op=(3, 4, 1, 1, 1), when=_EL2, affects=Affects.PROFILING | Affects.BUFFER):
    """Monitor Debug Configuration Register (EL2)."""

    RES0_63_51 = Res0(63, 51)
    EnSTEPOP = Field(50)
    RES0_49_44 = Res0(49, 44)
    EBWE = Field(43, reset=zero_if_el2_is_highest)
    RES0_42 = Res0(42)
    PMEE = Field(41, 40, when=Feature.FEAT_EBEP, reset=zero_if_el2_is_highest)
    RES0_39_37 = Res0(39, 37)
    HPMFZS = Field(
        36,
        when=every(Feature.FEAT_SPEv1p2, Feature.FEAT_PMUv3p7),
        doc="Stop counters from HPMN on when SPE stops.",
    )
    RES0_35_32 = Res0(35, 32)
    PMSSE = Field(31, 30, reset=zero_if_el2_is_highest)
    HPMFZO = Field(29, when=Feature.FEAT_PMUv3p7)
    MTPME = Field(28, when=lacks(_EL3), reset=1)
    TDCC = Field(27)
    HLP = Field(26, when=Feature.FEAT_PMUv3p5)
    E2TB = Field(25, 24)
    HCCD = Field(23, when=Feature.FEAT_PMUv3p5, reset=0, doc="The cycle counter stops at EL2.")
    RES0_22_20 = Res0(22, 20)
    TTRF = Field(19)
    RES0_18 = Res0(18)
    HPMD = Field(17, when=Feature.FEAT_PMUv3p1, reset=0, doc="Counters below HPMN stop at EL2.")
    RES0_16 = Res0(16)
    EnSPM = Field(15)
    TPMS = Field(14, when=Feature.FEAT_SPE, doc="Trap sampling controls from EL1.")
    E2PB = Field(
        13,
        12,
        when=Feature.FEAT_SPE,
        doc="Profiling Buffer: 0 is EL2's; 2 EL1's, trapped; 3 EL1's.",
    )
    TDRA = Field(11)
    TDOSA = Field(10)
    TDA = Field(9)
    TDE = Field(8)
    HPME = Field(7, when=Feature.FEAT_PMUv3)
    TPM = Field(6, when=Feature.FEAT_PMUv3, doc="Trap PMU registers from EL1 and EL0.")
    TPMCR = Field(5, when=Feature.FEAT_PMUv3, doc="Trap PMCR_EL0 from EL1 and EL0.")
    HPMN = Field(4, 0, when=Feature.FEAT_PMUv3, doc="Number of event counters that EL1 may use.")


class CPTR_EL2(SysReg, op=(3, 4, 1, 1, 2), when=_EL2, affects=Affects.TRAPS):
    """Architectural Feature Trap Register (EL2); two layouts, by HCR_EL2.E2H."""

    VALUE = Field(63, 0)


class SCTLR_EL3(SCTLR, op=(3, 6, 1, 0, 0), when=_EL3, affects=Affects.TRANSLATION | Affects.CHECKS):
    """System Control Register (EL3)."""

    __slots__ = ()


class SCR_EL3(
    SysReg,
    op=(3, 6, 1, 1, 0),
    when=_EL3,
    affects=_EVERYTHING,
    owner=Owner.SPLIT,
    kept=("FGTEn", "ECVEn", "FGTEn2", "NSE", "ATA", "HXEn"),
):
    """Secure Configuration Register."""

    RES0_63 = Res0(63)
    NSE = Field(62, when=Feature.FEAT_RME, doc="With NS: 1 is Realm state.")
    HACDBSEn = Field(61)
    HDBSSEn = Field(60)
    FGTEn2 = Field(
        59,
        when=Feature.FEAT_FGT2,
        doc="HDFGRTR2_EL2 and its like have effect; at 0 what they guard traps.",
    )
    EnDSE = Field(58)
    DSE = Field(57)
    RES0_56 = Res0(56)
    EnIDCP128 = Field(55)
    SRMASKEn = Field(54)
    PFAREn = Field(53)
    TWERR = Field(52)
    TMEA = Field(51)
    EnFPM = Field(50)
    MECEn = Field(49)
    GPF = Field(48, when=Feature.FEAT_RME, doc="Granule protection faults go to EL3.")
    D128En = Field(47)
    AIEn = Field(46)
    PIEn = Field(45)
    SCTLR2En = Field(44)
    TCR2En = Field(43)
    RCWMASKEn = Field(42)
    EnTP2 = Field(41)
    TRNDR = Field(40, reset=0)
    GCSEn = Field(39)
    HXEn = Field(38, when=Feature.FEAT_HCX, doc="HCRX_EL2 has effect, and EL2 has it.")
    ADEn = Field(37)
    EnAS0 = Field(36)
    AMVOFFEN = Field(35)
    TME = Field(34)
    TWEDEL = Field(33, 30)
    TWEDEn = Field(29)
    ECVEn = Field(28, when=Feature.FEAT_ECV, doc="CNTPOFF_EL2 has effect.")
    FGTEn = Field(27, when=Feature.FEAT_FGT, doc="HDFGRTR_EL2 and its like have effect.")
    ATA = Field(26, when=Feature.FEAT_MTE2, doc="Lower levels may access Allocation Tags.")
    EnSCXT = Field(25)
    RES0_24_22 = Res0(24, 22)
    FIEN = Field(21)
    NMEA = Field(20, reset=0)
    EASE = Field(19, reset=0)
    EEL2 = Field(18, when=Feature.FEAT_SEL2, doc="Secure EL2 is enabled.")
    API = Field(17)
    APK = Field(16)
    TERR = Field(15)
    TLOR = Field(14)
    TWE = Field(13)
    TWI = Field(12)
    ST = Field(11)
    RW = Field(10, reset=1, doc="The next level is in AArch64 state, the only one there is.")
    SIF = Field(9)
    HCE = Field(8)
    SMD = Field(7)
    RES0_6 = Res0(6)
    RES1_5_4 = Res1(5, 4)
    EA = Field(3, doc="External aborts go to EL3.")
    FIQ = Field(2)
    IRQ = Field(1)
    NS = Field(0, doc="Security state below EL3: 0 Secure, 1 Non-secure.")


class CPTR_EL3(SysReg, op=(3, 6, 1, 1, 2), when=_EL3, affects=Affects.TRAPS):
    """Architectural Feature Trap Register (EL3)."""

    RES0_63_32 = Res0(63, 32)
    TCPAC = Field(31)
    TAM = Field(30)
    RES0_29_21 = Res0(29, 21)
    TTA = Field(20)
    RES0_19_13 = Res0(19, 13)
    ESM = Field(12)
    RES0_11 = Res0(11)
    TFP = Field(10)
    RES0_9 = Res0(9)
    EZ = Field(8)
    RES0_7_0 = Res0(7, 0)


class MDCR_EL3(SysReg, op=(3, 6, 1, 3, 1), when=_EL3, affects=Affects.PROFILING | Affects.BUFFER):
    """Monitor Debug Configuration Register (EL3)."""

    RES0_63_56 = Res0(63, 56)
    EnPMS4 = Field(55, when=Feature.FEAT_SPE_nVM, doc="0: trap PMBMAR_EL1.")
    TRBEE = Field(54, 53, reset=0)
    PMSEE = Field(
        52,
        51,
        when=Feature.FEAT_SPE_EXC,
        reset=0,
        doc="SPE Profiling exceptions of EL3, and whether EL2 may have its own.",
    )
    EnSTEPOP = Field(50)
    ETBAD = Field(49, 48, reset=0)
    EnITE = Field(47)
    EPMSSAD = Field(46, 45, reset=0)
    EnPMSS = Field(44)
    EBWE = Field(43, reset=0)
    EnPMS3 = Field(42, when=Feature.FEAT_SPE_FDS, doc="0: trap PMSDSFR_EL1.")
    PMEE = Field(41, 40, when=Feature.FEAT_EBEP, reset=0)
    EnTB2 = Field(39)
    E3BREC = Field(38, reset=0)
    E3BREW = Field(37, reset=0)
    EnPMSN = Field(36, when=Feature.FEAT_SPE_FnE, doc="0: trap PMSNEVFR_EL1.")
    MPMX = Field(35, when=Feature.FEAT_PMUv3p7, reset=0)
    MCCD = Field(34, when=Feature.FEAT_PMUv3p7, reset=0)
    SBRBE = Field(33, 32)
    PMSSE = Field(31, 30, reset=0)
    RES0_29 = Res0(29)
    MTPME = Field(28, reset=1)
    TDCC = Field(27)
    NSTBE = Field(26)
    NSTB = Field(25, 24)
    SCCD = Field(23, when=Feature.FEAT_PMUv3p5, reset=0)
    ETAD = Field(22, reset=0)
    EPMAD = Field(21, reset=0)
    EDAD = Field(20, reset=0)
    TTRF = Field(19)
    STE = Field(18, reset=0)
    SPME = Field(17, when=Feature.FEAT_PMUv3, reset=0)
    SDD = Field(16)
    SPD32 = Field(15, 14)
    NSPB = Field(
        13,
        12,
        when=Feature.FEAT_SPE,
        doc="With NSPBE, whose the Profiling Buffer is: 1 Secure, 3 Non-secure; 0 and 2 trap all.",
    )
    NSPBE = Field(
        11,
        when=every(Feature.FEAT_SPE, Feature.FEAT_RME),
        doc="With NSPB: 1 gives the Profiling Buffer to Realm state.",
    )
    TDOSA = Field(10)
    TDA = Field(9)
    RES0_8 = Res0(8)
    EnPM2 = Field(7, when=some(Feature.FEAT_PMUv3p9, Feature.FEAT_PMUv3_ICNTR, Feature.FEAT_EBEP))
    TPM = Field(6, when=Feature.FEAT_PMUv3)
    RES0_5 = Res0(5)
    EDADE = Field(4, reset=0)
    ETADE = Field(3, reset=0)
    EPMADE = Field(2, reset=0)
    RES0_1 = Res0(1)
    RLTE = Field(0, reset=0)


class TTBR(SysReg):
    """What the Translation Table Base Registers share."""

    __slots__ = ()

    ASID = Field(63, 48)
    BADDR = Field(47, 1)
    CnP = Field(0)


class TTBR0_EL1(TTBR, op=(3, 0, 2, 0, 0), affects=_WALKS):
    """Translation Table Base Register 0 (EL1)."""

    __slots__ = ()


class TTBR1_EL1(TTBR, op=(3, 0, 2, 0, 1), affects=_WALKS):
    """Translation Table Base Register 1 (EL1)."""

    __slots__ = ()


class TCR(SysReg):
    """What TCR_EL1 and, with HCR_EL2.E2H set, TCR_EL2 share."""

    __slots__ = ()

    RES0_63_62 = Res0(63, 62)
    MTX1 = Field(61)
    MTX0 = Field(60)
    DS = Field(59)
    TCMA1 = Field(58)
    TCMA0 = Field(57)
    E0PD1 = Field(56)
    E0PD0 = Field(55)
    NFD1 = Field(54)
    NFD0 = Field(53)
    TBID1 = Field(52)
    TBID0 = Field(51)
    HWU1 = Field(50, 47)
    HWU0 = Field(46, 43)
    HPD1 = Field(42)
    HPD0 = Field(41)
    HD = Field(40)
    HA = Field(39)
    TBI1 = Field(38)
    TBI0 = Field(37)
    AS = Field(36)
    RES0_35 = Res0(35)
    IPS = Field(34, 32)
    TG1 = Field(31, 30)
    SH1 = Field(29, 28)
    ORGN1 = Field(27, 26)
    IRGN1 = Field(25, 24)
    EPD1 = Field(23)
    A1 = Field(22)
    T1SZ = Field(21, 16)
    TG0 = Field(15, 14)
    SH0 = Field(13, 12)
    ORGN0 = Field(11, 10)
    IRGN0 = Field(9, 8)
    EPD0 = Field(7)
    RES0_6 = Res0(6)
    T0SZ = Field(5, 0)


class TCR_EL1(TCR, op=(3, 0, 2, 0, 2), affects=_WALKS):
    """Translation Control Register (EL1)."""

    __slots__ = ()


class TTBR0_EL2(TTBR, op=(3, 4, 2, 0, 0), when=_EL2, affects=_WALKS):
    """Translation Table Base Register 0 (EL2)."""

    __slots__ = ()


class TTBR1_EL2(TTBR, op=(3, 4, 2, 0, 1), when=every(_EL2, Feature.FEAT_VHE), affects=_WALKS):
    """Translation Table Base Register 1 (EL2)."""

    __slots__ = ()


class TCR_EL2(TCR, op=(3, 4, 2, 0, 2), when=_EL2, affects=_WALKS):
    """Translation Control Register (EL2), its fields as with HCR_EL2.E2H set."""

    __slots__ = ()


class VTTBR_EL2(SysReg, op=(3, 4, 2, 1, 0), when=_EL2, affects=_WALKS):
    """Virtualization Translation Table Base Register."""

    VMID = Field(63, 48)
    BADDR = Field(47, 1)
    CnP = Field(0)


class VTCR_EL2(SysReg, op=(3, 4, 2, 1, 2), when=_EL2, affects=_WALKS):
    """Virtualization Translation Control Register."""

    RES0_63_46 = Res0(63, 46)
    HDBSS = Field(45)
    HAFT = Field(44)
    RES0_43_42 = Res0(43, 42)
    TL0 = Field(41)
    GCSH = Field(40)
    RES0_39 = Res0(39)
    D128 = Field(38)
    S2POE = Field(37)
    S2PIE = Field(36)
    TL1 = Field(35)
    AssuredOnly = Field(34)
    SL2 = Field(33)
    DS = Field(32)
    RES1_31 = Res1(31)
    NSA = Field(30)
    NSW = Field(29)
    HWU = Field(28, 25)
    RES0_24_23 = Res0(24, 23)
    HD = Field(22)
    HA = Field(21)
    RES0_20 = Res0(20)
    VS = Field(19)
    PS = Field(18, 16)
    TG0 = Field(15, 14)
    SH0 = Field(13, 12)
    ORGN0 = Field(11, 10)
    IRGN0 = Field(9, 8)
    SL0 = Field(7, 6)
    T0SZ = Field(5, 0)


class HCRX_EL2(
    SysReg,
    op=(3, 4, 1, 2, 2),
    when=every(_EL2, Feature.FEAT_HCX),
    affects=Affects.TRAPS,
    owner=Owner.HOST,
):
    """Extended Hypervisor Configuration Register."""

    RES0_63_12 = Res0(63, 12)
    MSCEn = Field(
        11,
        when=Feature.FEAT_MOPS,
        reset=zero_if_el2_is_highest,
        doc="EL1 and EL0 may copy and set memory.",
    )
    MCE2 = Field(
        10,
        when=Feature.FEAT_MOPS,
        reset=zero_if_el2_is_highest,
        doc="Memory Copy and Memory Set exceptions of EL1 go to EL2.",
    )
    RES0_9_5 = Res0(9, 5)
    FGTnXS = Field(
        4,
        when=Feature.FEAT_XS,
        reset=zero_if_el2_is_highest,
        doc="HFGITR_EL2 traps no TLB maintenance with nXS.",
    )
    FnXS = Field(
        3,
        when=Feature.FEAT_XS,
        reset=zero_if_el2_is_highest,
        doc="TLB maintenance and DSB of EL1 are as those with nXS, which are the same here.",
    )
    RES0_2 = Res0(2)
    EnALS = Field(
        1,
        when=Feature.FEAT_LS64,
        reset=zero_if_el2_is_highest,
        doc="EL1 and EL0 may load and store 64 bytes.",
    )
    RES0_0 = Res0(0)


class VNCR_EL2(SysReg, op=(3, 4, 2, 2, 0), when=every(_EL2, Feature.FEAT_NV2), owner=Owner.HOST):
    """Virtual Nested Control Register; BADDR takes the sign bits above it, too."""

    BADDR = Field(63, 12)
    RES0_11_0 = Res0(11, 0)


class VSTTBR_EL2(
    SysReg,
    op=(3, 4, 2, 6, 0),
    when=every(_EL2, Feature.FEAT_SEL2),
    affects=Affects.BUFFER,
    owner=Owner.HOST,
):
    """Virtualization Secure Translation Table Base Register."""

    RES0_63_48 = Res0(63, 48)
    BADDR = Field(47, 1)
    CnP = Field(0)


class VSTCR_EL2(
    SysReg,
    op=(3, 4, 2, 6, 2),
    when=every(_EL2, Feature.FEAT_SEL2),
    affects=Affects.BUFFER,
    owner=Owner.HOST,
):
    """Virtualization Secure Translation Control Register."""

    RES0_63_34 = Res0(63, 34)
    SL2 = Field(33)
    DS = Field(32)
    RES1_31 = Res1(31)
    SA = Field(30)
    SW = Field(29)
    HWU = Field(28, 25)
    RES0_24_16 = Res0(24, 16)
    TG0 = Field(15, 14)
    RES0_13_8 = Res0(13, 8)
    SL0 = Field(7, 6)
    T0SZ = Field(5, 0)


class TTBR0_EL3(SysReg, op=(3, 6, 2, 0, 0), when=_EL3, affects=Affects.TRANSLATION):
    """Translation Table Base Register 0 (EL3)."""

    RES0_63_48 = Res0(63, 48)
    BADDR = Field(47, 1)
    CnP = Field(0)


class TCR_EL3(SysReg, op=(3, 6, 2, 0, 2), when=_EL3, affects=Affects.TRANSLATION):
    """Translation Control Register (EL3)."""

    RES0_63_34 = Res0(63, 34)
    MTX = Field(33)
    DS = Field(32)
    RES1_31 = Res1(31)
    TCMA = Field(30)
    TBID = Field(29)
    HWU = Field(28, 25)
    HPD = Field(24)
    RES1_23 = Res1(23)
    HD = Field(22)
    HA = Field(21)
    TBI = Field(20)
    RES0_19 = Res0(19)
    PS = Field(18, 16)
    TG0 = Field(15, 14)
    SH0 = Field(13, 12)
    ORGN0 = Field(11, 10)
    IRGN0 = Field(9, 8)
    RES0_7_6 = Res0(7, 6)
    T0SZ = Field(5, 0)


class PM(SysReg, op=(3, 0, 4, 3, 1), when=Feature.FEAT_EBEP, owner=Owner.HOST):
    """PSTATE.PM: profiling exceptions are masked at their own Exception level."""

    RES0_63_33 = Res0(63, 33)
    PM = Field(32, doc="Profiling exceptions to this Exception level stay pending.")
    RES0_31_0 = Res0(31, 0)


class SSBS(SysReg, op=(3, 3, 4, 2, 6), when=Feature.FEAT_SSBS2, owner=Owner.HOST):
    """PSTATE.SSBS: loads and stores may bypass each other speculatively. Nothing here does."""

    RES0_63_13 = Res0(63, 13)
    SSBS = Field(12, reset=0, doc="Speculative Store Bypass Safe.")
    RES0_11_0 = Res0(11, 0)


class DIT(SysReg, op=(3, 3, 4, 2, 5), when=Feature.FEAT_DIT, owner=Owner.HOST):
    """PSTATE.DIT: Data Independent Timing. Here no timing depends on data."""

    RES0_63_25 = Res0(63, 25)
    DIT = Field(24, reset=0, doc="Data Independent Timing.")
    RES0_23_0 = Res0(23, 0)


class TCO(SysReg, op=(3, 3, 4, 2, 7), when=Feature.FEAT_MTE, owner=Owner.HOST):
    """PSTATE.TCO: loads and stores are not tag checked.

    Without FEAT_MTE2 nothing is, and of what Arm allows this reads as 0 and ignores writes.
    """

    RES0_63_26 = Res0(63, 26)
    TCO = Field(25, when=Feature.FEAT_MTE2, reset=1, doc="Tag Check Override.")
    RES0_24_0 = Res0(24, 0)


class GCR_EL1(SysReg, op=(3, 0, 1, 0, 6), when=Feature.FEAT_MTE2, owner=Owner.HOST):
    """Tag Control Register."""

    RES0_63_17 = Res0(63, 17)
    RRND = Field(16, doc="IRG chooses by the implementation's own way, and not by RGSR_EL1.")
    Exclude = Field(15, 0, doc="Allocation Tags that are not chosen, a bit each.")


class RGSR_EL1(SysReg, op=(3, 0, 1, 0, 5), when=Feature.FEAT_MTE2, owner=Owner.HOST):
    """Random Allocation Tag Seed Register."""

    RES0_63_24 = Res0(63, 24)
    SEED = Field(23, 8, doc="What the next random tag is drawn from.")
    RES0_7_4 = Res0(7, 4)
    TAG = Field(3, 0, doc="The tag that IRG has chosen last.")


class GMID_EL1(
    SysReg, op=(3, 1, 0, 0, 4), when=Feature.FEAT_MTE2, owner=Owner.HOST, read_only=True
):
    """Multiple tag transfer ID register."""

    RES0_63_4 = Res0(63, 4)
    BS = ReadOnly(3, 0, reset=4, doc="LDGM and STGM transfer the tags of 4 << BS bytes.")


class TFSR(SysReg):
    """What the Tag Fault Status Registers of EL0, EL1 and EL2 share."""

    __slots__ = ()

    RES0_63_2 = Res0(63, 2)
    TF1 = Field(1, doc="A tag check failed asynchronously, of an address with bit 55 set.")
    TF0 = Field(0, doc="A tag check failed asynchronously, of an address with bit 55 clear.")


class TFSR_EL1(TFSR, op=(3, 0, 5, 6, 0), when=Feature.FEAT_MTE2, owner=Owner.HOST):
    """Tag Fault Status Register (EL1)."""

    __slots__ = ()


class TFSRE0_EL1(TFSR, op=(3, 0, 5, 6, 1), when=Feature.FEAT_MTE2, owner=Owner.HOST):
    """Tag Fault Status Register (EL0)."""

    __slots__ = ()


class TFSR_EL2(TFSR, op=(3, 4, 5, 6, 0), when=Feature.FEAT_MTE2, owner=Owner.HOST):
    """Tag Fault Status Register (EL2), its fields as with HCR_EL2.E2H set."""

    __slots__ = ()

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """RES0 from EL3 without EL2."""
        return int(cls.TF1.mask | cls.TF0.mask) if Feature.FEAT_EL2 in features else 0


class TFSR_EL3(SysReg, op=(3, 6, 5, 6, 0), when=every(_EL3, Feature.FEAT_MTE2), owner=Owner.HOST):
    """Tag Fault Status Register (EL3)."""

    RES0_63_1 = Res0(63, 1)
    TF0 = Field(0, doc="A tag check failed asynchronously.")


class SPSR(SysReg):
    """What the Saved Program Status Registers share: PSTATE in AArch64 state."""

    __slots__ = ()

    RES0_63_37 = Res0(63, 37)
    UINJ = Field(36)
    PACM = Field(35)
    EXLOCK = Field(34)
    PPEND = Field(33)
    PM = Field(32)
    N = Field(31)
    Z = Field(30)
    C = Field(29)
    V = Field(28)
    RES0_27_26 = Res0(27, 26)
    TCO = Field(25)
    DIT = Field(24)
    UAO = Field(23)
    PAN = Field(22)
    SS = Field(21)
    IL = Field(20)
    RES0_19_14 = Res0(19, 14)
    ALLINT = Field(13)
    SSBS = Field(12)
    BTYPE = Field(11, 10)
    D = Field(9)
    A = Field(8)
    I = Field(7)
    F = Field(6)
    RES0_5 = Res0(5)
    nRW = Field(4)
    M = Field(3, 0)


class SPSR_EL1(SPSR, op=(3, 0, 4, 0, 0), affects=Affects.RETURNS):
    """Saved Program Status Register (EL1)."""

    __slots__ = ()


class SPSR_EL2(SPSR, op=(3, 4, 4, 0, 0), when=_EL2, affects=Affects.RETURNS):
    """Saved Program Status Register (EL2)."""

    __slots__ = ()


class SPSR_EL3(SPSR, op=(3, 6, 4, 0, 0), when=_EL3, affects=Affects.RETURNS):
    """Saved Program Status Register (EL3)."""

    __slots__ = ()


class ELR_EL1(SysReg, op=(3, 0, 4, 0, 1)):
    """Exception Link Register (EL1)."""

    ADDR = Field(63, 0)


class ELR_EL2(SysReg, op=(3, 4, 4, 0, 1), when=_EL2):
    """Exception Link Register (EL2)."""

    ADDR = Field(63, 0)


class ELR_EL3(SysReg, op=(3, 6, 4, 0, 1), when=_EL3):
    """Exception Link Register (EL3)."""

    ADDR = Field(63, 0)


class ESR(SysReg):
    """What the Exception Syndrome Registers share."""

    __slots__ = ()

    RES0_63_56 = Res0(63, 56)
    ISS2 = Field(55, 32)
    EC = Field(31, 26)
    IL = Field(25)
    ISS = Field(24, 0)


class ESR_EL1(ESR, op=(3, 0, 5, 2, 0)):
    """Exception Syndrome Register (EL1)."""

    __slots__ = ()


class ESR_EL2(ESR, op=(3, 4, 5, 2, 0), when=_EL2):
    """Exception Syndrome Register (EL2)."""

    __slots__ = ()


class ESR_EL3(ESR, op=(3, 6, 5, 2, 0), when=_EL3):
    """Exception Syndrome Register (EL3)."""

    __slots__ = ()


class RNDR(SysReg, op=(3, 3, 2, 4, 0), read_only=True):
    """Random Number. Reading it draws one and clears PSTATE.NZCV, which says that it is one."""

    __slots__ = ()

    RNDR = ReadOnly(63, 0)


class RNDRRS(SysReg, op=(3, 3, 2, 4, 1), read_only=True):
    """Reseeded Random Number: the same, from a generator that has been reseeded."""

    __slots__ = ()

    RNDRRS = ReadOnly(63, 0)


class FAR_EL1(SysReg, op=(3, 0, 6, 0, 0)):
    """Fault Address Register (EL1)."""

    ADDR = Field(63, 0)


class FAR_EL2(SysReg, op=(3, 4, 6, 0, 0), when=_EL2):
    """Fault Address Register (EL2)."""

    ADDR = Field(63, 0)


class FAR_EL3(SysReg, op=(3, 6, 6, 0, 0), when=_EL3):
    """Fault Address Register (EL3)."""

    ADDR = Field(63, 0)


class HPFAR_EL2(SysReg, op=(3, 4, 6, 0, 4), when=_EL2):
    """Hypervisor IPA Fault Address Register."""

    NS = Field(63)
    RES0_62_48 = Res0(62, 48)
    FIPA = Field(47, 4)
    RES0_3_0 = Res0(3, 0)


class PAR_EL1(SysReg, op=(3, 0, 7, 4, 0)):
    """Physical Address Register."""

    VALUE = Field(63, 0)


class MAIR(SysReg):
    """What the Memory Attribute Indirection Registers share."""

    __slots__ = ()

    Attr7 = Field(63, 56)
    Attr6 = Field(55, 48)
    Attr5 = Field(47, 40)
    Attr4 = Field(39, 32)
    Attr3 = Field(31, 24)
    Attr2 = Field(23, 16)
    Attr1 = Field(15, 8)
    Attr0 = Field(7, 0)


class MAIR_EL1(MAIR, op=(3, 0, 10, 2, 0), affects=_WALKS):
    """Memory Attribute Indirection Register (EL1)."""

    __slots__ = ()


class MAIR_EL2(MAIR, op=(3, 4, 10, 2, 0), when=_EL2, affects=_WALKS):
    """Memory Attribute Indirection Register (EL2)."""

    __slots__ = ()


class MAIR_EL3(MAIR, op=(3, 6, 10, 2, 0), when=_EL3, affects=Affects.TRANSLATION):
    """Memory Attribute Indirection Register (EL3)."""

    __slots__ = ()


class ISR_EL1(SysReg, op=(3, 0, 12, 1, 0), read_only=True):
    """Interrupt Status Register: what is pending, physical or, to a guest that has it, virtual."""

    __slots__ = ()

    RES0_63_9 = Res0(63, 9)
    A = ReadOnly(8)
    I = ReadOnly(7)
    F = ReadOnly(6)
    RES0_5_0 = Res0(5, 0)


class VBAR_EL1(SysReg, op=(3, 0, 12, 0, 0)):
    """Vector Base Address Register (EL1)."""

    VBA = Field(63, 11)
    RES0_10_0 = Res0(10, 0)


class VBAR_EL2(SysReg, op=(3, 4, 12, 0, 0), when=_EL2):
    """Vector Base Address Register (EL2)."""

    VBA = Field(63, 11)
    RES0_10_0 = Res0(10, 0)


class VBAR_EL3(SysReg, op=(3, 6, 12, 0, 0), when=_EL3):
    """Vector Base Address Register (EL3)."""

    VBA = Field(63, 11)
    RES0_10_0 = Res0(10, 0)


class CONTEXTIDR_EL1(SysReg, op=(3, 0, 13, 0, 1), affects=Affects.RECORDS):
    """Context ID Register (EL1)."""

    RES0_63_32 = Res0(63, 32)
    PROCID = Field(31, 0)


class CONTEXTIDR_EL2(SysReg, op=(3, 4, 13, 0, 1), when=_EL2, affects=Affects.RECORDS):
    """Context ID Register (EL2)."""

    RES0_63_32 = Res0(63, 32)
    PROCID = Field(31, 0)


class CNTKCTL_EL1(SysReg, op=(3, 0, 14, 1, 0), affects=Affects.TRAPS):
    """Counter-timer Kernel Control Register."""

    RES0_63_20 = Res0(63, 20)
    CNTPMASK = Field(19)
    CNTVMASK = Field(18)
    EVNTIS = Field(17)
    RES0_16_10 = Res0(16, 10)
    EL0PTEN = Field(9)
    EL0VTEN = Field(8)
    EVNTI = Field(7, 4)
    EVNTDIR = Field(3)
    EVNTEN = Field(2)
    EL0VCTEN = Field(1)
    EL0PCTEN = Field(0)


class CNTVOFF_EL2(SysReg, op=(3, 4, 14, 0, 3), when=_EL2, affects=Affects.TRAPS | Affects.RECORDS):
    """Counter-timer Virtual Offset Register."""

    VOffset = Field(63, 0)


class CNTPOFF_EL2(
    SysReg,
    op=(3, 4, 14, 0, 6),
    when=every(_EL2, Feature.FEAT_ECV_POFF),
    affects=Affects.RECORDS,
    owner=Owner.HOST,
):
    """Counter-timer Physical Offset Register."""

    PhysicalOffset = Field(63, 0)


class CNTHCTL_EL2(SysReg, op=(3, 4, 14, 1, 0), when=_EL2, affects=Affects.TRAPS | Affects.RECORDS):
    """Counter-timer Hypervisor Control Register, its fields as with HCR_EL2.E2H set."""

    RES0_63_20 = Res0(63, 20)
    CNTPMASK = Field(19)
    CNTVMASK = Field(18)
    EVNTIS = Field(17)
    EL1NVVCT = Field(16)
    EL1NVPCT = Field(15)
    EL1TVCT = Field(14)
    EL1TVT = Field(13)
    ECV = Field(12)
    EL1PTEN = Field(11)
    EL1PCTEN = Field(10)
    EL0PTEN = Field(9)
    EL0VTEN = Field(8)
    EVNTI = Field(7, 4)
    EVNTDIR = Field(3)
    EVNTEN = Field(2)
    EL0VCTEN = Field(1)
    EL0PCTEN = Field(0)


class TCR_EL2_nVHE(Register):
    """TCR_EL2 as with HCR_EL2.E2H clear: ``TCR_EL2_nVHE(pe.registers.raw(TCR_EL2))``."""

    RES0_63_34 = Res0(63, 34)
    MTX = Field(33)
    DS = Field(32)
    B31 = Field(31)
    TCMA = Field(30)
    TBID = Field(29)
    HWU = Field(28, 25)
    HPD = Field(24)
    B23 = Field(23)
    HD = Field(22)
    HA = Field(21)
    TBI = Field(20)
    RES0_19 = Res0(19)
    PS = Field(18, 16)
    TG0 = Field(15, 14)
    SH0 = Field(13, 12)
    ORGN0 = Field(11, 10)
    IRGN0 = Field(9, 8)
    RES0_7_6 = Res0(7, 6)
    T0SZ = Field(5, 0)


SYSTEM_REGISTERS: tuple[type[SysReg], ...] = (
    SCTLR_EL1,
    CPACR_EL1,
    SCTLR_EL2,
    HCR_EL2,
    MDCR_EL2,
    CPTR_EL2,
    SCTLR_EL3,
    SCR_EL3,
    CPTR_EL3,
    MDCR_EL3,
    TTBR0_EL1,
    TTBR1_EL1,
    TCR_EL1,
    TTBR0_EL2,
    TTBR1_EL2,
    TCR_EL2,
    VTTBR_EL2,
    VTCR_EL2,
    VNCR_EL2,
    HCRX_EL2,
    VSTTBR_EL2,
    VSTCR_EL2,
    TTBR0_EL3,
    TCR_EL3,
    PM,
    SSBS,
    DIT,
    TCO,
    GCR_EL1,
    RGSR_EL1,
    GMID_EL1,
    TFSR_EL1,
    TFSRE0_EL1,
    TFSR_EL2,
    TFSR_EL3,
    SPSR_EL1,
    SPSR_EL2,
    SPSR_EL3,
    ELR_EL1,
    ELR_EL2,
    ELR_EL3,
    ESR_EL1,
    ESR_EL2,
    ESR_EL3,
    FAR_EL1,
    FAR_EL2,
    FAR_EL3,
    HPFAR_EL2,
    PAR_EL1,
    RNDR,
    RNDRRS,
    ISR_EL1,
    MAIR_EL1,
    MAIR_EL2,
    MAIR_EL3,
    VBAR_EL1,
    VBAR_EL2,
    VBAR_EL3,
    CONTEXTIDR_EL1,
    CONTEXTIDR_EL2,
    CNTKCTL_EL1,
    CNTVOFF_EL2,
    CNTPOFF_EL2,
    CNTHCTL_EL2,
    *FGT_REGISTERS,
    *ID_REGISTERS,
)
"""Every register but those of SPE and of the PMU."""
