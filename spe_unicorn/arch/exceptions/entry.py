"""Taking an exception, as a value: where it goes, and what it leaves in the registers.

PSTATE is an :class:`SPSR` value throughout, since that register has a place for all of it. The PE
has AArch64 state only, so the vectors of a lower level in AArch32 state are never used.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.memory.descriptors import FaultRecord
from spe_unicorn.arch.pe import EL0, EL1, EL2, PE, SecurityState
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers.id import (
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64PFR0_EL1,
    ID_AA64PFR1_EL1,
)
from spe_unicorn.arch.registers.system import (
    HPFAR_EL2,
    SPSR,
)
from spe_unicorn.arch.rules.effective import effective_hcr_nvx, el_is_in_host
from spe_unicorn.arch.spaces import PASpace


class ExceptionType(IntEnum):
    """Kinds of exception; the value is the offset of the kind's vector in its quarter."""

    SYNC = 0x000
    IRQ = 0x080
    FIQ = 0x100
    SERROR = 0x180


_VECTORS = ~0x7FF
"""The bits of VBAR_ELx that are an address."""
_FROM_SP_ELX = 0x200
_FROM_LOWER_EL = 0x400
_HAS_TWO_CLASSES = frozenset(
    {EC.InstructionAbort, EC.DataAbort, EC.Breakpoint, EC.SoftwareStep, EC.Watchpoint}
)
"""Aborts and debug exceptions from the same Exception level have the next class."""

_DAIF = SPSR.D.mask | SPSR.A.mask | SPSR.I.mask | SPSR.F.mask
_NZCV = SPSR.N.mask | SPSR.Z.mask | SPSR.C.mask | SPSR.V.mask
_ALWAYS = _NZCV | _DAIF | SPSR.IL.mask | SPSR.M.mask
_SET = _DAIF | SPSR.TCO.mask | SPSR.PM.mask
_CHANGED = (
    SPSR.M.mask | SPSR.BTYPE.mask | SPSR.SSBS.mask | SPSR.IL.mask | SPSR.UAO.mask | SPSR.PPEND.mask
)
"""What of PSTATE an exception clears before it sets some: the flags, PAN and DIT outlive it."""


@dataclass(frozen=True)
class ExceptionRecord:
    """ExceptionRecord. An exception on its way to its target.

    ``syndrome`` is None for IRQ and FIQ, which have none. ``vaddress`` is what FAR_ELx gets and
    ``hpfar`` what HPFAR_EL2 gets, None where they become UNKNOWN.
    """

    kind: ExceptionType
    syndrome: Syndrome | None = None
    vaddress: int | None = None
    hpfar: int | None = None


@dataclass(frozen=True)
class ExceptionEntry:
    """What taking an exception writes, each to the register of ``target_el``.

    ``esr``, ``far`` and ``hpfar`` are None where the register keeps its value: the architecture
    leaves FAR_ELx and HPFAR_EL2 UNKNOWN then, and ESR_ELx alone.
    """

    target_el: int
    vector: int
    pstate: SPSR
    spsr: int
    elr: int
    esr: int | None
    far: int | None
    hpfar: int | None


def el_of(pstate: SPSR) -> int:
    """PSTATE.EL."""
    return pstate.M >> 2


def take_exception(
    pe: PE, pstate: SPSR, exception: ExceptionRecord, target_el: int, preferred_return: int
) -> ExceptionEntry:
    """AArch64.TakeException(). ``preferred_return`` is the address that ELR_ELx gets.

    Raises ValueError for a target below the current Exception level, or EL0.
    """
    el = el_of(pstate)
    if target_el < max(el, EL1):
        raise ValueError(f"an exception at EL{el} cannot be taken to EL{target_el}")
    spsr = pstate
    # A guest hypervisor at EL1 sees itself at EL2: NVx is 'x01' or '111'.
    if el == target_el == EL1 and effective_hcr_nvx(pe) in (0b001, 0b101, 0b111):
        spsr = pstate.replace(M=pstate.M & 1 | EL2 << 2)
    esr = None
    if exception.syndrome is not None:
        syndrome = exception.syndrome
        if target_el == el and syndrome.ec in _HAS_TWO_CLASSES:
            syndrome = syndrome._replace(ec=syndrome.ec + 1)
        esr = syndrome.esr()
    kept, set_ = kept_and_set(pe, target_el)
    return ExceptionEntry(
        target_el=target_el,
        vector=vector_address(
            pe.registers.raw(banked.VBAR[target_el]), el, target_el, pstate.M & 1, exception.kind
        ),
        pstate=SPSR(pstate.value & kept | set_),
        spsr=spsr.value,
        elr=preferred_return,
        esr=esr,
        far=exception.vaddress,
        hpfar=exception.hpfar if target_el == EL2 else None,
    )


def vector_address(vbar: int, el: int, target_el: int, sp_elx: int, kind: int) -> int:
    """Where an exception from ``el`` to ``target_el`` enters, by VBAR_ELx and PSTATE.SP.

    ``kind`` is an :class:`ExceptionType`. Numbers alone: compiled code calls it, too.
    """
    offset = kind
    if target_el > el:
        offset += _FROM_LOWER_EL
    elif sp_elx:
        offset += _FROM_SP_ELX
    return vbar & _VECTORS | offset


def kept_and_set(pe: PE, target_el: int) -> tuple[int, int]:
    """What of PSTATE an exception to ``target_el`` leaves as it is, and what of it is then set.

    NZCV and DIT are as they were.
    """
    sctlr = pe.registers.read(banked.SCTLR[target_el])
    set_ = _SET | target_el << 2 | 1
    if sctlr.DSSBS:
        set_ |= SPSR.SSBS.mask
    host = target_el == EL2 and el_is_in_host(pe, EL0)
    if (target_el == EL1 or host) and not sctlr.SPAN:
        set_ |= SPSR.PAN.mask
    mask = pstate_mask(pe)
    return mask & ~_CHANGED, mask & set_


def pstate_mask(pe: PE) -> int:
    """The bits of an SPSR that are PSTATE on this PE, but for SS: an exception clears it."""
    return _pstate_mask(pe.features, *(pe.registers.raw(register) for register in _DECIDING))


_DECIDING = (ID_AA64MMFR1_EL1, ID_AA64MMFR2_EL1, ID_AA64PFR0_EL1, ID_AA64PFR1_EL1)


@lru_cache(maxsize=64)
def _pstate_mask(features: Features, mmfr1: int, mmfr2: int, pfr0: int, pfr1_value: int) -> int:
    mask = _ALWAYS
    if ID_AA64MMFR1_EL1(mmfr1).PAN:
        mask |= SPSR.PAN.mask
    if ID_AA64MMFR2_EL1(mmfr2).UAO:
        mask |= SPSR.UAO.mask
    if ID_AA64PFR0_EL1(pfr0).DIT:
        mask |= SPSR.DIT.mask
    pfr1 = ID_AA64PFR1_EL1(pfr1_value)
    if pfr1.SSBS:
        mask |= SPSR.SSBS.mask
    if pfr1.BT:
        mask |= SPSR.BTYPE.mask
    if Feature.FEAT_MTE2 in features:
        mask |= SPSR.TCO.mask
    if Feature.FEAT_EBEP in features:
        mask |= SPSR.PM.mask
    if Feature.FEAT_SEBEP in features:
        mask |= SPSR.PPEND.mask
    return mask


def hpfar_of(fault: FaultRecord, state: SecurityState) -> int | None:
    """HPFAR_EL2 for a stage 2 fault in a Security state, None for a stage 1 fault."""
    if fault.ipa is None:
        return None
    ns = state is SecurityState.SECURE and fault.ipa_space is PASpace.NonSecure
    return HPFAR_EL2.of(NS=ns, FIPA=fault.ipa >> 12).value
