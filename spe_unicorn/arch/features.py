"""What a core implements: the FEAT_* set, and its IMPLEMENTATION DEFINED choices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final


class Feature(Enum):
    """An architectural feature, as Arm names it. Calling one asks a set: ``FEAT_SPE(features)``."""

    FEAT_SPE = "FEAT_SPE"
    FEAT_SPEv1p1 = "FEAT_SPEv1p1"
    FEAT_SPEv1p2 = "FEAT_SPEv1p2"
    FEAT_SPEv1p3 = "FEAT_SPEv1p3"
    FEAT_SPEv1p4 = "FEAT_SPEv1p4"
    FEAT_SPEv1p5 = "FEAT_SPEv1p5"
    FEAT_SPE_ALTCLK = "FEAT_SPE_ALTCLK"
    FEAT_SPE_ArchInst = "FEAT_SPE_ArchInst"
    FEAT_SPE_CRR = "FEAT_SPE_CRR"
    FEAT_SPE_DPFZS = "FEAT_SPE_DPFZS"
    FEAT_SPE_EFT = "FEAT_SPE_EFT"
    FEAT_SPE_ERnd = "FEAT_SPE_ERnd"
    FEAT_SPE_EXC = "FEAT_SPE_EXC"
    FEAT_SPE_FDS = "FEAT_SPE_FDS"
    FEAT_SPE_FnE = "FEAT_SPE_FnE"
    FEAT_SPE_FPF = "FEAT_SPE_FPF"
    FEAT_SPE_LDS = "FEAT_SPE_LDS"
    FEAT_SPE_PBT = "FEAT_SPE_PBT"
    FEAT_SPE_SME = "FEAT_SPE_SME"
    FEAT_SPE_nVM = "FEAT_SPE_nVM"
    FEAT_PMUv3 = "FEAT_PMUv3"
    FEAT_PMUv3p1 = "FEAT_PMUv3p1"
    FEAT_PMUv3p4 = "FEAT_PMUv3p4"
    FEAT_PMUv3p5 = "FEAT_PMUv3p5"
    FEAT_PMUv3p7 = "FEAT_PMUv3p7"
    FEAT_PMUv3p8 = "FEAT_PMUv3p8"
    FEAT_PMUv3p9 = "FEAT_PMUv3p9"
    FEAT_PMUv3_ICNTR = "FEAT_PMUv3_ICNTR"
    FEAT_PMUv3_TH = "FEAT_PMUv3_TH"
    FEAT_EBEP = "FEAT_EBEP"
    FEAT_SEBEP = "FEAT_SEBEP"
    FEAT_FGT = "FEAT_FGT"
    FEAT_FGT2 = "FEAT_FGT2"
    FEAT_Debugv8p2 = "FEAT_Debugv8p2"
    FEAT_Debugv8p4 = "FEAT_Debugv8p4"
    FEAT_Debugv8p8 = "FEAT_Debugv8p8"
    FEAT_DoubleLock = "FEAT_DoubleLock"
    FEAT_VHE = "FEAT_VHE"
    FEAT_NV = "FEAT_NV"
    FEAT_NV2 = "FEAT_NV2"
    FEAT_RME = "FEAT_RME"
    FEAT_SEL2 = "FEAT_SEL2"
    FEAT_ECV = "FEAT_ECV"
    FEAT_ECV_POFF = "FEAT_ECV_POFF"
    FEAT_SVE = "FEAT_SVE"
    FEAT_SVE2 = "FEAT_SVE2"
    FEAT_SVE_BitPerm = "FEAT_SVE_BitPerm"
    FEAT_SVE_SHA3 = "FEAT_SVE_SHA3"
    FEAT_SVE_AES = "FEAT_SVE_AES"
    FEAT_SVE_SM4 = "FEAT_SVE_SM4"
    FEAT_F32MM = "FEAT_F32MM"
    FEAT_F64MM = "FEAT_F64MM"
    FEAT_SVE2p1 = "FEAT_SVE2p1"
    FEAT_CSSC = "FEAT_CSSC"
    FEAT_CMPBR = "FEAT_CMPBR"
    FEAT_LS64 = "FEAT_LS64"
    FEAT_LUT = "FEAT_LUT"
    FEAT_LRCPC3 = "FEAT_LRCPC3"
    FEAT_CLRBHB = "FEAT_CLRBHB"
    FEAT_LSE128 = "FEAT_LSE128"
    FEAT_HBC = "FEAT_HBC"
    FEAT_SPECRES2 = "FEAT_SPECRES2"
    FEAT_I8MM = "FEAT_I8MM"
    FEAT_BF16 = "FEAT_BF16"
    FEAT_SME = "FEAT_SME"
    FEAT_MTE = "FEAT_MTE"
    FEAT_MTE2 = "FEAT_MTE2"
    FEAT_MTE3 = "FEAT_MTE3"
    FEAT_MOPS = "FEAT_MOPS"
    FEAT_HCX = "FEAT_HCX"
    FEAT_GCS = "FEAT_GCS"
    FEAT_CSV3 = "FEAT_CSV3"
    FEAT_CCIDX = "FEAT_CCIDX"
    FEAT_SSBS = "FEAT_SSBS"
    FEAT_SSBS2 = "FEAT_SSBS2"
    FEAT_DIT = "FEAT_DIT"
    FEAT_DGH = "FEAT_DGH"
    FEAT_LSE2 = "FEAT_LSE2"
    FEAT_TLBIOS = "FEAT_TLBIOS"
    FEAT_TLBIRANGE = "FEAT_TLBIRANGE"
    FEAT_XS = "FEAT_XS"
    FEAT_WFxT = "FEAT_WFxT"
    FEAT_EL2 = "EL2"
    FEAT_EL3 = "EL3"

    # Enum hashes the name, in Python, at each look-up in a set; members are unique anyway.
    __hash__ = object.__hash__

    def __call__(self, features: Features) -> bool:
        """Whether ``features`` hold this one."""
        return self in features


Features = frozenset[Feature]
"""The features that a core implements."""


Condition = Callable[[Features], bool]
"""A question about a set of features; each :class:`Feature` is one."""


def every(*conditions: Condition) -> Condition:
    """The condition that holds where all of ``conditions`` do."""
    if len(conditions) == 1:
        return conditions[0]
    return lambda features: all(condition(features) for condition in conditions)


def some(*conditions: Condition) -> Condition:
    """The condition that holds where at least one of ``conditions`` does."""
    return lambda features: any(condition(features) for condition in conditions)


def lacks(condition: Condition) -> Condition:
    """The condition that holds where ``condition`` does not."""
    return lambda features: not condition(features)


SYNCHRONOUS_EVENTS: Final = (
    "SW_INCR",
    "INST_RETIRED",
    "PC_WRITE_RETIRED",
    "BR_RETIRED",
    "BR_MIS_PRED_RETIRED",
)
"""The events that a counter in synchronous mode counts: those that FEAT_SEBEP demands."""


@dataclass(frozen=True)
class ImpDef:
    """The IMPLEMENTATION DEFINED choices that the architecture leaves to a core.

    Sizes are base-2 logarithms where the register field is one.
    """

    align: int = 6
    """PMBIDR_EL1.Align: records are multiples of ``1 << align`` bytes."""
    max_size: int = 7
    """PMSIDR_EL1.MaxSize: no record is longer than ``1 << max_size`` bytes."""
    count_size: int = 3
    """PMSIDR_EL1.CountSize: 2 for 12-bit, 3 for 16-bit saturating counters."""
    interval: int = 0
    """PMSIDR_EL1.Interval: the recommended minimum interval, as the register encodes it."""
    altclk: int = 1
    """PMSIDR_EL1.ALTCLK with FEAT_SPE_ALTCLK: 1 an external clock, 15 an own one."""
    max_sampled_operations: int = 1
    """How many sampled operations can be in flight before a selection collides."""
    speculative: bool = False
    """Whether operations on a mispredicted path belong to the sample population."""
    events: frozenset[int] = frozenset()
    """Numbers of the optional sample events that the core generates and can filter by."""
    data_sources: frozenset[int] = frozenset(range(64))
    """Data Source values, bits 5:0, by which PMSDSFR_EL1 can filter."""
    empty_filter_drops: bool = False
    """A sample filter that is enabled with nothing to select by, or with an event both required and
    forbidden, drops everything; else it acts as if it were disabled."""
    external_abort: int = 1
    """PMBIDR_EL1.EA: external aborts on record writes are 0 not described, 1 ignored, 2 SError."""
    record_slots: bool = False
    """Records have 64 bytes, in which each packet has its own place and the timestamp the last."""
    not_taken_target: bool = False
    """A conditional branch that is not taken has the next operation as its target."""
    flag_update: bool = True
    """PMBIDR_EL1.F: record writes update access flag and dirty state as the regime says."""
    pa_bits: int = 44
    """Physical address size, in bits; the engine has 44."""
    sve_bits: int = 2048
    """With FEAT_SVE, the longest vector, in bits; the engine has 2048."""
    granule: int = 12
    """The smallest translation granule: 12, 14 or 16 address bits."""
    secure_state: bool = True
    """With FEAT_RME, whether there is a Secure state."""
    secure_only: bool = False
    """Without EL3, whether the one Security state is Secure."""
    el3_sdd_undef_priority: bool = False
    """EL3SDDUndefPriority(): in Debug state, checks for EL3 traps come first."""
    pmu_shadow: tuple[tuple[str, int], ...] = ()
    """With FEAT_SEBEP, by event: how many operations with the event after the one that overflows a
    synchronous counter it takes until one observes the overflow (Arm ARM D13.2.2)."""
    pmu_threshold: tuple[tuple[str, int], ...] = ()
    """By event: the value of a counter from which there is no such shadow after a context
    synchronisation event or MSR PM. The highest without an entry: one event overflows."""
    buffer_locked: bool = False
    """While PMBLIMITR_EL1.E is 1, direct writes to PMBPTR_EL1, PMBSR_EL1, PMBMAR_EL1 and
    PMBLIMITR_EL1 are ignored, but for one that clears E."""
    late_writes: int = 0
    """A direct write to a register of SPE takes effect up to that many operations later, at the
    latest at the next context synchronization event; 0 is at once."""
    late_pmu_writes: int = 0
    """A direct write of EL1 or EL2 to a register of the Performance Monitors takes effect that many
    operations later, at the latest at the next context synchronization event, in program order; 0
    is at once."""
    late_records: int = 0
    """Up to that many records wait to be written, until a PSB CSYNC after a context synchronization
    event; 0 is none."""
    late_bytes: bool = False
    """The bytes of records reach memory at a DSB after that PSB CSYNC."""
    late_interrupt: int = 0
    """PMBIRQ rises up to that many operations after PMBSR_EL1.S is set; 0 is at once."""
    stale_status: int = 0
    """Reads of PMBPTR_EL1 and PMBSR_EL1 give what software last wrote or synchronized, for that
    many operations from the first such read; 0 is what they hold."""
    stale_counter: int = 0
    """Reads of PMSICR_EL1 give what it held at the last context synchronization event, for that
    many operations from the first such read; 0 is what it holds."""
    late_overflow: int = 0
    """PMUIRQ rises up to that many operations after a counter overflows; 0 is at once."""
    late_from: int = 0
    """The operation of a PE from which on the choices ``late_*`` and ``stale_*`` hold."""
    late_until: int = 0
    """The operation of a PE before which they hold; 0 is for ever."""
    zero_interval: int = 1
    """What PMSIRR_EL1.INTERVAL of 0 acts as."""
    packet_order: int = 0
    """0 is the order of the architecture's pseudocode; each other number is an order of its own, in
    which the End or Timestamp packet is the last."""
    disabled_record: int = 0
    """What becomes of a record where the buffer was disabled before it is written: 0 dropped, 1 an
    event "access not allowed", 2 written where PMBPTR_EL1 points."""
    pointer_outside: int = 0
    """What follows a record that finds PMBPTR_EL1 outside the rules: 0 buffer full, 1 an event
    "access not allowed", 2 nothing, and the record is dropped."""
    data_lost_at_start: bool = False
    """A fault at the first byte of a record sets PMBSR_ELx.DL; else DL stays as it is."""
    walk_abort_ea: bool = False
    """An External abort of a table walk sets PMBSR_ELx.EA; else EA stays as it is."""
    reserved_fill_discards: bool = False
    """A reserved PMBLIMITR_EL1.FM acts as discard mode; else as fill mode."""
    max_buffer: int = 0
    """PMBIDR_EL1.MaxBuffSize, as the field encodes it: a record that finds more than that between
    PMBPTR_EL1 and the limit is an event "buffer size too large"; 0 is no limit."""
    programming_denied: bool = False
    """The software above where the guest starts keeps the Profiling Buffer: PMBIDR_EL1.P is 1 and
    accesses to SPE's registers trap."""
    wrong_path_dropped: bool = False
    """A sampled operation on a path that is not taken gives no record."""
    previous_target_of_branches: bool = False
    """Records of taken branches alone have the target of the branch before."""
    bare_exceptions: bool = False
    """Records of operations that end in a synchronous exception have no packets but the Events and
    the last one."""
    untagged_addresses: bool = False
    """Where the top byte of a data address is no tag (TBI is 0), records have 0 there."""
    random_generator: int = 0
    """0 has sample intervals vary by the numbers of the machine's seed, each other number by
    others."""
    late_reload: bool = False
    """With FEAT_SPE_ERnd, PMSICR_EL1.COUNT is reloaded after the random count, not before it."""
    sampling_point: int = 0
    """How many members after the one at which the interval has passed one is selected."""
    reserved_owner: int = 0
    """Who owns the Profiling Buffer where MDCR_EL2.E2PB is reserved, or MDCR_EL3.{NSPBE,NSPB} are:
    0 EL1, and nobody; 1 EL2, and the state that NSPB names without NSPBE."""
    reserved_ee_enables: bool = False
    """A reserved PMSCR_EL1.EE acts as 0b11; else as 0b00."""
    unknown_values: int = 0
    """0 has registers begin with the UNKNOWN values of the machine's seed, each other number with
    others."""
    erratum_1694299: bool = False
    """Of Neoverse N1 up to r4p0: an operation in the same 16 bytes as the branch target before it
    is not sampled. The target of the next taken branch is sampled in its place."""
    identity: tuple[tuple[str, int], ...] = ()
    """ID registers of the core by name, as its manual has them; ``id`` in a profile. A field shows
    no more than that, even where more could be executed. Of CLIDR_EL1 it is which levels there are
    and where they meet."""


CHOICES: Final = tuple(choice for choice in fields(ImpDef) if choice.name != "identity")
"""The choices that stand under ``impdef`` in a profile."""
