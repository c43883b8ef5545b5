"""The ID registers of AArch64, ID_AA64*_EL1: what a core says it implements.

``arch.rules.identification`` tells what of it comes from a core's profile and what from the engine.
"""

from __future__ import annotations

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import ReadOnly, Res0


class ID_AA64PFR0_EL1(SysReg, op=(3, 0, 0, 4, 0), read_only=True):
    """AArch64 Processor Feature Register 0."""

    CSV3 = ReadOnly(63, 60)
    CSV2 = ReadOnly(59, 56)
    RME = ReadOnly(55, 52)
    DIT = ReadOnly(51, 48)
    AMU = ReadOnly(47, 44)
    MPAM = ReadOnly(43, 40)
    SEL2 = ReadOnly(39, 36)
    SVE = ReadOnly(35, 32)
    RAS = ReadOnly(31, 28)
    GIC = ReadOnly(27, 24)
    AdvSIMD = ReadOnly(23, 20)
    FP = ReadOnly(19, 16)
    EL3 = ReadOnly(15, 12)
    EL2 = ReadOnly(11, 8)
    EL1 = ReadOnly(7, 4)
    EL0 = ReadOnly(3, 0)


class ID_AA64PFR1_EL1(SysReg, op=(3, 0, 0, 4, 1), read_only=True):
    """AArch64 Processor Feature Register 1."""

    PFAR = ReadOnly(63, 60)
    DF2 = ReadOnly(59, 56)
    MTEX = ReadOnly(55, 52)
    THE = ReadOnly(51, 48)
    GCS = ReadOnly(47, 44)
    MTE_frac = ReadOnly(43, 40)
    NMI = ReadOnly(39, 36)
    CSV2_frac = ReadOnly(35, 32)
    RNDR_trap = ReadOnly(31, 28)
    SME = ReadOnly(27, 24)
    RES0_23_20 = Res0(23, 20)
    MPAM_frac = ReadOnly(19, 16)
    RAS_frac = ReadOnly(15, 12)
    MTE = ReadOnly(11, 8)
    SSBS = ReadOnly(7, 4)
    BT = ReadOnly(3, 0)


class ID_AA64PFR2_EL1(SysReg, op=(3, 0, 0, 4, 2), read_only=True):
    """AArch64 Processor Feature Register 2."""

    RES0_63_36 = Res0(63, 36)
    FPMR = ReadOnly(35, 32)
    RES0_31_20 = Res0(31, 20)
    UINJ = ReadOnly(19, 16)
    GCIE = ReadOnly(15, 12)
    MTEFAR = ReadOnly(11, 8)
    MTESTOREONLY = ReadOnly(7, 4)
    MTEPERM = ReadOnly(3, 0)


class ID_AA64ZFR0_EL1(SysReg, op=(3, 0, 0, 4, 4), read_only=True):
    """SVE Feature ID Register 0."""

    RES0_63_60 = Res0(63, 60)
    F64MM = ReadOnly(59, 56)
    F32MM = ReadOnly(55, 52)
    F16MM = ReadOnly(51, 48)
    I8MM = ReadOnly(47, 44)
    SM4 = ReadOnly(43, 40)
    RES0_39_36 = Res0(39, 36)
    SHA3 = ReadOnly(35, 32)
    RES0_31_28 = Res0(31, 28)
    B16B16 = ReadOnly(27, 24)
    BF16 = ReadOnly(23, 20)
    BitPerm = ReadOnly(19, 16)
    EltPerm = ReadOnly(15, 12)
    RES0_11_8 = Res0(11, 8)
    AES = ReadOnly(7, 4)
    SVEver = ReadOnly(3, 0)


class ID_AA64DFR0_EL1(SysReg, op=(3, 0, 0, 5, 0), read_only=True):
    """AArch64 Debug Feature Register 0."""

    HPMN0 = ReadOnly(63, 60)
    ExtTrcBuff = ReadOnly(59, 56)
    BRBE = ReadOnly(55, 52)
    MTPMU = ReadOnly(51, 48)
    TraceBuffer = ReadOnly(47, 44)
    TraceFilt = ReadOnly(43, 40)
    DoubleLock = ReadOnly(39, 36)
    PMSVer = ReadOnly(35, 32)
    CTX_CMPs = ReadOnly(31, 28)
    SEBEP = ReadOnly(27, 24)
    WRPs = ReadOnly(23, 20)
    PMSS = ReadOnly(19, 16)
    BRPs = ReadOnly(15, 12)
    PMUVer = ReadOnly(11, 8)
    TraceVer = ReadOnly(7, 4)
    DebugVer = ReadOnly(3, 0)


class ID_AA64DFR1_EL1(SysReg, op=(3, 0, 0, 5, 1), read_only=True):
    """AArch64 Debug Feature Register 1."""

    ABL_CMPs = ReadOnly(63, 56)
    DPFZS = ReadOnly(55, 52)
    EBEP = ReadOnly(51, 48)
    ITE = ReadOnly(47, 44)
    ABLE = ReadOnly(43, 40)
    PMICNTR = ReadOnly(39, 36)
    SPMU = ReadOnly(35, 32)
    CTX_CMPs = ReadOnly(31, 24)
    WRPs = ReadOnly(23, 16)
    BRPs = ReadOnly(15, 8)
    SYSPMUID = ReadOnly(7, 0)


class ID_AA64DFR2_EL1(SysReg, op=(3, 0, 0, 5, 2), read_only=True):
    """AArch64 Debug Feature Register 2."""

    RES0_63_28 = Res0(63, 28)
    TRBE_EXC = ReadOnly(27, 24)
    SPE_nVM = ReadOnly(23, 20)
    SPE_EXC = ReadOnly(19, 16)
    RES0_15_8 = Res0(15, 8)
    BWE = ReadOnly(7, 4)
    STEP = ReadOnly(3, 0)


class ID_AA64ISAR0_EL1(SysReg, op=(3, 0, 0, 6, 0), read_only=True):
    """AArch64 Instruction Set Attribute Register 0."""

    RNDR = ReadOnly(63, 60)
    TLB = ReadOnly(59, 56)
    TS = ReadOnly(55, 52)
    FHM = ReadOnly(51, 48)
    DP = ReadOnly(47, 44)
    SM4 = ReadOnly(43, 40)
    SM3 = ReadOnly(39, 36)
    SHA3 = ReadOnly(35, 32)
    RDM = ReadOnly(31, 28)
    TME = ReadOnly(27, 24)
    Atomic = ReadOnly(23, 20)
    CRC32 = ReadOnly(19, 16)
    SHA2 = ReadOnly(15, 12)
    SHA1 = ReadOnly(11, 8)
    AES = ReadOnly(7, 4)
    RES0_3_0 = Res0(3, 0)


class ID_AA64ISAR1_EL1(SysReg, op=(3, 0, 0, 6, 1), read_only=True):
    """AArch64 Instruction Set Attribute Register 1."""

    LS64 = ReadOnly(63, 60)
    XS = ReadOnly(59, 56)
    I8MM = ReadOnly(55, 52)
    DGH = ReadOnly(51, 48)
    BF16 = ReadOnly(47, 44)
    SPECRES = ReadOnly(43, 40)
    SB = ReadOnly(39, 36)
    FRINTTS = ReadOnly(35, 32)
    GPI = ReadOnly(31, 28)
    GPA = ReadOnly(27, 24)
    LRCPC = ReadOnly(23, 20)
    FCMA = ReadOnly(19, 16)
    JSCVT = ReadOnly(15, 12)
    API = ReadOnly(11, 8)
    APA = ReadOnly(7, 4)
    DPB = ReadOnly(3, 0)


class ID_AA64ISAR2_EL1(SysReg, op=(3, 0, 0, 6, 2), read_only=True):
    """AArch64 Instruction Set Attribute Register 2."""

    ATS1A = ReadOnly(63, 60)
    LUT = ReadOnly(59, 56)
    CSSC = ReadOnly(55, 52)
    RPRFM = ReadOnly(51, 48)
    PCDPHINT = ReadOnly(47, 44)
    PRFMSLC = ReadOnly(43, 40)
    SYSINSTR_128 = ReadOnly(39, 36)
    SYSREG_128 = ReadOnly(35, 32)
    CLRBHB = ReadOnly(31, 28)
    PAC_frac = ReadOnly(27, 24)
    BC = ReadOnly(23, 20)
    MOPS = ReadOnly(19, 16)
    APA3 = ReadOnly(15, 12)
    GPA3 = ReadOnly(11, 8)
    RPRES = ReadOnly(7, 4)
    WFxT = ReadOnly(3, 0)


class ID_AA64ISAR3_EL1(SysReg, op=(3, 0, 0, 6, 3), read_only=True):
    """AArch64 Instruction Set Attribute Register 3."""

    RES0_63_32 = Res0(63, 32)
    FPRCVT = ReadOnly(31, 28)
    LSUI = ReadOnly(27, 24)
    OCCMO = ReadOnly(23, 20)
    LSFE = ReadOnly(19, 16)
    PACM = ReadOnly(15, 12)
    TLBIW = ReadOnly(11, 8)
    FAMINMAX = ReadOnly(7, 4)
    CPA = ReadOnly(3, 0)


class ID_AA64MMFR0_EL1(SysReg, op=(3, 0, 0, 7, 0), read_only=True):
    """AArch64 Memory Model Feature Register 0."""

    ECV = ReadOnly(63, 60)
    FGT = ReadOnly(59, 56)
    RES0_55_48 = Res0(55, 48)
    ExS = ReadOnly(47, 44)
    TGran4_2 = ReadOnly(43, 40)
    TGran64_2 = ReadOnly(39, 36)
    TGran16_2 = ReadOnly(35, 32)
    TGran4 = ReadOnly(31, 28)
    TGran64 = ReadOnly(27, 24)
    TGran16 = ReadOnly(23, 20)
    BigEndEL0 = ReadOnly(19, 16)
    SNSMem = ReadOnly(15, 12)
    BigEnd = ReadOnly(11, 8)
    ASIDBits = ReadOnly(7, 4)
    PARange = ReadOnly(3, 0)


class ID_AA64MMFR1_EL1(SysReg, op=(3, 0, 0, 7, 1), read_only=True):
    """AArch64 Memory Model Feature Register 1."""

    ECBHB = ReadOnly(63, 60)
    CMOW = ReadOnly(59, 56)
    TIDCP1 = ReadOnly(55, 52)
    nTLBPA = ReadOnly(51, 48)
    AFP = ReadOnly(47, 44)
    HCX = ReadOnly(43, 40)
    ETS = ReadOnly(39, 36)
    TWED = ReadOnly(35, 32)
    XNX = ReadOnly(31, 28)
    SpecSEI = ReadOnly(27, 24)
    PAN = ReadOnly(23, 20)
    LO = ReadOnly(19, 16)
    HPDS = ReadOnly(15, 12)
    VH = ReadOnly(11, 8)
    VMIDBits = ReadOnly(7, 4)
    HAFDBS = ReadOnly(3, 0)


class ID_AA64MMFR2_EL1(SysReg, op=(3, 0, 0, 7, 2), read_only=True):
    """AArch64 Memory Model Feature Register 2."""

    E0PD = ReadOnly(63, 60)
    EVT = ReadOnly(59, 56)
    BBM = ReadOnly(55, 52)
    TTL = ReadOnly(51, 48)
    RES0_47_44 = Res0(47, 44)
    FWB = ReadOnly(43, 40)
    IDS = ReadOnly(39, 36)
    AT = ReadOnly(35, 32)
    ST = ReadOnly(31, 28)
    NV = ReadOnly(27, 24)
    CCIDX = ReadOnly(23, 20)
    VARange = ReadOnly(19, 16)
    IESB = ReadOnly(15, 12)
    LSM = ReadOnly(11, 8)
    UAO = ReadOnly(7, 4)
    CnP = ReadOnly(3, 0)


class ID_AA64MMFR3_EL1(SysReg, op=(3, 0, 0, 7, 3), read_only=True):
    """AArch64 Memory Model Feature Register 3."""

    Spec_FPACC = ReadOnly(63, 60)
    ADERR = ReadOnly(59, 56)
    SDERR = ReadOnly(55, 52)
    RES0_51_48 = Res0(51, 48)
    ANERR = ReadOnly(47, 44)
    SNERR = ReadOnly(43, 40)
    D128_2 = ReadOnly(39, 36)
    D128 = ReadOnly(35, 32)
    MEC = ReadOnly(31, 28)
    AIE = ReadOnly(27, 24)
    S2POE = ReadOnly(23, 20)
    S1POE = ReadOnly(19, 16)
    S2PIE = ReadOnly(15, 12)
    S1PIE = ReadOnly(11, 8)
    SCTLRX = ReadOnly(7, 4)
    TCRX = ReadOnly(3, 0)


class ID_AA64MMFR4_EL1(SysReg, op=(3, 0, 0, 7, 4), read_only=True):
    """AArch64 Memory Model Feature Register 4."""

    RES0_63_48 = Res0(63, 48)
    SRMASK = ReadOnly(47, 44)
    RES0_43_40 = Res0(43, 40)
    E3DSE = ReadOnly(39, 36)
    RES0_35_32 = Res0(35, 32)
    RMEGDI = ReadOnly(31, 28)
    E2H0 = ReadOnly(27, 24)
    NV_frac = ReadOnly(23, 20)
    FGWTE3 = ReadOnly(19, 16)
    HACDBS = ReadOnly(15, 12)
    ASID2 = ReadOnly(11, 8)
    EIESB = ReadOnly(7, 4)
    PoPS = ReadOnly(3, 0)


ID_REGISTERS: tuple[type[SysReg], ...] = (
    ID_AA64PFR0_EL1,
    ID_AA64PFR1_EL1,
    ID_AA64PFR2_EL1,
    ID_AA64ZFR0_EL1,
    ID_AA64DFR0_EL1,
    ID_AA64DFR1_EL1,
    ID_AA64DFR2_EL1,
    ID_AA64ISAR0_EL1,
    ID_AA64ISAR1_EL1,
    ID_AA64ISAR2_EL1,
    ID_AA64ISAR3_EL1,
    ID_AA64MMFR0_EL1,
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64MMFR3_EL1,
    ID_AA64MMFR4_EL1,
)
"""All of them."""
