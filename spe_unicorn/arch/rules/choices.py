"""What Arm leaves to an implementation: each choice, its values, the rule, what software must do.

One row for each field of :class:`~spe_unicorn.arch.features.ImpDef`. Profiles of cores, the
command line, the reference page and the search over legal implementations read these rows.
Sections are those of the Arm ARM, DDI 0487 M.a.a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from spe_unicorn.arch.features import CHOICES, SYNCHRONOUS_EVENTS, ImpDef
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.arch.registers.spe import OPTIONAL_EVENTS

_SOURCES: Final = 64
"""Data Source values that PMSDSFR_EL1 can tell apart."""


class Values(Protocol):
    """The values that a choice can have."""

    @property
    def text(self) -> str:
        """Which values are allowed, for people."""
        ...

    def allows(self, value: object) -> bool:
        """Whether a value of the right type is allowed."""
        ...

    def draw(self, random: RandomStream) -> object:
        """A value that is allowed."""
        ...


@dataclass(frozen=True)
class Numbers:
    """Some numbers. ``often`` are those that a search tries, all of them unless given."""

    numbers: range | tuple[int, ...]
    text: str
    often: tuple[int, ...] = ()

    def allows(self, value: object) -> bool:
        """Whether it is one of the numbers."""
        return value in self.numbers

    def draw(self, random: RandomStream) -> int:
        """One of those that a search tries."""
        tried = self.often or self.numbers
        return tried[random.bits64() % len(tried)]


@dataclass(frozen=True)
class Switch:
    """Yes or no."""

    text: str = "off, on"

    def allows(self, value: object) -> bool:
        """Both are."""
        return isinstance(value, bool)

    def draw(self, random: RandomStream) -> bool:
        """One of both, as likely."""
        return bool(random.bits64() >> 63)


@dataclass(frozen=True)
class Sets:
    """Any of the numbers whose bits are set in ``numbers``, together."""

    numbers: int
    text: str
    otherwise: str
    """What is wrong with a number that is none of them."""

    def allows(self, value: Any) -> bool:
        """Whether all of them are among the numbers."""
        return all(0 <= number < 64 and self.numbers >> number & 1 for number in value)

    def draw(self, random: RandomStream) -> frozenset[int]:
        """Each of the numbers or not, as likely."""
        drawn = random.bits64() & self.numbers
        return frozenset(number for number in range(64) if drawn >> number & 1)


@dataclass(frozen=True)
class ForEvents:
    """A number up to ``most`` for each of the events that a synchronous counter counts."""

    most: int
    text: str

    def allows(self, value: Any) -> bool:
        """Whether each pair is of such an event and such a number."""
        return all(
            name in SYNCHRONOUS_EVENTS and 0 <= number <= self.most for name, number in value
        )

    def draw(self, random: RandomStream) -> tuple[tuple[str, int], ...]:
        """A small number for each event."""
        most = min(self.most, 15) + 1
        return tuple((name, random.bits64() % most) for name in sorted(SYNCHRONOUS_EVENTS))


@dataclass(frozen=True)
class Choice:
    """One point that an implementation decides."""

    name: str
    values: Values
    rule: str
    """What allows it, and where that stands."""
    safe: str
    """What software does to work with each of the values; empty where it cannot tell them apart."""
    tried: bool = True
    """Whether a search over legal implementations tries its values."""

    @property
    def default(self) -> Any:
        """The value of a profile that says nothing."""
        return getattr(_DEFAULTS, self.name)


_DEFAULTS: Final = ImpDef()
_ID: Final = "D24.7, PMSIDR_EL1"
_BUFFER_ID: Final = "D24.7, PMBIDR_EL1"
_READ_ID: Final = "read the field, and assume nothing else"
_DRAIN: Final = "ISB, PSB CSYNC, DSB, ISB after profiling was disabled, in this order"
_LATE: Final = (1, 2, 3, 5, 8, 16, 64, 256, 1024)
_EVENTS: Final = "2, 4, 8 to 10, 12 to 15, 19 to 31, 48 to 63"
_PER_EVENT: Final = 0xFFFF

ROWS: Final = (
    Choice(
        "buffer_locked",
        Switch(),
        "DEN0154 SFDXJJ: while PMBLIMITR_EL1.E is 1, writes to PMBPTR_EL1, PMBSR_EL1, PMBMAR_EL1"
        " and PMBLIMITR_EL1 may be ignored, but for one that clears E",
        "clear PMBLIMITR_EL1.E and execute an ISB before writing any of them; set E last",
    ),
    Choice(
        "late_writes",
        Numbers(range(4097), "0 to 4096 operations", _LATE),
        "D17.9, D24.1.2: a direct write need not affect the unit before a context synchronization"
        " event, and those of several registers may take effect in any order",
        "an ISB after the writes that the next step relies on",
    ),
    Choice(
        "late_pmu_writes",
        Numbers(range(4097), "0 to 4096 operations", _LATE),
        "D24.1.2: a direct write to a register of the Performance Monitors need not affect the"
        " counters, nor what is read by another name, before a context synchronization event",
        "an ISB after the writes, before what is to be counted, and after PMSELR_EL0 before"
        " PMXEVTYPER_EL0 or PMXEVCNTR_EL0",
    ),
    Choice(
        "late_records",
        Numbers(range(65), "0 to 64 records", (1, 2, 4, 16)),
        "D17.9: the unit writes a record at any time, until a PSB CSYNC after a context"
        " synchronization event",
        f"{_DRAIN}, before PMBPTR_EL1 and PMBSR_EL1 are read or the buffer is disabled",
    ),
    Choice(
        "late_bytes",
        Switch(),
        "D17.9: a DSB after the PSB CSYNC completes when the writes of records have completed",
        "a DSB after the PSB CSYNC and before the records are read",
    ),
    Choice(
        "late_interrupt",
        Numbers(range(1 << 20), "0 to 1048575 operations", (1, 16, 256, 4096)),
        "D17.8: the interrupt of a management event is asynchronous",
        "read PMBSR_EL1 where it matters whether profiling has stopped; do not wait for PMBIRQ",
    ),
    Choice(
        "stale_status",
        Numbers(range(4097), "0 to 4096 operations", (1, 16, 256, 4096)),
        "D17.9, R_TRDTK: what the unit wrote to PMBPTR_EL1 and PMBSR_EL1 is read for certain only"
        " after a context synchronization event, PSB CSYNC and another one",
        f"{_DRAIN}, before PMBPTR_EL1 and PMBSR_EL1 are read",
    ),
    Choice(
        "stale_counter",
        Numbers(range(4097), "0 to 4096 operations", (1, 16, 256, 4096)),
        "D17.9, I_IRRBSZ: the unit writes PMSICR_EL1 indirectly, so a read is certain only behind a"
        " context synchronization event",
        "an ISB after profiling was disabled and before PMSICR_EL1 is read",
    ),
    Choice(
        "late_overflow",
        Numbers(range(1 << 20), "0 to 1048575 operations", (1, 16, 256, 4096)),
        "D13.2.1: the interrupt of a counter that overflows is asynchronous",
        "read PMOVSCLR_EL0 where it matters whether a counter overflowed; do not take the"
        " interrupted operation for the one that overflowed it",
    ),
    Choice(
        "late_from",
        Numbers(range(1 << 62), "operations"),
        "where the late choices begin to hold; silicon may be late anywhere",
        "",
        tried=False,
    ),
    Choice(
        "late_until",
        Numbers(range(1 << 62), "operations; 0 is for ever"),
        "where the late choices end to hold; silicon may be late anywhere",
        "",
        tried=False,
    ),
    Choice(
        "zero_interval",
        Numbers(range(1, 257), "1 to 256", (1, 2, 16, 256)),
        "D24.7, PMSIRR_EL1: with INTERVAL 0 the interval is UNKNOWN",
        "write an INTERVAL that is not 0, at least what PMSIDR_EL1.Interval recommends",
    ),
    Choice(
        "packet_order",
        Numbers(range(1 << 16), "0 to 65535", tuple(range(1, 17))),
        "D18.1: the order of packets is IMPLEMENTATION DEFINED, but for End and Timestamp",
        "read packets by their headers, in any order",
    ),
    Choice(
        "disabled_record",
        Numbers((0, 1, 2), "0, 1, 2"),
        "D17.9.1, R_SXWCP: a record whose buffer was disabled before it is written may be dropped,"
        ' be an event "access not allowed", or be written',
        f"{_DRAIN}, before the buffer is disabled and its memory is used for something else",
    ),
    Choice(
        "pointer_outside",
        Numbers((0, 1, 2), "0, 1, 2"),
        "D17.7: a pointer outside the rules is CONSTRAINED UNPREDICTABLE: an event, or records are"
        " dropped in silence",
        "PMBPTR_EL1 at least 2^MaxSize bytes before the limit, with the same bits 63:56",
    ),
    Choice(
        "data_lost_at_start",
        Switch(),
        "D17.8, R_YZJQX: DL after a fault at the first byte of a record is IMPLEMENTATION DEFINED",
        "take DL as: the last record may be partial",
    ),
    Choice(
        "walk_abort_ea",
        Switch(),
        "D17.8.3: EA after an External abort of a table walk is IMPLEMENTATION DEFINED",
        "decide by EC and FSC, and do not go on with the saved pointer where EA is set",
    ),
    Choice(
        "reserved_fill_discards",
        Switch(),
        "D24.7, PMBLIMITR_EL1: a reserved FM acts as one of the defined values",
        "write FM as 0b00, or as 0b10 where PMSIDR_EL1 has discard mode",
    ),
    Choice(
        "max_buffer",
        Numbers(range(1 << 14), "0 to 16383", (8, 16, 64, 512)),
        f"{_BUFFER_ID}.MaxBuffSize; PMBSR_EL1, BSC 0b000100: a larger buffer may be an event",
        "read MaxBuffSize, and make the buffer no larger",
    ),
    Choice(
        "programming_denied",
        Switch(),
        f"{_BUFFER_ID}.P: the buffer belongs to a higher Exception level or another Security state",
        "read P before any other register of SPE, and leave them alone where it is 1",
    ),
    Choice(
        "wrong_path_dropped",
        Switch(),
        "D17.3: a sampled operation that is cancelled, as its path was not taken, need not give a"
        " record",
        "do not expect a record of each sampled operation",
    ),
    Choice(
        "previous_target_of_branches",
        Switch(),
        "D18.1: in records of other operations than taken branches the packet is optional",
        "read packets by their headers, and miss none",
    ),
    Choice(
        "bare_exceptions",
        Switch(),
        "D18.1: in records of operations that end in a synchronous exception all packets but Events"
        " and the last one are optional",
        "read packets by their headers, and miss none",
    ),
    Choice(
        "untagged_addresses",
        Switch(),
        "D18.2.1: byte 7 of a data virtual address is VA[63:56] or 0 where its TBI is 0",
        "take bits 63:56 of an address for those of bit 55 where its TBI is 0",
    ),
    Choice(
        "random_generator",
        Numbers(range(1 << 16), "0 to 65535", tuple(range(1, 17))),
        "D17.3: the generator that varies the interval is IMPLEMENTATION DEFINED",
        "expect no certain operation to be sampled where PMSIRR_EL1.RND is 1",
    ),
    Choice(
        "late_reload",
        Switch(),
        "D17.3: with FEAT_SPE_ERnd the counter is reloaded before or after the random count",
        "take the mean interval as INTERVAL times 256, and up to 256 more",
    ),
    Choice(
        "sampling_point",
        Numbers(range(17), "0 to 16", (1, 2, 4, 16)),
        "D17.3: which operation is selected close to where the counter is zero is IMPLEMENTATION"
        " SPECIFIC, without bias",
        "expect a sample some operations later than PMSICR_EL1 says",
    ),
    Choice(
        "reserved_owner",
        Numbers((0, 1), "0, 1"),
        "D24.2, MDCR_EL2.E2PB, MDCR_EL3.{NSPBE,NSPB}: a reserved value acts as one of the defined"
        " values",
        "write E2PB as 0b00, 0b10 or 0b11, and NSPB as 0b10 or 0b11 where NSPBE is 1",
    ),
    Choice(
        "reserved_ee_enables",
        Switch(),
        "D24.7, PMSCR_EL1.EE: a reserved value acts as one of the defined values",
        "write EE as 0b00 or 0b11 where there is no FEAT_NV",
    ),
    Choice(
        "unknown_values",
        Numbers(range(1 << 16), "0 to 65535", tuple(range(1, 17))),
        "D24.7, D24.2: fields that no reset defines are UNKNOWN",
        "write each register before what it controls is enabled",
    ),
    Choice("align", Numbers(range(12), "0 to 11"), f"{_BUFFER_ID}.Align", _READ_ID),
    Choice(
        "max_size",
        Numbers(range(6, 12), "6 to 11"),
        f"{_ID}.MaxSize",
        "leave that many bytes between PMBPTR_EL1 and the limit",
    ),
    Choice("count_size", Numbers((2, 3), "2, 3"), f"{_ID}.CountSize", _READ_ID),
    Choice(
        "interval",
        Numbers((0, *range(2, 9)), "0, 2 to 8"),
        f"{_ID}.Interval",
        "write no smaller PMSIRR_EL1.INTERVAL",
    ),
    Choice("altclk", Numbers((1, 15), "1, 15"), f"{_ID}.ALTCLK", _READ_ID),
    Choice(
        "max_sampled_operations",
        Numbers(range(1, 65), "1 to 64", (1, 2, 4)),
        "D17.3.7: how many sampled operations can be in flight is IMPLEMENTATION DEFINED",
        "expect PMBSR_EL1.COLL, and fewer records than the interval promises",
    ),
    Choice(
        "speculative",
        Switch(),
        "D17.3: operations on a path that is not taken may be members of the population",
        "do not take a record without the event RETIRED for an executed operation",
    ),
    Choice(
        "events",
        Sets(OPTIONAL_EVENTS, _EVENTS, "is not optional"),
        "D18.2.8: which of the optional events there are",
        "ask for none that PMSEVFR_EL1 does not keep",
    ),
    Choice(
        "data_sources",
        Sets((1 << _SOURCES) - 1, "0 to 63", "is out of range"),
        "D24.7, PMSDSFR_EL1: which Data Source values it filters by",
        "read the register back",
    ),
    Choice(
        "empty_filter_drops",
        Switch(),
        "D17.5: a filter that is enabled with nothing to select by is CONSTRAINED UNPREDICTABLE",
        "enable no filter without a mask",
    ),
    Choice(
        "external_abort",
        Numbers((0, 1, 2), "0, 1, 2"),
        f"{_BUFFER_ID}.EA",
        "put the buffer where memory answers",
    ),
    Choice(
        "record_slots",
        Switch(),
        "D18.1: where padding stands is IMPLEMENTATION DEFINED",
        "read packets by their headers; skip padding anywhere",
    ),
    Choice(
        "not_taken_target",
        Switch(),
        "D18.2.2: the target of a branch that is not taken is UNKNOWN",
        "do not read it",
    ),
    Choice("flag_update", Switch(), f"{_BUFFER_ID}.F", "map the buffer accessed and dirty"),
    Choice(
        "pa_bits",
        Numbers((32, 36, 40, 42, 44), "32, 36, 40, 42, 44"),
        "D24.2, ID_AA64MMFR0_EL1.PARange",
        _READ_ID,
        tried=False,
    ),
    Choice(
        "sve_bits",
        Numbers((128, 256, 512, 1024, 2048), "128, 256, 512, 1024, 2048"),
        "the longest vector is IMPLEMENTATION DEFINED",
        "write ZCR_ELx.LEN and read the length with RDVL",
        tried=False,
    ),
    Choice(
        "granule",
        Numbers((12, 14, 16), "12, 14, 16"),
        "D24.2, ID_AA64MMFR0_EL1.TGran*",
        _READ_ID,
        tried=False,
    ),
    Choice(
        "secure_state", Switch(), "FEAT_RME without a Secure state", "do not use it", tried=False
    ),
    Choice(
        "secure_only",
        Switch(),
        "without EL3 an implementation has one Security state",
        "do not assume which",
        tried=False,
    ),
    Choice(
        "el3_sdd_undef_priority",
        Switch(),
        "EL3SDDUndefPriority() is IMPLEMENTATION DEFINED",
        "do not rely on the order of two traps in Debug state",
        tried=False,
    ),
    Choice(
        "pmu_shadow",
        ForEvents(_PER_EVENT, "0 to 65535"),
        "D13.2.2: operations after the one that overflows a synchronous counter may complete before"
        " one observes the overflow",
        "do not take the interrupted operation for the one that overflowed the counter",
    ),
    Choice(
        "pmu_threshold",
        ForEvents((1 << 64) - 1, "0 to 2**64 - 1"),
        "D13.2.2: the value of a counter from which there is no such shadow",
        "as for pmu_shadow",
        tried=False,
    ),
    Choice(
        "erratum_1694299",
        Switch(),
        "erratum 1694299 of Neoverse N1 up to r4p0: targets of branches are sampled too often, and"
        " some operations closely behind them too rarely",
        "do not take the samples of one operation for how often it is executed; add up those of a"
        " loop or a function",
    ),
)
"""Every choice, those that are made by time and order first.

What a trial of a search has follows from their order, so a new one is the last.
"""
CHOICE: Final = {row.name: row for row in ROWS}
"""The rows by name."""
if CHOICE.keys() != {choice.name for choice in CHOICES}:
    raise LookupError("the rows are not those of ImpDef")
