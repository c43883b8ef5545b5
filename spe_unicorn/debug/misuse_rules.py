"""What the architecture asks of software that programs SPE, one :class:`Rule` a mistake.

``source`` names the part of the Arm Architecture Reference Manual (ARM DDI 0487, issue M.a.a) and,
where it has one, the rule's identifier there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Rule:
    """A rule in a sentence, where it stands, and what to do to keep it.

    ``recommended`` is one that the architecture only recommends: breaking it may be meant.
    """

    name: str
    text: str
    source: str
    advice: str
    recommended: bool = False


POINTER_UNALIGNED: Final = Rule(
    "pointer-unaligned",
    "a buffer that is used begins at a multiple of 1 << PMBIDR_EL1.Align bytes, as it is written to"
    " PMBPTR_EL1",
    "D17.7.4, R_HLXGD",
    "round the start of the buffer up to that alignment",
)
LIMIT_UNALIGNED: Final = Rule(
    "limit-unaligned",
    "the limit is a multiple of the smallest translation granule; the bits below it are controls",
    "D17.7",
    "round the end of the buffer down to a page before adding E and FM",
)
POINTER_TOO_HIGH: Final = Rule(
    "pointer-too-high",
    "when profiling becomes enabled, a record of 1 << PMSIDR_EL1.MaxSize bytes fits between"
    " PMBPTR_EL1 and the limit",
    "D17.7.4, R_HXSYK",
    "move PMBPTR_EL1 back or the limit on; after a buffer full event, before PMBSR_EL1 is cleared",
)
POINTER_TOP_BYTE: Final = Rule(
    "pointer-top-byte",
    "when profiling becomes enabled, bits 63:56 of PMBPTR_EL1 and of the limit are equal",
    "D17.7.4, R_HXSYK",
    "use the same tag, or none, in both addresses",
)
BUFFER_OUTSIDE_MEMORY: Final = Rule(
    "buffer-outside-memory",
    "when profiling becomes enabled, all of the buffer up to the limit is memory: a write beyond it"
    " is an External abort, or lost",
    "D17.7; D17.8",
    "end the buffer, and the limit with it, inside RAM",
)
BUFFER_OVER_PROGRAM: Final = Rule(
    "buffer-over-program",
    "the unit writes to all of the buffer up to the limit, whatever lies there",
    "D17.7",
    "end the limit where the memory ends that was set aside for records",
)
BUFFER_TOO_LARGE: Final = Rule(
    "buffer-too-large",
    "when profiling becomes enabled, no more than PMBIDR_EL1.MaxBuffSize lies between PMBPTR_EL1"
    " and the limit, where that field is not 0",
    "D24.7, PMBIDR_EL1, PMBSR_EL1",
    "read PMBIDR_EL1.MaxBuffSize, and make the buffer no larger",
)
IDENTIFICATION_NOT_READ: Final = Rule(
    "identification-not-read",
    "PMBIDR_EL1 alone says whether software may program the buffer here (P), where it may begin"
    " (Align) and how large it may be (MaxBuffSize)",
    "D24.7, PMBIDR_EL1",
    "read PMBIDR_EL1 before any other register of SPE, and leave them alone where P is 1",
)
INTERVAL_UNKNOWN: Final = Rule(
    "interval-unknown",
    "PMSIRR_EL1 is UNKNOWN after a reset, and so is the interval between samples",
    "D24.7, PMSIRR_EL1",
    "write PMSIRR_EL1 before profiling is enabled",
)
COUNTER_UNKNOWN: Final = Rule(
    "counter-unknown",
    "PMSICR_EL1 is UNKNOWN after a reset, and so is how far away the first sample is",
    "D24.7, PMSICR_EL1",
    "write 0 to PMSICR_EL1 before profiling is enabled: the first sample then comes after an"
    " interval",
)
FILTER_UNKNOWN: Final = Rule(
    "filter-unknown",
    "PMSFCR_EL1 and the filters that it enables are UNKNOWN after a reset, and so is which records"
    " are kept",
    "D24.7, PMSFCR_EL1",
    "write PMSFCR_EL1 before profiling is enabled, 0 to keep all records, and before that the"
    " registers of the filters that it enables: PMSEVFR_EL1, PMSNEVFR_EL1, PMSLATFR_EL1,"
    " PMSDSFR_EL1",
)
POINTER_UNKNOWN: Final = Rule(
    "pointer-unknown",
    "PMBPTR_EL1 is UNKNOWN after a reset, and so is where records are written",
    "D24.7, PMBPTR_EL1",
    "write the start of the buffer to PMBPTR_EL1 before profiling is enabled",
)
INTERVAL_ZERO: Final = Rule(
    "interval-zero",
    "with PMSIRR_EL1.INTERVAL 0 the interval between samples is UNKNOWN",
    "D24.7, PMSIRR_EL1",
    "write the interval before profiling is enabled; it is UNKNOWN after a reset",
)
INTERVAL_TOO_SHORT: Final = Rule(
    "interval-too-short",
    "PMSIDR_EL1.Interval is the shortest interval that the core's designer recommends",
    "D24.7, PMSIDR_EL1",
    "sample less often, or expect collisions and a program that runs slower",
    recommended=True,
)
EVENT_FILTER_EMPTY: Final = Rule(
    "event-filter-empty",
    "with PMSFCR_EL1.FE and no event chosen in PMSEVFR_EL1, which records are kept is CONSTRAINED"
    " UNPREDICTABLE",
    "D17.5.2; D24.7, PMSFCR_EL1",
    "choose an event that this core has, or leave FE 0",
)
INVERTED_FILTER_EMPTY: Final = Rule(
    "inverted-filter-empty",
    "with PMSFCR_EL1.FnE and no event chosen in PMSNEVFR_EL1, which records are kept is CONSTRAINED"
    " UNPREDICTABLE",
    "D17.5.2; D24.7, PMSFCR_EL1",
    "choose an event that this core has, or leave FnE 0",
)
FILTERS_CONTRADICT: Final = Rule(
    "filters-contradict",
    "with PMSFCR_EL1.FE and FnE and the same event in both sets, which records are kept is"
    " CONSTRAINED UNPREDICTABLE",
    "D24.7, PMSFCR_EL1",
    "take the event out of PMSEVFR_EL1 or out of PMSNEVFR_EL1",
)
LATENCY_FILTER_ZERO: Final = Rule(
    "latency-filter-zero",
    "with PMSFCR_EL1.FL and PMSLATFR_EL1.MINLAT 0, which records are kept is CONSTRAINED"
    " UNPREDICTABLE",
    "D17.5.3; D24.7, PMSFCR_EL1",
    "write a latency of at least 1 cycle, or leave FL 0",
)
TYPE_FILTER_EMPTY: Final = Rule(
    "type-filter-empty",
    "with PMSFCR_EL1.FT and no type of operation chosen, which records are kept is CONSTRAINED"
    " UNPREDICTABLE",
    "D17.5.1",
    "set LD, ST or B, or leave FT 0",
)
ENABLED_WHILE_STOPPED: Final = Rule(
    "enabled-while-stopped",
    "while PMBSR_ELx.S is 1 profiling is stopped, whatever else is set",
    "D17.4, R_TWFRY",
    "write 0 to PMBSR_ELx before profiling is enabled; it is UNKNOWN after a reset",
)
RESUMED_AFTER_LOSS: Final = Rule(
    "resumed-after-loss",
    "after a management event with DL or EA, profiling is not resumed with the pointer as it is",
    "D17.7.4, R_HLXGD",
    "start a new buffer: write PMBPTR_EL1 before PMBSR_ELx is cleared",
)
SETUP_NOT_SYNCHRONIZED: Final = Rule(
    "setup-not-synchronized",
    "without a context synchronization event, whether the first samples see the old or the new"
    " value of a register is UNPREDICTABLE",
    "D17.9.1, R_PVRNK; D17.9, I_NDWCG",
    "put an ISB before the write that enables profiling",
)
READ_NOT_SYNCHRONIZED: Final = Rule(
    "read-not-synchronized",
    "what the profiling unit wrote to a register is read for certain only after a context"
    " synchronization event, PSB CSYNC, and another context synchronization event (PMSICR_EL1:"
    " after the first)",
    "D17.9, R_TRDTK, I_MLGHW",
    "stop profiling, then ISB; PSB CSYNC; DSB NSH; ISB; then read",
)
WRITE_WHILE_PROFILING: Final = Rule(
    "write-while-profiling",
    "a register that is written while profiling is enabled here reaches samples at an UNPREDICTABLE"
    " time, or collides with what the unit writes to it",
    "D17.9, I_WZSLB; D17.9.1, R_PVRNK",
    "stop profiling first: PMSCR_ELx, ISB, PSB CSYNC",
)
WRITE_BEFORE_DRAIN: Final = Rule(
    "write-before-drain",
    "samples that no PSB CSYNC has synchronized may see the new value, and are lost or written"
    " elsewhere if the buffer changes under them",
    "D17.9, I_MLGHW; D17.9.1, R_SXWCP",
    "drain first: PMSCR_ELx, ISB, PSB CSYNC, and DSB NSH before the records are read",
)
WRITE_WHILE_BUFFER_ENABLED: Final = Rule(
    "write-while-buffer-enabled",
    "while PMBLIMITR_EL1.E is 1, a write to PMBPTR_EL1, PMBSR_EL1, PMBMAR_EL1 or PMBLIMITR_EL1 may"
    " be ignored, but for one that clears E",
    "D17.7; DEN0154, SFDXJJ",
    "clear PMBLIMITR_EL1.E and execute an ISB before writing any of them; set E last",
)
END_NOT_READ: Final = Rule(
    "end-not-read",
    "PMBPTR_EL1 alone tells where the records end: what is read from it after a write, with no"
    " record in between, is what was written",
    "D17.7.4",
    "read PMBPTR_EL1 before it is written; let nothing reset it while somebody is to read it",
)
RECORDS_NOT_SYNCHRONIZED: Final = Rule(
    "records-not-synchronized",
    "a record is in memory for certain only after a DSB of loads and stores that follows a context"
    " synchronization event and PSB CSYNC",
    "D17.9, I_MLGHW",
    "read the buffer after ISB; PSB CSYNC; DSB NSH",
)
CONTEXT_BEFORE_DRAIN: Final = Rule(
    "context-before-drain",
    "records are forced into the buffer by PSB CSYNC before what they are translated by changes",
    "D17.9.1, I_PDDCL",
    "drain first: PMSCR_ELx, ISB, PSB CSYNC, DSB NSH",
)
RESERVED_VALUE: Final = Rule(
    "reserved-value",
    "a reserved value of a field behaves in a CONSTRAINED UNPREDICTABLE way",
    "D24.7; D24.2",
    "use a value that this core defines; spe-unicorn regs NAME lists them",
)
RESERVED_BITS: Final = Rule(
    "reserved-bits",
    "software writes 0 to bits that are reserved, as those of a feature that the core lacks",
    "D24.7",
    "look at PMSIDR_EL1, PMBIDR_EL1 and ID_AA64DFR0_EL1.PMSVer before using them",
)
ENABLE_IGNORED: Final = Rule(
    "enable-ignored",
    "PMSCR_EL2.E2SPE and E0HSPE are RES0 unless EL2 owns the Profiling Buffer",
    "D24.7, PMSCR_EL2",
    "write 0b00 to MDCR_EL2.E2PB first",
)

STOP_NOT_SERVED: Final = Rule(
    "stop-not-served",
    "a management event stops profiling until software writes 0 to PMBSR_ELx.S",
    "D17.4, R_TWFRY; D17.8",
    "enable INTID 21 with a handler, or read PMBSR_ELx whenever the buffer is drained; then start a"
    " new buffer",
)
STATUS_UNKNOWN: Final = Rule(
    "status-unknown",
    "PMBSR_ELx.S is UNKNOWN after a reset, and PMBIRQ is asserted while it is 1",
    "D24.7, PMBSR_EL1; D17.8",
    "write 0 to PMBSR_ELx before the interrupt is enabled and unmasked",
)
INTERRUPT_NOT_TAKEN: Final = Rule(
    "interrupt-not-taken",
    "PMBIRQ is PPI 21: it is taken while that INTID, its group and the PE let it through",
    "D17.8; PPI 21 by Arm's base system architecture",
    "enable INTID 21, its group in GICD_CTLR and ICC_IGRPENx_EL1, raise ICC_PMR_EL1, clear"
    " PSTATE.I; or poll PMBSR_EL1 and leave the interrupt disabled",
)
INTERRUPT_STORM: Final = Rule(
    "interrupt-storm",
    "PMBIRQ stays asserted while PMBSR_ELx.S is 1, so a handler that leaves it 1 is entered again"
    " as soon as it returns",
    "D17.8",
    "write 0 to PMBSR_ELx in the handler, then ISB, before it writes ICC_EOIRx_EL1",
)
INTERRUPT_NOT_ENDED: Final = Rule(
    "interrupt-not-ended",
    "an interrupt that was acknowledged is active, and keeps others of its priority away, until its"
    " end is written to ICC_EOIRx_EL1",
    "D17.8; GICv3 (IHI 0069)",
    "write the INTID that ICC_IARx_EL1 gave to ICC_EOIRx_EL1 before the handler returns",
)

RULES: Final = tuple(value for value in vars().values() if isinstance(value, Rule))
"""All of them."""
