"""When profiling is enabled, and what it may collect where it is (Arm ARM D17.2, D17.4, D17.6).

Pure functions of a PE as it stands; see ``arch.rules.effective`` for who owns the Profiling Buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL1,
    PMSCR_EL2,
    ExceptionEnable,
    FillMode,
    TimestampCounter,
)
from spe_unicorn.arch.registers.system import (
    CNTVOFF_EL2,
    CONTEXTIDR_EL1,
    CONTEXTIDR_EL2,
)
from spe_unicorn.arch.rules.effective import (
    BufferOwner,
    effective_mdcr_el3_pmsee,
    effective_pmscr_el2_ee,
    el2_enabled,
    el2_enabled_in,
    el_is_in_host,
    have_el,
    lower_security_state,
    physical_offset,
    profiling_buffer_owner,
    tge,
)

_OWN_OR_ALL_EVENTS = (ExceptionEnable.OWN_EVENTS, ExceptionEnable.ALL_EVENTS)
"""Values of an EE field with which the PMBSR_ELx of its Exception level is in use."""


def el2_takes_events(pe: PE) -> bool:
    """Whether PMBSR_EL2 is in use. The PE has FEAT_SPE_EXC."""
    return effective_pmscr_el2_ee(pe) in _OWN_OR_ALL_EVENTS


def el3_takes_events(pe: PE) -> bool:
    """Whether PMBSR_EL3 is in use. The PE has FEAT_SPE_EXC."""
    return have_el(pe, EL3) and effective_mdcr_el3_pmsee(pe) in _OWN_OR_ALL_EVENTS


def profiling_stopped(pe: PE) -> bool:
    """SPEProfilingStopped(). Whether a management event keeps profiling from going on."""
    registers = pe.registers
    if registers.read(PMBSR_EL1).S:
        return True
    if Feature.FEAT_SPE_EXC not in pe.features:
        return False
    if el2_takes_events(pe) and registers.read(PMBSR_EL2).S:
        return True
    return el3_takes_events(pe) and bool(registers.read(PMBSR_EL3).S)


def profiling_buffer_enabled(pe: PE) -> bool:
    """ProfilingBufferEnabled(). Whether records can be written."""
    return profiling_buffer_on(pe) and not profiling_stopped(pe)


def profiling_buffer_on(pe: PE) -> bool:
    """Whether records could be written, were it not for management events."""
    if Feature.FEAT_SPE not in pe.features or pe.halted:
        return False
    owner = profiling_buffer_owner(pe)
    return (
        owner is not None
        and owner.state is lower_security_state(pe)
        and bool(pe.registers.read(PMBLIMITR_EL1).E)
    )


def discards(pe: PE) -> bool:
    """Whether the enabled buffer is in discard mode; what a reserved FM means is a choice."""
    if Feature.FEAT_SPEv1p2 not in pe.features:
        return False
    fill_mode = pe.registers.read(PMBLIMITR_EL1).FM
    if fill_mode in (FillMode.FILL, FillMode.DISCARD):
        return fill_mode == FillMode.DISCARD
    return pe.impdef.reserved_fill_discards


def statistical_profiling_enabled(pe: PE, el: int) -> bool:
    """StatisticalProfilingEnabled(). Whether operations at ``el`` belong to the population."""
    return profiling_buffer_enabled(pe) and profiling_chosen(pe, el)


def profiling_chosen(pe: PE, el: int) -> bool:
    """Whether software chose to profile ``el``, and the buffer's owner may do so."""
    owner = profiling_buffer_owner(pe)
    if owner is None or el > owner.el or (tge(pe) and owner.el == EL1):
        return False
    if el == EL2:
        return bool(pe.registers.read(PMSCR_EL2).E2SPE)
    if el == EL1:
        return bool(pe.registers.read(PMSCR_EL1).E1SPE)
    if tge(pe):
        return bool(pe.registers.read(PMSCR_EL2).E0HSPE)
    return bool(pe.registers.read(PMSCR_EL1).E0SPE)


@dataclass(frozen=True, slots=True)
class Collection:
    """What the registers add to a record.

    ``context1`` and ``context2`` are CONTEXTIDR_EL1 and CONTEXTIDR_EL2 or None, ``pa`` says
    whether a record has physical addresses, ``timestamp_offset`` is subtracted from the physical
    count, None without a Timestamp packet.
    """

    context1: int | None = None
    context2: int | None = None
    pa: bool = False
    timestamp_offset: int | None = None


def collection(pe: PE, el: int, owner: BufferOwner | None) -> Collection:
    """What is collected of an operation at ``el`` while ``owner`` has the buffer."""
    if owner is None:
        return Collection()
    registers = pe.registers
    pmscr_el1 = registers.read(PMSCR_EL1)
    context1 = context2 = None
    if pmscr_el1.CX and el != EL2 and not tge(pe):
        context1 = registers.read(CONTEXTIDR_EL1).PROCID
    if el2_enabled(pe) and registers.read(PMSCR_EL2).CX:
        context2 = registers.read(CONTEXTIDR_EL2).PROCID
    return Collection(
        context1,
        context2,
        pa=_collects_pa(pe, owner),
        timestamp_offset=_timestamp_offset(pe, el, owner),
    )


def _collects_pa(pe: PE, owner: BufferOwner) -> bool:
    """CollectPhysicalAddress()."""
    el1 = bool(pe.registers.read(PMSCR_EL1).PA)
    if not el2_enabled_in(pe, owner.state):
        return el1
    return bool(pe.registers.read(PMSCR_EL2).PA) and (owner.el == EL2 or el1)


def _timestamp_offset(pe: PE, el: int, owner: BufferOwner) -> int | None:
    """CollectTimeStamp(). What is subtracted from the physical count; None for no timestamp."""
    registers = pe.registers
    ts = registers.read(PMSCR_EL2).TS if owner.el == EL2 else registers.read(PMSCR_EL1).TS
    if not ts:
        return None
    counter = _timestamp_counter(pe, owner)
    if counter == TimestampCounter.PHYSICAL:
        return 0
    if counter == TimestampCounter.OFFSET:
        return physical_offset(pe)
    return _virtual_offset(pe, el)


def _timestamp_counter(pe: PE, owner: BufferOwner) -> int:
    """EL1's choice as far as EL2 allows it; EL2's choice where EL2 owns the buffer.

    PCT 0b10 is reserved and means the virtual counter here.
    """
    el1 = pe.registers.read(PMSCR_EL1).PCT
    if not el2_enabled(pe):
        return el1
    el2 = pe.registers.read(PMSCR_EL2).PCT
    if owner.el == EL2 or el2 not in (TimestampCounter.PHYSICAL, TimestampCounter.OFFSET):
        return el2
    if el2 == TimestampCounter.OFFSET and el1 == TimestampCounter.PHYSICAL:
        return TimestampCounter.OFFSET
    return el1


def _virtual_offset(pe: PE, el: int) -> int:
    if not have_el(pe, EL2) or el_is_in_host(pe, el):
        return 0
    return pe.registers.raw(CNTVOFF_EL2)
