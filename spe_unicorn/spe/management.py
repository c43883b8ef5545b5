"""Profiling Buffer management events: what they say, where they are recorded, what they raise.

Arm ARM D17.8. An event is a value; :func:`recorded` gives the syndrome register after it,
:func:`reporting_el` says whose register that is,
:func:`pmbirq_level` and :func:`pending_exception` what software notices of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from spe_unicorn.arch.access.syndrome_text import fault_status_text
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import FaultRecord
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.spe import (
    PMBSR,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL1,
    PMSCR_EL2,
    BufferStatus,
    EventClass,
    ExceptionEnable,
)
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.arch.rules.effective import (
    effective_mdcr_el3_pmsee,
    effective_pmscr_el1_ee,
    effective_pmscr_el2_ee,
    lower_security_state,
    profiling_buffer_owner,
    tge,
)
from spe_unicorn.spe.enabling import el2_takes_events, el3_takes_events

PMBSR_BY_EL: Final[dict[int, type[PMBSR]]] = {EL1: PMBSR_EL1, EL2: PMBSR_EL2, EL3: PMBSR_EL3}

P = TypeVar("P", bound=PMBSR)

_ABORTS = (EventClass.STAGE1_ABORT, EventClass.STAGE2_ABORT)
_GPF = frozenset({*range(0x22, 0x28), 0x28})
_EXTERNAL = frozenset({0x10, *range(0x12, 0x18), 0x1B})
_SYNC_EXTERNAL_ABORT = 0x10
_STATUSES: Final = {
    BufferStatus.NOT_ALLOWED: "access not allowed",
    BufferStatus.FULL: "buffer full",
    BufferStatus.TOO_LARGE: "buffer size too large",
}


@dataclass(frozen=True)
class ManagementEvent:
    """One event: its class, and what stands in MSS[5:0], a BSC or an FSC.

    ``address`` is the value of PMBPTR_EL1, ``data_lost`` says that a record is partial.
    """

    EC: EventClass
    status: int
    address: int
    data_lost: bool = False
    external_abort: bool = False

    @property
    def kind(self) -> str:
        """The event in a word or two, as summaries count it."""
        if self.EC == EventClass.OTHER:
            return BufferStatus(self.status).name.lower()
        return self.EC.name.lower()

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full."""
        return self.EC == EventClass.OTHER and self.status == BufferStatus.FULL

    @property
    def is_gpc_fault(self) -> bool:
        """A granule protection check that failed other than by a granule protection fault."""
        return self.EC == EventClass.GPC_FAULT

    @property
    def is_gpf(self) -> bool:
        """A granule protection fault, of the access or of a table walk."""
        return self.EC in _ABORTS and self.status in _GPF

    @property
    def is_external_abort(self) -> bool:
        """A synchronous External abort, of the access or of a table walk."""
        return self.EC in _ABORTS and self.status in _EXTERNAL


def status_text(pmbsr: PMBSR) -> str:
    """What MSS says in the class of event that EC names: a BSC or an FSC, and its meaning.

    Arm ARM D24.7, PMBSR_EL1.
    """
    status = pmbsr.MSS & 0x3F
    if pmbsr.EC in _ABORTS:
        return f"FSC {status:#x}, {fault_status_text(status)}"
    if pmbsr.EC == EventClass.OTHER:
        known = status in set(BufferStatus)
        words = _STATUSES[BufferStatus(status)] if known else "a reserved value"
        return f"BSC {status:#x}, {words}"
    if pmbsr.EC == EventClass.GPC_FAULT:
        return "0, a granule protection check that failed says no more"
    return "IMPLEMENTATION DEFINED" if pmbsr.EC == EventClass.IMPDEF else "reserved with this EC"


def buffer_full(address: int) -> ManagementEvent:
    """The event that another record may not fit at ``address``."""
    return ManagementEvent(EventClass.OTHER, BufferStatus.FULL, address)


def too_large(address: int) -> ManagementEvent:
    """The event of a buffer that is larger than PMBIDR_EL1.MaxBuffSize, seen at ``address``."""
    return ManagementEvent(EventClass.OTHER, BufferStatus.TOO_LARGE, address)


def buffer_bytes(size: int) -> int:
    """The bytes that PMBIDR_EL1.MaxBuffSize stands for (Arm ARM D24.7): more than any for 0."""
    exponent, mantissa = size >> 9, size & 0x1FF
    if size == 0:
        return 1 << 64
    return mantissa << 12 if exponent == 0 else (0x200 + mantissa) << exponent + 11


def not_allowed(address: int) -> ManagementEvent:
    """The event of a record that must not be written, at ``address``; its data is lost."""
    return ManagementEvent(EventClass.OTHER, BufferStatus.NOT_ALLOWED, address, data_lost=True)


def mmu_fault(
    fault: FaultRecord, address: int, *, data_lost: bool, walk_abort_ea: bool = False
) -> ManagementEvent:
    """The event of a write to ``address`` that did not translate.

    ``data_lost``: a part of its record was written before. ``walk_abort_ea``: EA tells of External
    aborts of table walks, too.
    """
    ec = EventClass.STAGE2_ABORT if fault.stage2 else EventClass.STAGE1_ABORT
    abort = walk_abort_ea and fault.fsc in _EXTERNAL
    return ManagementEvent(ec, fault.fsc, address, data_lost=data_lost, external_abort=abort)


def external_abort(address: int, *, data_lost: bool) -> ManagementEvent:
    """The event of a write to ``address`` that the memory system refused."""
    return ManagementEvent(
        EventClass.STAGE1_ABORT,
        _SYNC_EXTERNAL_ABORT,
        address,
        data_lost=data_lost,
        external_abort=True,
    )


def recorded(pmbsr: P, event: ManagementEvent) -> P:
    """The syndrome register after ``event``: an earlier event keeps its syndrome.

    DL and EA are sticky. COLL stays as it is.
    """
    sticky = pmbsr.replace(
        DL=pmbsr.DL | event.data_lost,
        EA=pmbsr.EA | event.external_abort,
    )
    if pmbsr.S:
        return sticky
    return sticky.replace(S=1, EC=event.EC, MSS=event.status, MSS2=0)


def reporting_el(pe: PE, event: ManagementEvent | None) -> int:
    """ReportSPEEvent(). The Exception level whose PMBSR_ELx records ``event``: 1, 2 or 3.

    ``event`` is None for a sample collision, which goes where "other events" go.
    """
    if Feature.FEAT_SPE_EXC not in pe.features:
        return EL1
    if _goes_to_el3(pe, event):
        return EL3
    return EL2 if _goes_to_el2(pe, event) else EL1


def _goes_to_el3(pe: PE, event: ManagementEvent | None) -> bool:
    if not el3_takes_events(pe):
        return False
    if effective_mdcr_el3_pmsee(pe) == ExceptionEnable.ALL_EVENTS:
        return True
    if event is None:
        return False
    scr = pe.registers.read(SCR_EL3)
    return (
        event.is_gpc_fault
        or (event.is_gpf and bool(scr.GPF))
        or (event.is_external_abort and bool(scr.EA))
    )


def _goes_to_el2(pe: PE, event: ManagementEvent | None) -> bool:
    if not el2_takes_events(pe):
        return False
    if effective_pmscr_el2_ee(pe) == ExceptionEnable.ALL_EVENTS:
        return True
    if event is None:
        return False
    owner = profiling_buffer_owner(pe)
    hcr = pe.registers.read(HCR_EL2)
    return (
        (event.EC == EventClass.STAGE1_ABORT and owner is not None and owner.el == EL2)
        or event.EC == EventClass.STAGE2_ABORT
        or event.is_gpc_fault
        or (event.is_gpf and bool(hcr.GPF))
        or (event.is_external_abort and bool(hcr.TEA))
    )


def pmbirq_level(pe: PE) -> bool:
    """The level of PMBIRQ: PMBSR_EL1 records an event for which no exception is taken instead."""
    masked = effective_pmscr_el1_ee(pe) != ExceptionEnable.DISABLED
    return not masked and bool(pe.registers.read(PMBSR_EL1).S)


def exception_requested(pe: PE) -> bool:
    """Whether an event asks for an SPE Profiling exception, which may be masked."""
    if Feature.FEAT_SPE_EXC not in pe.features:
        return False
    registers = pe.registers
    if el3_takes_events(pe) and registers.read(PMBSR_EL3).S:
        return True
    if el2_takes_events(pe) and registers.read(PMBSR_EL2).S:
        return True
    ee = effective_pmscr_el1_ee(pe)
    return ee == ExceptionEnable.ALL_EVENTS and bool(registers.read(PMBSR_EL1).S)


def pending_exception(pe: PE) -> int | None:
    """The Exception level to which an SPE Profiling exception is to be taken now, None for none.

    Of several pending ones the highest level's goes first, our choice. The caller enters it through
    the synchronous vector with the syndrome that ``arch.exceptions.syndromes`` has for it; it
    returns to the next instruction.
    """
    if Feature.FEAT_SPE_EXC not in pe.features or pe.halted:
        return None
    registers = pe.registers
    if el3_takes_events(pe) and pe.el != EL3 and registers.read(PMBSR_EL3).S:
        return EL3
    owner = profiling_buffer_owner(pe)
    if pe.el == EL3 or owner is None or owner.state is not lower_security_state(pe):
        return None
    if el2_takes_events(pe) and registers.read(PMBSR_EL2).S:
        all_events = effective_pmscr_el2_ee(pe) == ExceptionEnable.ALL_EVENTS
        unmasked = all_events and registers.read(PMSCR_EL2).KE and not pe.pm
        if pe.el != EL2 or unmasked:
            return EL2
    if effective_pmscr_el1_ee(pe) == ExceptionEnable.ALL_EVENTS and registers.read(PMBSR_EL1).S:
        unmasked = registers.read(PMSCR_EL1).KE and not pe.pm
        if pe.el == EL0 or (pe.el == EL1 and unmasked):
            return EL2 if tge(pe) else EL1
    return None
