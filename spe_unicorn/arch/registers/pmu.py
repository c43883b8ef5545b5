"""The registers of the Performance Monitors (Arm ARM D24.5), one class a register.

Pairs whose members set and clear the same bits, such as PMCNTENSET_EL0 and PMCNTENCLR_EL0, are two
classes for one value, and PMXEVTYPER_EL0 and PMXEVCNTR_EL0 are names for what PMSELR_EL0 selects:
``pmu`` keeps the values. There is no AArch32, so the cycle counter always overflows at 64 bits and
counts every cycle. Not here, and RES0 in the registers: snapshots (FEAT_PMUv3_SS), external
counters (FEAT_PMUv3_EXTPMN) and multithreading.
"""

from __future__ import annotations

from enum import IntEnum
from types import new_class
from typing import Any, Final

from spe_unicorn.arch.features import Feature, every
from spe_unicorn.arch.registers.highest import zero_if_el1_is_highest
from spe_unicorn.arch.registers.roles import Owner
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0, Res1

MOST_COUNTERS: Final = 31
"""Event counters that a PE can have."""
CYCLE_COUNTER: Final = 31
"""The cycle counter's bit in the maps of counters."""
INSTRUCTION_COUNTER: Final = 32
"""The instruction counter's."""

_PMU: Final = Feature.FEAT_PMUv3
_P5: Final = Feature.FEAT_PMUv3p5
_P7: Final = Feature.FEAT_PMUv3p7
_P9: Final = Feature.FEAT_PMUv3p9
_ICNTR: Final = Feature.FEAT_PMUv3_ICNTR
_EBEP: Final = Feature.FEAT_EBEP
_SEBEP: Final = Feature.FEAT_SEBEP
_TH: Final = Feature.FEAT_PMUv3_TH
_EL2: Final = Feature.FEAT_EL2
_EL3: Final = Feature.FEAT_EL3
_SECURE_EL2: Final = every(Feature.FEAT_EL3, Feature.FEAT_SEL2)
_RME: Final = Feature.FEAT_RME
_SME: Final = Feature.FEAT_SME


class PMUException(IntEnum):
    """PMEE: what becomes of an overflow at this Exception level."""

    INTERRUPT = 0
    DELEGATED = 1
    """The next lower Exception level says so. Reserved in PMECR_EL1."""
    EXCEPTION = 3


class StreamingFilter(IntEnum):
    """VS: whether Streaming SVE mode is counted."""

    BOTH = 0
    NOT_STREAMING = 1
    STREAMING = 2


class PMURegister(SysReg, owner=Owner.HOST):
    """What the registers of the Performance Monitors share: no engine's are to be seen."""

    __slots__ = ()


class PMCR_EL0(PMURegister, op=(3, 3, 9, 12, 0), when=_PMU):
    """Performance Monitors Control Register."""

    RES0_63_33 = Res0(63, 33)
    FZS = Field(
        32,
        when=every(Feature.FEAT_SPEv1p2, _P7),
        doc="Stop the counters below HPMN while SPE has stopped and PMBLIMITR_EL1.PMFZ is 1.",
    )
    IMP = ReadOnly(31, 24, doc="Implementer; 0 where MIDR_EL1 says it.")
    IDCODE = ReadOnly(23, 16)
    N = ReadOnly(
        15, 11, doc="Number of event counters; at EL1 and EL0 as many as MDCR_EL2.HPMN leaves."
    )
    RES0_10 = Res0(10)
    FZO = Field(9, when=_P7, doc="Stop the counters below HPMN when one of them overflows.")
    RES0_8 = Res0(8)
    LP = Field(7, when=_P5, doc="Counters below HPMN overflow at 64 bits, not at 32.")
    LC = Res1(6)
    DP = Field(5, doc="The cycle counter stops where event counting is prohibited or frozen.")
    X = Res0(4)
    D = Res0(3)
    C = Field(2, doc="Writing 1 makes the cycle counter 0; reads as 0.")
    P = Field(1, doc="Writing 1 makes the event counters 0 that the writer has; reads as 0.")
    E = Field(0, reset=0, doc="Enable the counters below HPMN, and those without a number.")


class CounterMap(PMURegister):
    """A bit for each counter."""

    __slots__ = ()

    RES0_63_33 = Res0(63, 33)
    F0 = Field(32, when=_ICNTR, doc="The instruction counter.")
    C = Field(31, doc="The cycle counter.")
    P = Field(30, 0, doc="The event counters, by their numbers.")


class CounterState(PMURegister):
    """A bit for each counter, of which a reset clears the instruction counter's.

    Software that was written before there was an instruction counter clears no more than bits 31:0.
    """

    __slots__ = ()

    RES0_63_33 = Res0(63, 33)
    F0 = Field(32, when=_ICNTR, reset=0, doc="The instruction counter.")
    C = Field(31, doc="The cycle counter.")
    P = Field(30, 0, doc="The event counters, by their numbers.")


class PMCNTENSET_EL0(CounterState, op=(3, 3, 9, 12, 1), when=_PMU):
    """Performance Monitors Count Enable Set Register: writing 1 enables a counter."""


class PMCNTENCLR_EL0(CounterState, op=(3, 3, 9, 12, 2), when=_PMU):
    """Performance Monitors Count Enable Clear Register: writing 1 disables a counter."""


class PMOVSCLR_EL0(CounterState, op=(3, 3, 9, 12, 3), when=_PMU):
    """Performance Monitors Overflow Flag Status Clear Register."""


class PMOVSSET_EL0(CounterState, op=(3, 3, 9, 14, 3), when=_PMU):
    """Performance Monitors Overflow Flag Status Set Register."""


class PMINTENSET_EL1(CounterState, op=(3, 0, 9, 14, 1), when=_PMU):
    """Performance Monitors Interrupt Enable Set Register."""


class PMINTENCLR_EL1(CounterState, op=(3, 0, 9, 14, 2), when=_PMU):
    """Performance Monitors Interrupt Enable Clear Register."""


class PMZR_EL0(CounterMap, op=(3, 3, 9, 13, 4), when=_P9):
    """Performance Monitors Zero with Mask Register: writing 1 makes a counter 0. Write-only."""


class PMUACR_EL1(CounterMap, op=(3, 0, 9, 14, 4), when=_P9):
    """Performance Monitors User Access Register: counters of EL0 while PMUSERENR_EL0.UEN is 1."""


class PMSWINC_EL0(PMURegister, op=(3, 3, 9, 12, 4), when=_PMU):
    """Performance Monitors Software Increment Register. Write-only."""

    RES0_63_31 = Res0(63, 31)
    P = Field(30, 0, doc="Writing 1 increments a counter of the event SW_INCR.")


class PMSELR_EL0(PMURegister, op=(3, 3, 9, 12, 5), when=_PMU):
    """Performance Monitors Event Counter Selection Register."""

    RES0_63_5 = Res0(63, 5)
    SEL = Field(4, 0, doc="Which counter PMXEVTYPER_EL0 and PMXEVCNTR_EL0 are; 31: PMCCFILTR_EL0.")


class PMCEID0_EL0(PMURegister, op=(3, 3, 9, 12, 6), when=_PMU, read_only=True):
    """Performance Monitors Common Event Identification Register 0."""

    IDhi = ReadOnly(63, 32, doc="Events 0x4000 to 0x401F, from bit 32 up.")
    ID = ReadOnly(31, 0, doc="Events 0x00 to 0x1F, from bit 0 up.")


class PMCEID1_EL0(PMURegister, op=(3, 3, 9, 12, 7), when=_PMU, read_only=True):
    """Performance Monitors Common Event Identification Register 1."""

    IDhi = ReadOnly(63, 32, doc="Events 0x4020 to 0x403F, from bit 32 up.")
    ID = ReadOnly(31, 0, doc="Events 0x20 to 0x3F, from bit 0 up.")


class PMCCNTR_EL0(PMURegister, op=(3, 3, 9, 13, 0), when=_PMU):
    """Performance Monitors Cycle Count Register."""

    CCNT = Field(63, 0, doc="Cycles.")


class PMXEVTYPER_EL0(PMURegister, op=(3, 3, 9, 13, 1), when=_PMU):
    """Performance Monitors Selected Event Type Register: what PMSELR_EL0 selects."""

    SELECTED = Field(63, 0, doc="PMEVTYPER<n>_EL0, or PMCCFILTR_EL0 with PMSELR_EL0.SEL 31.")


class PMXEVCNTR_EL0(PMURegister, op=(3, 3, 9, 13, 2), when=_PMU):
    """Performance Monitors Selected Event Count Register: what PMSELR_EL0 selects."""

    SELECTED = Field(63, 0, doc="PMEVCNTR<n>_EL0.")


class PMUSERENR_EL0(PMURegister, op=(3, 3, 9, 14, 0), when=_PMU):
    """Performance Monitors User Enable Register: what EL0 may use."""

    RES0_63_7 = Res0(63, 7)
    TID = Field(6, when=_P9, doc="Trap reads of PMCEID<n>_EL0 from EL0.")
    IR = Field(5, when=every(_P9, _ICNTR), doc="With UEN, EL0 only reads the instruction counter.")
    UEN = Field(4, when=_P9, doc="EL0 has the counters that PMUACR_EL1 gives it.")
    ER = Field(3, doc="EL0 may read event counters, and select; with UEN, it only reads them.")
    CR = Field(2, doc="EL0 may read the cycle counter; with UEN, it only reads it.")
    SW = Field(1, doc="EL0 may write PMSWINC_EL0.")
    EN = Field(0, doc="EL0 may use all of the counters.")


class PMECR_EL1(PMURegister, op=(3, 0, 9, 14, 5), when=_EBEP):
    """Performance Monitors Extended Control Register."""

    RES0_63_5 = Res0(63, 5)
    SSE = Res0(4, 3)
    KPME = Field(2, doc="PMU exceptions to EL1 can be taken from EL1 while PSTATE.PM is 0.")
    PMEE = Field(
        1,
        0,
        PMUException,
        reset=zero_if_el1_is_highest,
        doc="Overflow is the interrupt, or the PMU exception.",
    )


class PMMIR_EL1(PMURegister, op=(3, 0, 9, 14, 6), when=Feature.FEAT_PMUv3p4, read_only=True):
    """Performance Monitors Machine Identification Register."""

    RES0_63_29 = Res0(63, 29)
    SME = ReadOnly(28)
    EDGE = ReadOnly(27, 24)
    THWIDTH = ReadOnly(23, 20, doc="Bits of a threshold; 0 without threshold counting.")
    BUS_WIDTH = ReadOnly(19, 16)
    BUS_SLOTS = ReadOnly(15, 8)
    SLOTS = ReadOnly(7, 0, doc="The most by which STALL_SLOT counts in a cycle.")


class PMIAR_EL1(PMURegister, op=(3, 0, 9, 14, 7), when=_SEBEP):
    """Performance Monitors Instruction Address Register."""

    ADDRESS = Field(63, 2, doc="The operation that made PSTATE.PPEND 1, without bits 1 and 0.")
    RES0_1_0 = Res0(1, 0)


class PMICNTR_EL0(PMURegister, op=(3, 3, 9, 4, 0), when=_ICNTR):
    """Performance Monitors Instruction Counter Register."""

    ICNT = Field(63, 0, doc="Retired instructions.")


class PMICFILTR_EL0(PMURegister, op=(3, 3, 9, 6, 0), when=_ICNTR):
    """Performance Monitors Instruction Counter Filter Register."""

    RES0_63_59 = Res0(63, 59)
    SYNC = Field(58, when=_SEBEP, doc="Synchronous mode.")
    VS = Field(57, 56, StreamingFilter, when=_SME)
    RES0_55_32 = Res0(55, 32)
    P = Field(31, doc="Do not count at EL1.")
    U = Field(30, doc="Do not count at EL0.")
    NSK = Field(29, when=_EL3, doc="Where it is not P: do not count at Non-secure EL1.")
    NSU = Field(28, when=_EL3, doc="Where it is not U: do not count at Non-secure EL0.")
    NSH = Field(27, when=_EL2, doc="Count at EL2.")
    M = Field(26, when=_EL3, doc="Where it is not P: do not count at EL3.")
    RES0_25 = Res0(25)
    SH = Field(24, when=_SECURE_EL2, doc="Where it is not NSH: count at Secure EL2.")
    RES0_23 = Res0(23)
    RLK = Field(22, when=_RME, doc="Where it is not P: do not count at Realm EL1.")
    RLU = Field(21, when=_RME, doc="Where it is not U: do not count at Realm EL0.")
    RLH = Field(20, when=_RME, doc="Where it is not NSH: count at Realm EL2.")
    RES0_19_16 = Res0(19, 16)
    evtCount = ReadOnly(15, 0, reset=0x0008, doc="INST_RETIRED.")


class PMCCFILTR_EL0(PMURegister, op=(3, 3, 14, 15, 7), when=_PMU):
    """Performance Monitors Cycle Count Filter Register."""

    RES0_63_58 = Res0(63, 58)
    VS = Field(57, 56, StreamingFilter, when=_SME)
    RES0_55_32 = Res0(55, 32)
    P = Field(31, doc="Do not count at EL1.")
    U = Field(30, doc="Do not count at EL0.")
    NSK = Field(29, when=_EL3, doc="Where it is not P: do not count at Non-secure EL1.")
    NSU = Field(28, when=_EL3, doc="Where it is not U: do not count at Non-secure EL0.")
    NSH = Field(27, when=_EL2, doc="Count at EL2.")
    M = Field(26, when=_EL3, doc="Where it is not P: do not count at EL3.")
    RES0_25 = Res0(25)
    SH = Field(24, when=_SECURE_EL2, doc="Where it is not NSH: count at Secure EL2.")
    RES0_23 = Res0(23)
    RLK = Field(22, when=_RME, doc="Where it is not P: do not count at Realm EL1.")
    RLU = Field(21, when=_RME, doc="Where it is not U: do not count at Realm EL0.")
    RLH = Field(20, when=_RME, doc="Where it is not NSH: count at Realm EL2.")
    RES0_19_0 = Res0(19, 0)


class PMEVTYPER(PMURegister):
    """What PMEVTYPER0_EL0 to PMEVTYPER30_EL0 have in common."""

    __slots__ = ()

    TC = Field(63, 61, when=_TH, doc="Not equal 0, equal 2, at least 4, less 6; +1: count 1.")
    RES0_60_59 = Res0(60, 59)
    SYNC = Field(58, when=_SEBEP, doc="Synchronous mode: nothing else counts synchronous events.")
    VS = Field(57, 56, StreamingFilter, when=_SME)
    RES0_55_44 = Res0(55, 44)
    TH = Field(43, 32, when=_TH, doc="What the event's count in each cycle is compared with.")
    P = Field(31, doc="Do not count at EL1.")
    U = Field(30, doc="Do not count at EL0.")
    NSK = Field(29, when=_EL3, doc="Where it is not P: do not count at Non-secure EL1.")
    NSU = Field(28, when=_EL3, doc="Where it is not U: do not count at Non-secure EL0.")
    NSH = Field(27, when=_EL2, doc="Count at EL2.")
    M = Field(26, when=_EL3, doc="Where it is not P: do not count at EL3.")
    MT = Res0(25)
    SH = Field(24, when=_SECURE_EL2, doc="Where it is not NSH: count at Secure EL2.")
    RES0_23 = Res0(23)
    RLK = Field(22, when=_RME, doc="Where it is not P: do not count at Realm EL1.")
    RLU = Field(21, when=_RME, doc="Where it is not U: do not count at Realm EL0.")
    RLH = Field(20, when=_RME, doc="Where it is not NSH: count at Realm EL2.")
    RES0_19_16 = Res0(19, 16)
    evtCount = Field(15, 0, doc="The event that is counted.")


class PMEVCNTR(PMURegister):
    """What PMEVCNTR0_EL0 to PMEVCNTR30_EL0 have in common."""

    __slots__ = ()

    EVCNThi = Field(63, 32, when=_P5)
    EVCNT = Field(31, 0, doc="Events.")


def _numbered(base: type[PMURegister], name: str, crm: int, doc: str) -> tuple[type[SysReg], ...]:
    """``<base><n>_EL0``, the register of each event counter."""
    made = []
    for n in range(MOST_COUNTERS):
        words: dict[str, Any] = {"op": (3, 3, 14, crm + (n >> 3), n & 7), "when": _PMU}
        register = new_class(
            f"{name}{n}_EL0",
            (base,),
            words,
            lambda body, n=n: body.update(  # type: ignore[misc]
                __doc__=f"{doc} {n}.", __module__=__name__, __slots__=()
            ),
        )
        made.append(register)
    return tuple(made)


PMEVCNTRS: Final = _numbered(PMEVCNTR, "PMEVCNTR", 8, "Performance Monitors Event Count Register")
"""PMEVCNTR<n>_EL0, by n."""
PMEVTYPERS: Final = _numbered(
    PMEVTYPER, "PMEVTYPER", 12, "Performance Monitors Event Type Register"
)
"""PMEVTYPER<n>_EL0, by n."""

PMU_REGISTERS: Final[tuple[type[SysReg], ...]] = (
    PMCR_EL0,
    PMCNTENSET_EL0,
    PMCNTENCLR_EL0,
    PMOVSCLR_EL0,
    PMSWINC_EL0,
    PMSELR_EL0,
    PMCEID0_EL0,
    PMCEID1_EL0,
    PMCCNTR_EL0,
    PMXEVTYPER_EL0,
    PMXEVCNTR_EL0,
    PMZR_EL0,
    PMUSERENR_EL0,
    PMOVSSET_EL0,
    PMINTENSET_EL1,
    PMINTENCLR_EL1,
    PMUACR_EL1,
    PMECR_EL1,
    PMMIR_EL1,
    PMIAR_EL1,
    PMICNTR_EL0,
    PMICFILTR_EL0,
    PMCCFILTR_EL0,
    *PMEVCNTRS,
    *PMEVTYPERS,
)
"""All of them."""
PMU_VALUES: Final[tuple[type[SysReg], ...]] = (PMSELR_EL0, PMUSERENR_EL0, PMUACR_EL1, PMECR_EL1)
"""Those that are plain values: what is written is what is read, whoever looks."""
