"""The registers of the Statistical Profiling Extension (Arm ARM D24.7), one class a register.

``arch.access.spe`` tells who may access them, ``arch.rules.identification`` what the identification
registers read as.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from spe_unicorn.arch.features import Feature, Features, ImpDef, every, lacks, some
from spe_unicorn.arch.registers.highest import zero_if_el1_is_highest, zero_if_el2_is_highest
from spe_unicorn.arch.registers.roles import Affects, Owner
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0, Res1

_ALL = (1 << 64) - 1

_HAS_EL2 = Feature.FEAT_EL2
_NO_EL2 = lacks(Feature.FEAT_EL2)
_SVE_OR_SME = some(Feature.FEAT_SVE, Feature.FEAT_SME)


class TimestampCounter(IntEnum):
    """Which counter a Timestamp packet holds."""

    VIRTUAL = 0
    PHYSICAL = 1
    OFFSET = 3
    """The physical counter less CNTPOFF_EL2; needs FEAT_ECV."""


class ExceptionEnable(IntEnum):
    """Enables of the SPE Profiling exception; of PMSCR_EL1.EE, 01 and 10 need FEAT_NV."""

    DISABLED = 0
    DELEGATED = 1
    OWN_EVENTS = 2
    ALL_EVENTS = 3


class FillMode(IntEnum):
    """What the Profiling Buffer does with records."""

    FILL = 0
    DISCARD = 2


class EventClass(IntEnum):
    """Event class of a Profiling Buffer management event."""

    OTHER = 0x00
    GPC_FAULT = 0x1E
    IMPDEF = 0x1F
    STAGE1_ABORT = 0x24
    STAGE2_ABORT = 0x25


class BufferStatus(IntEnum):
    """BSC, PMBSR_ELx.MSS[5:0] where EC is OTHER."""

    NOT_ALLOWED = 0x00
    FULL = 0x01
    TOO_LARGE = 0x04


def _pct_bits(features: Features) -> int:
    """All bits but PCT[1], which is RES0 without FEAT_ECV."""
    return _ALL if Feature.FEAT_ECV in features else _ALL & ~(1 << 7)


class ProfilingRegister(SysReg, affects=Affects.PROFILING, owner=Owner.HOST):
    """What the registers of SPE share.

    The counters and PMBPTR_EL1 affect nothing beside themselves: the profiling unit works on
    their cells, so a write to them needs no second look.
    """

    __slots__ = ()


class PMSCR_EL1(ProfilingRegister, op=(3, 0, 9, 9, 0), when=Feature.FEAT_SPE):
    """Statistical Profiling Control Register (EL1)."""

    RES0_63_12 = Res0(63, 12)
    EnVM = Field(
        11,
        when=every(Feature.FEAT_SPE_nVM, Feature.FEAT_NV),
        doc="Kept for a guest hypervisor; no effect.",
    )
    KE = Field(
        10,
        when=Feature.FEAT_SPE_EXC,
        doc="SPE Profiling exceptions to EL1 can be taken from EL1 while PSTATE.PM is 0.",
    )
    EE = Field(
        9,
        8,
        ExceptionEnable,
        when=Feature.FEAT_SPE_EXC,
        reset=zero_if_el1_is_highest,
        doc="SPE Profiling exception for events of PMBSR_EL1 in place of PMBIRQ.",
    )
    PCT = Field(
        7, 6, TimestampCounter, when=_HAS_EL2, doc="Timestamp counter where EL1 owns the buffer."
    )
    RES0_7 = Res0(7, when=_NO_EL2)
    RES1_6 = Res1(6, when=_NO_EL2)
    TS = Field(5, doc="Timestamp packets where EL1 owns the buffer.")
    PA = Field(4, doc="Physical addresses where EL1 owns the buffer.")
    CX = Field(3, doc="CONTEXTIDR_EL1 packets.")
    RES0_2 = Res0(2)
    E1SPE = Field(1, doc="Sample at EL1.")
    E0SPE = Field(0, doc="Sample at EL0 while HCR_EL2.TGE is 0.")

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """PCT[1] exists with FEAT_ECV only."""
        return _pct_bits(features)


class PMSCR_EL2(ProfilingRegister, op=(3, 4, 9, 9, 0), when=Feature.FEAT_SPE):
    """Statistical Profiling Control Register (EL2)."""

    RES0_63_12 = Res0(63, 12)
    EnVM = Field(
        11,
        when=Feature.FEAT_SPE_nVM,
        doc="Buffer pointers of EL1 may be intermediate physical addresses.",
    )
    KE = Field(
        10,
        when=Feature.FEAT_SPE_EXC,
        doc="SPE Profiling exceptions to EL2 can be taken from EL2 while PSTATE.PM is 0.",
    )
    EE = Field(
        9,
        8,
        ExceptionEnable,
        when=Feature.FEAT_SPE_EXC,
        reset=zero_if_el2_is_highest,
        doc="SPE Profiling exceptions of EL2, and whether EL1 may have its own.",
    )
    PCT = Field(7, 6, TimestampCounter, doc="Timestamp counter; what EL1 chooses is bounded by it.")
    TS = Field(5, doc="Timestamp packets where EL2 owns the buffer.")
    PA = Field(4, doc="Physical addresses where EL2 owns the buffer, and leave for EL1 else.")
    CX = Field(3, doc="CONTEXTIDR_EL2 packets.")
    RES0_2 = Res0(2)
    E2SPE = Field(1, doc="Sample at EL2, which must own the buffer.")
    E0HSPE = Field(0, doc="Sample at EL0 while HCR_EL2.TGE is 1.")

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """RES0 from EL3 without EL2; PCT[1] exists with FEAT_ECV only."""
        return _pct_bits(features) if Feature.FEAT_EL2 in features else 0


class PMSICR_EL1(
    ProfilingRegister, op=(3, 0, 9, 9, 2), when=Feature.FEAT_SPE, affects=Affects.NOTHING
):
    """Sampling Interval Counter Register."""

    ECOUNT = Field(63, 56, when=Feature.FEAT_SPE_ERnd, doc="Secondary, random counter.")
    RES0_55_32 = Res0(55, 32)
    COUNT = Field(31, 0, doc="Primary counter, in members of the sample population.")


class PMSIRR_EL1(
    ProfilingRegister, op=(3, 0, 9, 9, 3), when=Feature.FEAT_SPE, affects=Affects.NOTHING
):
    """Sampling Interval Reload Register."""

    RES0_63_32 = Res0(63, 32)
    INTERVAL = Field(31, 8, doc="Bits 31:8 of the value that the primary counter restarts from.")
    RES0_7_1 = Res0(7, 1)
    RND = Field(0, doc="Perturb the interval at random.")


class PMSFCR_EL1(ProfilingRegister, op=(3, 0, 9, 9, 4), when=Feature.FEAT_SPE):
    """Sampling Filter Control Register."""

    RES0_63_53 = Res0(63, 53)
    SIMDm = Field(52, when=Feature.FEAT_SPE_EFT, doc="SIMD must match exactly.")
    FPm = Field(51, when=Feature.FEAT_SPE_EFT, doc="FP must match exactly.")
    STm = Field(50, when=Feature.FEAT_SPE_EFT, doc="ST must match exactly.")
    LDm = Field(49, when=Feature.FEAT_SPE_EFT, doc="LD must match exactly.")
    Bm = Field(48, when=Feature.FEAT_SPE_EFT, doc="B must match exactly.")
    RES0_47_21 = Res0(47, 21)
    SIMD = Field(20, when=Feature.FEAT_SPE_EFT, doc="SIMD operations.")
    FP = Field(19, when=Feature.FEAT_SPE_EFT, doc="Floating-point operations.")
    ST = Field(18, doc="Stores.")
    LD = Field(17, doc="Loads.")
    B = Field(16, doc="Branches.")
    RES0_15_5 = Res0(15, 5)
    FDS = Field(4, when=Feature.FEAT_SPE_FDS, doc="Filter by data source, PMSDSFR_EL1.")
    FnE = Field(3, when=Feature.FEAT_SPE_FnE, doc="Filter by event, inverted, PMSNEVFR_EL1.")
    FL = Field(2, doc="Filter by total latency, PMSLATFR_EL1.")
    FT = Field(1, doc="Filter by type of operation.")
    FE = Field(0, doc="Filter by event, PMSEVFR_EL1.")


class EventFilter(ProfilingRegister):
    """What the two event filters share; bit n stands for bit n of the Events packet."""

    __slots__ = ()

    E63_48 = Field(63, 48, doc="IMPLEMENTATION DEFINED events.")
    RES0_47_32 = Res0(47, 32)
    E31_26 = Field(
        31, 26, when=lacks(Feature.FEAT_SPEv1p4), doc="IMPLEMENTATION DEFINED events, before v1p4."
    )
    E25 = Field(
        25,
        when=some(Feature.FEAT_SPE_SME, Feature.FEAT_SPEv1p5, lacks(Feature.FEAT_SPEv1p4)),
        doc="SMCU or external coprocessor operation.",
    )
    E24 = Field(
        24,
        when=some(Feature.FEAT_SPE_SME, lacks(Feature.FEAT_SPEv1p4)),
        doc="Streaming SVE mode.",
    )
    E23 = Field(23, when=Feature.FEAT_SPEv1p4, doc="Data snooped.")
    E22 = Field(22, when=Feature.FEAT_SPEv1p4, doc="Recently fetched.")
    E21 = Field(21, when=Feature.FEAT_SPEv1p4, doc="Cache data modified.")
    E20 = Field(20, when=Feature.FEAT_SPEv1p4, doc="Level 2 data cache miss.")
    E19 = Field(19, when=Feature.FEAT_SPEv1p4, doc="Level 2 data cache access.")
    E18 = Field(18, when=every(Feature.FEAT_SPEv1p1, _SVE_OR_SME), doc="Empty predicate.")
    E17 = Field(
        17, when=every(Feature.FEAT_SPEv1p1, _SVE_OR_SME), doc="Partial or empty predicate."
    )
    RES0_16 = Res0(16)
    E15_12 = Field(15, 12, doc="IMPLEMENTATION DEFINED events.")
    E11 = Field(11, when=Feature.FEAT_SPEv1p1, doc="Misaligned.")
    E10 = Field(10, doc="Remote access.")
    E9 = Field(9, doc="Last level cache miss.")
    E8 = Field(8, doc="Last level cache access.")
    E7 = Field(7, doc="Mispredicted.")
    E6 = Field(6, when=Feature.FEAT_SPE_FnE, doc="Not taken.")
    E5 = Field(5, doc="TLB walk.")
    E4 = Field(4, doc="TLB access.")
    E3 = Field(3, doc="Level 1 data cache refill or miss.")
    E2 = Field(2, doc="Level 1 data cache access.")
    E1 = Field(1, doc="Architecturally retired; where wrong-path operations are sampled.")
    RES0_0 = Res0(0)

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """Of the optional events, those that the core generates."""
        absent = OPTIONAL_EVENTS & ~_bits(impdef.events)
        if Feature.FEAT_SPEv1p4 in features:
            absent &= ~(1 << 2 | 1 << 4)  # no longer optional
        if Feature.FEAT_SPE_SME in features:
            absent &= ~(1 << 24)
        return _ALL & ~absent


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << n for n in set(numbers))


OPTIONAL_EVENTS = _bits([*range(48, 64), *range(19, 32), *range(12, 16), 10, 9, 8, 4, 2])
"""Events, as bits, that a core need not have: ``ImpDef.events`` names those that it has."""


class PMSNEVFR_EL1(EventFilter, op=(3, 0, 9, 9, 1), when=Feature.FEAT_SPE_FnE):
    """Sampling Inverted Event Filter Register: no chosen event may have happened."""

    __slots__ = ()

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """Of the optional events, those that the core generates, and E1 on some cores."""
        bits = super().core_bits(features, impdef)
        return bits if impdef.speculative else bits & ~cls.E1.mask


class PMSEVFR_EL1(EventFilter, op=(3, 0, 9, 9, 5), when=Feature.FEAT_SPE):
    """Sampling Event Filter Register: every chosen event must have happened.

    E1 can always be written, but chooses nothing where everything that is sampled has retired.
    """

    __slots__ = ()


class PMSLATFR_EL1(ProfilingRegister, op=(3, 0, 9, 9, 6), when=Feature.FEAT_SPE):
    """Sampling Latency Filter Register."""

    RES0_63_16 = Res0(63, 16)
    MINLAT = Field(15, 0, doc="Minimum total latency, in cycles, for a record to be kept.")

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """MINLAT is as wide as the latency counters: 12 or 16 bits."""
        return 0xFFF if impdef.count_size == 2 else 0xFFFF


class PMSIDR_EL1(ProfilingRegister, op=(3, 0, 9, 9, 7), when=Feature.FEAT_SPE, read_only=True):
    """Sampling Profiling ID Register."""

    RES0_63_33 = Res0(63, 33)
    SME = ReadOnly(32, doc="FEAT_SPE_SME.")
    ALTCLK = ReadOnly(31, 28, doc="0 none, 1 an external clock, 15 an own one.")
    FPF = ReadOnly(27, doc="FEAT_SPE_FPF: Other operations say FP and SIMD.")
    EFT = ReadOnly(26, doc="FEAT_SPE_EFT: extended type filter.")
    CRR = ReadOnly(25, doc="FEAT_SPE_CRR: branches say call or return.")
    PBT = ReadOnly(24, doc="FEAT_SPE_PBT: previous branch target.")
    Format = ReadOnly(23, 20, doc="Format of records: 0.")
    CountSize = ReadOnly(19, 16, doc="Latency counters of 2: 12 bits, 3: 16 bits.")
    MaxSize = ReadOnly(15, 12, doc="No record is longer than 1 << MaxSize bytes.")
    Interval = ReadOnly(11, 8, doc="Recommended minimum interval, encoded.")
    FDS = ReadOnly(7, doc="FEAT_SPE_FDS: data source filter.")
    FnE = ReadOnly(6, doc="FEAT_SPE_FnE: inverted event filter.")
    ERnd = ReadOnly(5, doc="FEAT_SPE_ERnd: random count after the interval.")
    LDS = ReadOnly(4, doc="FEAT_SPE_LDS: data source for loads.")
    ArchInst = ReadOnly(3, doc="Population: 1 architecture instructions, 0 micro-operations.")
    FL = ReadOnly(2, doc="Filter by latency: 1.")
    FT = ReadOnly(1, doc="Filter by type: 1.")
    FE = ReadOnly(0, doc="Filter by event: 1.")


class PMBLIMITR_EL1(
    ProfilingRegister,
    op=(3, 0, 9, 10, 0),
    when=Feature.FEAT_SPE,
    affects=Affects.PROFILING | Affects.BUFFER,
):
    """Profiling Buffer Limit Address Register."""

    LIMIT = Field(63, 12, doc="First byte after the buffer, bits 63:12.")
    RES0_11_8 = Res0(11, 8)
    nVM = Field(7, when=Feature.FEAT_SPE_nVM, doc="Pointers are not virtual addresses.")
    RES0_6 = Res0(6)
    PMFZ = Field(5, when=Feature.FEAT_SPEv1p2, doc="Stop the PMU's counters when SPE stops.")
    RES0_4_3 = Res0(4, 3)
    FM = Field(2, 1, FillMode, doc="What to do with records; DISCARD needs v1p2.")
    E = Field(0, reset=0, doc="Buffer enabled.")

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """LIMIT is aligned to the smallest translation granule."""
        return _ALL & ~((1 << impdef.granule) - (1 << 12))


class PMBPTR_EL1(
    ProfilingRegister, op=(3, 0, 9, 10, 1), when=Feature.FEAT_SPE, affects=Affects.NOTHING
):
    """Profiling Buffer Write Pointer Register."""

    PTR = Field(63, 0, doc="Where the next byte goes.")

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """Bits below PMBIDR_EL1.Align are RES0, our choice of what is allowed."""
        return _ALL & ~((1 << impdef.align) - 1)


class PMBSR(ProfilingRegister):
    """What the three Profiling Buffer Status/syndrome Registers share."""

    __slots__ = ()

    RES0_63_56 = Res0(63, 56)
    MSS2 = Field(55, 32, doc="Syndrome of the event, second part.")
    EC = Field(31, 26, EventClass, doc="Class of the event.")
    RES0_25_20 = Res0(25, 20)
    DL = Field(19, doc="Data lost: a record is partial.")
    EA = Field(18, doc="External abort.")
    S = Field(17, doc="An event was recorded; profiling is stopped.")
    COLL = Field(16, doc="A sample collided with one in flight.")
    MSS = Field(15, 0, doc="Syndrome: buffer status code or fault status code in bits 5:0.")


class PMBSR_EL1(PMBSR, op=(3, 0, 9, 10, 3), when=Feature.FEAT_SPE):
    """Profiling Buffer Status/syndrome Register (EL1)."""

    __slots__ = ()


class PMBSR_EL2(PMBSR, op=(3, 4, 9, 10, 3), when=Feature.FEAT_SPE_EXC):
    """Profiling Buffer Status/syndrome Register (EL2)."""

    __slots__ = ()

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """RES0 from EL3 without EL2."""
        return _ALL if Feature.FEAT_EL2 in features else 0


class PMBSR_EL3(PMBSR, op=(3, 6, 9, 10, 3), when=every(Feature.FEAT_SPE_EXC, Feature.FEAT_EL3)):
    """Profiling Buffer Status/syndrome Register (EL3)."""

    __slots__ = ()


class PMSDSFR_EL1(ProfilingRegister, op=(3, 0, 9, 10, 4), when=Feature.FEAT_SPE_FDS):
    """Sampling Data Source Filter Register."""

    S = Field(63, 0, doc="Bit m keeps loads whose Data Source[5:0] is m.")

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """Sources that the core never reports cannot be chosen."""
        return _bits(impdef.data_sources)


class PMBMAR_EL1(
    ProfilingRegister,
    op=(3, 0, 9, 10, 5),
    when=Feature.FEAT_SPE_nVM,
    affects=Affects.PROFILING | Affects.BUFFER,
):
    """Profiling Buffer Memory Attribute Register."""

    RES0_63_10 = Res0(63, 10)
    SH = Field(9, 8, doc="Shareability: 0 non, 2 outer, 3 inner.")
    Attr = Field(7, 0, doc="Memory type, as one byte of MAIR_ELx.")


class PMBIDR_EL1(ProfilingRegister, op=(3, 0, 9, 10, 7), when=Feature.FEAT_SPE, read_only=True):
    """Profiling Buffer ID Register."""

    RES0_63_48 = Res0(63, 48)
    MaxBuffSize = ReadOnly(47, 32, doc="Largest buffer; 0: no limit.")
    RES0_31_12 = Res0(31, 12)
    EA = ReadOnly(11, 8, doc="External aborts: 0 not described, 1 ignored, 2 SError.")
    AddrMode = ReadOnly(7, 6, when=Feature.FEAT_SPE_nVM, doc="1: nVM may be used.")
    F = ReadOnly(5, doc="Record writes update access flag and dirty state.")
    P = ReadOnly(4, doc="Programming is not allowed at this Exception level.")
    Align = ReadOnly(3, 0, doc="Records are multiples of 1 << Align bytes.")


SPE_REGISTERS: tuple[type[SysReg], ...] = (
    PMSCR_EL1,
    PMSNEVFR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    PMSFCR_EL1,
    PMSEVFR_EL1,
    PMSLATFR_EL1,
    PMSIDR_EL1,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSDSFR_EL1,
    PMBMAR_EL1,
    PMBIDR_EL1,
    PMSCR_EL2,
    PMBSR_EL2,
    PMBSR_EL3,
)
"""Every register; two of them have a second accessor, PMSCR_EL12 and PMBSR_EL12."""


def event_filter_mask(features: Features, impdef: ImpDef) -> int:
    """The events, as bits, by which a core can filter."""
    return PMSEVFR_EL1.writable_mask(features) & PMSNEVFR_EL1.core_bits(features, impdef)
