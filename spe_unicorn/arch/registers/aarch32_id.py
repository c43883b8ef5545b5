"""The ID registers of AArch32 state as AArch64 state reads them (Arm ARM D24.2).

Every core here is in AArch64 state at all Exception levels. So the architecture leaves open what
these registers read as: it is what the engine has.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import ReadOnly, Res0


class ID_PFR0_EL1(SysReg, op=(3, 0, 0, 1, 0), read_only=True):
    """AArch32 Processor Feature Register 0."""

    RES0 = Res0(63, 32)
    RAS = ReadOnly(31, 28)
    DIT = ReadOnly(27, 24)
    AMU = ReadOnly(23, 20)
    CSV2 = ReadOnly(19, 16)
    State3 = ReadOnly(15, 12)
    State2 = ReadOnly(11, 8)
    State1 = ReadOnly(7, 4)
    State0 = ReadOnly(3, 0)


class ID_PFR1_EL1(SysReg, op=(3, 0, 0, 1, 1), read_only=True):
    """AArch32 Processor Feature Register 1."""

    RES0 = Res0(63, 32)
    GIC = ReadOnly(31, 28)
    Virt_frac = ReadOnly(27, 24)
    Sec_frac = ReadOnly(23, 20)
    GenTimer = ReadOnly(19, 16)
    Virtualization = ReadOnly(15, 12)
    MProgMod = ReadOnly(11, 8)
    Security = ReadOnly(7, 4)
    ProgMod = ReadOnly(3, 0)


class ID_PFR2_EL1(SysReg, op=(3, 0, 0, 3, 4), read_only=True):
    """AArch32 Processor Feature Register 2."""

    RES0 = Res0(63, 12)
    RAS_frac = ReadOnly(11, 8)
    SSBS = ReadOnly(7, 4)
    CSV3 = ReadOnly(3, 0)


class ID_DFR0_EL1(SysReg, op=(3, 0, 0, 1, 2), read_only=True):
    """AArch32 Debug Feature Register 0."""

    RES0 = Res0(63, 32)
    TraceFilt = ReadOnly(31, 28)
    PerfMon = ReadOnly(27, 24)
    MProfDbg = ReadOnly(23, 20)
    MMapTrc = ReadOnly(19, 16)
    CopTrc = ReadOnly(15, 12)
    MMapDbg = ReadOnly(11, 8)
    CopSDbg = ReadOnly(7, 4)
    CopDbg = ReadOnly(3, 0)


class ID_DFR1_EL1(SysReg, op=(3, 0, 0, 3, 5), read_only=True):
    """AArch32 Debug Feature Register 1."""

    RES0 = Res0(63, 8)
    HPMN0 = ReadOnly(7, 4)
    MTPMU = ReadOnly(3, 0)


class ID_AFR0_EL1(SysReg, op=(3, 0, 0, 1, 3), read_only=True):
    """AArch32 Auxiliary Feature Register 0, IMPLEMENTATION DEFINED."""

    RES0 = Res0(63, 16)
    IMPLEMENTATION_DEFINED = ReadOnly(15, 0)


class ID_MMFR0_EL1(SysReg, op=(3, 0, 0, 1, 4), read_only=True):
    """AArch32 Memory Model Feature Register 0."""

    RES0 = Res0(63, 32)
    InnerShr = ReadOnly(31, 28)
    FCSE = ReadOnly(27, 24)
    AuxReg = ReadOnly(23, 20)
    TCM = ReadOnly(19, 16)
    ShareLvl = ReadOnly(15, 12)
    OuterShr = ReadOnly(11, 8)
    PMSA = ReadOnly(7, 4)
    VMSA = ReadOnly(3, 0)


class ID_MMFR1_EL1(SysReg, op=(3, 0, 0, 1, 5), read_only=True):
    """AArch32 Memory Model Feature Register 1."""

    RES0 = Res0(63, 32)
    BPred = ReadOnly(31, 28)
    L1TstCln = ReadOnly(27, 24)
    L1Uni = ReadOnly(23, 20)
    L1Hvd = ReadOnly(19, 16)
    L1UniSW = ReadOnly(15, 12)
    L1HvdSW = ReadOnly(11, 8)
    L1UniVA = ReadOnly(7, 4)
    L1HvdVA = ReadOnly(3, 0)


class ID_MMFR2_EL1(SysReg, op=(3, 0, 0, 1, 6), read_only=True):
    """AArch32 Memory Model Feature Register 2."""

    RES0 = Res0(63, 32)
    HWAccFlg = ReadOnly(31, 28)
    WFIStall = ReadOnly(27, 24)
    MemBarr = ReadOnly(23, 20)
    UniTLB = ReadOnly(19, 16)
    HvdTLB = ReadOnly(15, 12)
    L1HvdRng = ReadOnly(11, 8)
    L1HvdBG = ReadOnly(7, 4)
    L1HvdFG = ReadOnly(3, 0)


class ID_MMFR3_EL1(SysReg, op=(3, 0, 0, 1, 7), read_only=True):
    """AArch32 Memory Model Feature Register 3."""

    RES0 = Res0(63, 32)
    Supersec = ReadOnly(31, 28)
    CMemSz = ReadOnly(27, 24)
    CohWalk = ReadOnly(23, 20)
    PAN = ReadOnly(19, 16)
    MaintBcst = ReadOnly(15, 12)
    BPMaint = ReadOnly(11, 8)
    CMaintSW = ReadOnly(7, 4)
    CMaintVA = ReadOnly(3, 0)


class ID_MMFR4_EL1(SysReg, op=(3, 0, 0, 2, 6), read_only=True):
    """AArch32 Memory Model Feature Register 4."""

    RES0 = Res0(63, 32)
    EVT = ReadOnly(31, 28)
    CCIDX = ReadOnly(27, 24)
    LSM = ReadOnly(23, 20)
    HPDS = ReadOnly(19, 16)
    CnP = ReadOnly(15, 12)
    XNX = ReadOnly(11, 8)
    AC2 = ReadOnly(7, 4)
    SpecSEI = ReadOnly(3, 0)


class ID_MMFR5_EL1(SysReg, op=(3, 0, 0, 3, 6), read_only=True):
    """AArch32 Memory Model Feature Register 5."""

    RES0 = Res0(63, 8)
    nTLBPA = ReadOnly(7, 4)
    ETS = ReadOnly(3, 0)


class ID_ISAR0_EL1(SysReg, op=(3, 0, 0, 2, 0), read_only=True):
    """AArch32 Instruction Set Attribute Register 0."""

    RES0 = Res0(63, 28)
    Divide = ReadOnly(27, 24)
    Debug = ReadOnly(23, 20)
    Coproc = ReadOnly(19, 16)
    CmpBranch = ReadOnly(15, 12)
    BitField = ReadOnly(11, 8)
    BitCount = ReadOnly(7, 4)
    Swap = ReadOnly(3, 0)


class ID_ISAR1_EL1(SysReg, op=(3, 0, 0, 2, 1), read_only=True):
    """AArch32 Instruction Set Attribute Register 1."""

    RES0 = Res0(63, 32)
    Jazelle = ReadOnly(31, 28)
    Interwork = ReadOnly(27, 24)
    Immediate = ReadOnly(23, 20)
    IfThen = ReadOnly(19, 16)
    Extend = ReadOnly(15, 12)
    Except_AR = ReadOnly(11, 8)
    Except = ReadOnly(7, 4)
    Endian = ReadOnly(3, 0)


class ID_ISAR2_EL1(SysReg, op=(3, 0, 0, 2, 2), read_only=True):
    """AArch32 Instruction Set Attribute Register 2."""

    RES0 = Res0(63, 32)
    Reversal = ReadOnly(31, 28)
    PSR_AR = ReadOnly(27, 24)
    MultU = ReadOnly(23, 20)
    MultS = ReadOnly(19, 16)
    Mult = ReadOnly(15, 12)
    MultiAccessInt = ReadOnly(11, 8)
    MemHint = ReadOnly(7, 4)
    LoadStore = ReadOnly(3, 0)


class ID_ISAR3_EL1(SysReg, op=(3, 0, 0, 2, 3), read_only=True):
    """AArch32 Instruction Set Attribute Register 3."""

    RES0 = Res0(63, 32)
    T32EE = ReadOnly(31, 28)
    TrueNOP = ReadOnly(27, 24)
    T32Copy = ReadOnly(23, 20)
    TabBranch = ReadOnly(19, 16)
    SynchPrim = ReadOnly(15, 12)
    SVC = ReadOnly(11, 8)
    SIMD = ReadOnly(7, 4)
    Saturate = ReadOnly(3, 0)


class ID_ISAR4_EL1(SysReg, op=(3, 0, 0, 2, 4), read_only=True):
    """AArch32 Instruction Set Attribute Register 4."""

    RES0 = Res0(63, 32)
    SWP_frac = ReadOnly(31, 28)
    PSR_M = ReadOnly(27, 24)
    SynchPrim_frac = ReadOnly(23, 20)
    Barrier = ReadOnly(19, 16)
    SMC = ReadOnly(15, 12)
    Writeback = ReadOnly(11, 8)
    WithShifts = ReadOnly(7, 4)
    Unpriv = ReadOnly(3, 0)


class ID_ISAR5_EL1(SysReg, op=(3, 0, 0, 2, 5), read_only=True):
    """AArch32 Instruction Set Attribute Register 5."""

    RES0_63_32 = Res0(63, 32)
    VCMA = ReadOnly(31, 28)
    RDM = ReadOnly(27, 24)
    RES0_23_20 = Res0(23, 20)
    CRC32 = ReadOnly(19, 16)
    SHA2 = ReadOnly(15, 12)
    SHA1 = ReadOnly(11, 8)
    AES = ReadOnly(7, 4)
    SEVL = ReadOnly(3, 0)


class ID_ISAR6_EL1(SysReg, op=(3, 0, 0, 2, 7), read_only=True):
    """AArch32 Instruction Set Attribute Register 6."""

    RES0 = Res0(63, 32)
    CLRBHB = ReadOnly(31, 28)
    I8MM = ReadOnly(27, 24)
    BF16 = ReadOnly(23, 20)
    SPECRES = ReadOnly(19, 16)
    SB = ReadOnly(15, 12)
    FHM = ReadOnly(11, 8)
    DP = ReadOnly(7, 4)
    JSCVT = ReadOnly(3, 0)


class MVFR0_EL1(SysReg, op=(3, 0, 0, 3, 0), read_only=True):
    """AArch32 Media and VFP Feature Register 0."""

    RES0 = Res0(63, 32)
    FPRound = ReadOnly(31, 28)
    FPShVec = ReadOnly(27, 24)
    FPSqrt = ReadOnly(23, 20)
    FPDivide = ReadOnly(19, 16)
    FPTrap = ReadOnly(15, 12)
    FPDP = ReadOnly(11, 8)
    FPSP = ReadOnly(7, 4)
    SIMDReg = ReadOnly(3, 0)


class MVFR1_EL1(SysReg, op=(3, 0, 0, 3, 1), read_only=True):
    """AArch32 Media and VFP Feature Register 1."""

    RES0 = Res0(63, 32)
    SIMDFMAC = ReadOnly(31, 28)
    FPHP = ReadOnly(27, 24)
    SIMDHP = ReadOnly(23, 20)
    SIMDSP = ReadOnly(19, 16)
    SIMDInt = ReadOnly(15, 12)
    SIMDLS = ReadOnly(11, 8)
    FPDNaN = ReadOnly(7, 4)
    FPFtZ = ReadOnly(3, 0)


class MVFR2_EL1(SysReg, op=(3, 0, 0, 3, 2), read_only=True):
    """AArch32 Media and VFP Feature Register 2."""

    RES0 = Res0(63, 8)
    FPMisc = ReadOnly(7, 4)
    SIMDMisc = ReadOnly(3, 0)


AARCH32_ID_REGISTERS: Final[tuple[type[SysReg], ...]] = (
    ID_PFR0_EL1,
    ID_PFR1_EL1,
    ID_PFR2_EL1,
    ID_DFR0_EL1,
    ID_DFR1_EL1,
    ID_AFR0_EL1,
    ID_MMFR0_EL1,
    ID_MMFR1_EL1,
    ID_MMFR2_EL1,
    ID_MMFR3_EL1,
    ID_MMFR4_EL1,
    ID_MMFR5_EL1,
    ID_ISAR0_EL1,
    ID_ISAR1_EL1,
    ID_ISAR2_EL1,
    ID_ISAR3_EL1,
    ID_ISAR4_EL1,
    ID_ISAR5_EL1,
    ID_ISAR6_EL1,
    MVFR0_EL1,
    MVFR1_EL1,
    MVFR2_EL1,
)
"""All of them."""
