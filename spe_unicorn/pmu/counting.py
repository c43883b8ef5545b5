"""What a counter counts: the rules of CountPMUEvents(), one function each (Arm ARM D13.5).

Counters are numbered as their bits stand in the maps: event counters from 0, the cycle counter 31,
the instruction counter 32.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, SecurityState
from spe_unicorn.arch.registers.pmu import (
    CYCLE_COUNTER,
    INSTRUCTION_COUNTER,
    PMCR_EL0,
    PMEVTYPER,
)
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3
from spe_unicorn.arch.rules.effective import security_state_at

ALL_EVENT_COUNTERS: Final = (1 << CYCLE_COUNTER) - 1


class Standstill(Enum):
    """Why a counter does not count: the first of the rules of CountPMUEvents() that says so."""

    HALTED = auto()
    """The PE is in Debug state."""
    ABSENT = auto()
    DISABLED = auto()
    """PMCNTENSET_EL0."""
    STOPPED = auto()
    """PMCR_EL0.E, or of EL2's counters MDCR_EL2.HPME."""
    NOT_SYNCHRONOUS = auto()
    """It is in synchronous mode, and its event is not one of that mode."""
    FILTERED = auto()
    CYCLES_DISABLED = auto()
    """SCCD, MCCD or HCCD."""
    PROHIBITED = auto()
    FROZEN_BY_OVERFLOW = auto()
    FROZEN_BY_SPE = auto()


def counters_below_el2(pe: PE, implemented: int) -> int:
    """How many event counters are EL1's: MDCR_EL2.HPMN, those from there on are EL2's.

    More than there are means all, one of the architecture's choices.
    """
    if Feature.FEAT_EL2 not in pe.features:
        return implemented
    return min(pe.registers.read(MDCR_EL2).HPMN, implemented)


def of_el2(pe: PE, counter: int, implemented: int) -> bool:
    """Whether a counter is one of EL2's; the cycle and instruction counters never are."""
    return counter < CYCLE_COUNTER and counter >= counters_below_el2(pe, implemented)


def prohibited_by(pe: PE, el: int, *, el2s: bool) -> str | None:
    """The field by which MDCR_EL3 or MDCR_EL2 prohibits event counting at ``el``, and its value.

    ``el2s`` as :func:`of_el2`. CountPMUEvents() asks this of event counters, of the instruction
    counter, and with PMCR_EL0.DP of the cycle counter.
    """
    features = pe.features
    if Feature.FEAT_EL3 in features:
        mdcr = pe.registers.read(MDCR_EL3)
        mpmx = Feature.FEAT_PMUv3p7 in features and mdcr.MPMX
        secure = el == EL3 or security_state_at(pe, el) is SecurityState.SECURE
        if secure and not mdcr.SPME and not mpmx:
            return "MDCR_EL3.SPME is 0"
        if el == EL3 and mpmx and (not mdcr.SPME or not el2s):
            return "MDCR_EL3.MPMX is 1"
    if el != EL2 or el2s or Feature.FEAT_PMUv3p1 not in features:
        return None
    return "MDCR_EL2.HPMD is 1" if pe.registers.read(MDCR_EL2).HPMD else None


def prohibited(pe: PE, el: int, *, el2s: bool) -> bool:
    """Whether MDCR_EL3 or MDCR_EL2 prohibits event counting at ``el``."""
    return prohibited_by(pe, el, el2s=el2s) is not None


def cycles_disabled_by(pe: PE, el: int) -> str | None:
    """The field that stops the cycle counter at ``el``, and its value: SCCD, MCCD or HCCD."""
    features = pe.features
    if Feature.FEAT_EL3 in features:
        mdcr = pe.registers.read(MDCR_EL3)
        secure = el == EL3 or security_state_at(pe, el) is SecurityState.SECURE
        if Feature.FEAT_PMUv3p5 in features and secure and mdcr.SCCD:
            return "MDCR_EL3.SCCD is 1"
        if Feature.FEAT_PMUv3p7 in features and el == EL3 and mdcr.MCCD:
            return "MDCR_EL3.MCCD is 1"
    if el != EL2 or Feature.FEAT_PMUv3p5 not in features:
        return None
    return "MDCR_EL2.HCCD is 1" if pe.registers.read(MDCR_EL2).HCCD else None


def cycles_disabled(pe: PE, el: int) -> bool:
    """Whether SCCD, MCCD or HCCD stops the cycle counter at ``el``."""
    return cycles_disabled_by(pe, el) is not None


def filtered(pe: PE, el: int, filter_: int) -> bool:
    """Whether the filter bits of PMEVTYPER<n>_EL0, or of its like, leave ``el`` out.

    Streaming SVE mode is not looked at: no PE here has it.
    """
    bits = PMEVTYPER(filter_)
    state = security_state_at(pe, el)
    if el == EL3:
        return bits.M != bits.P
    if el == EL2:
        counted = bits.NSH
        if state is SecurityState.SECURE:
            counted = bits.NSH != bits.SH
        elif state is SecurityState.REALM:
            counted = bits.NSH != bits.RLH
        return not counted
    if el not in (EL0, EL1):
        raise ValueError(f"an Exception level is 0 to 3, got {el}")
    plain, non_secure, realm = (
        (bits.P, bits.NSK, bits.RLK) if el == EL1 else (bits.U, bits.NSU, bits.RLU)
    )
    if Feature.FEAT_EL3 not in pe.features or state is SecurityState.SECURE:
        return bool(plain)
    return bool(plain != (realm if state is SecurityState.REALM else non_secure))


def asks_to_freeze(pe: PE) -> bool:
    """Whether PMBLIMITR_EL1 has counters freeze while profiling has stopped."""
    limit = pe.registers.read(PMBLIMITR_EL1)
    return bool(limit.E and limit.PMFZ)


def frozen_by_spe(pe: PE, control: PMCR_EL0, *, el2s: bool, stopped: bool) -> bool:
    """SPEFreezeOnEvent(): PMBLIMITR_EL1.PMFZ freezes counters while profiling is ``stopped``."""
    if not {Feature.FEAT_SPEv1p2, Feature.FEAT_PMUv3p7} <= pe.features or not stopped:
        return False
    if not asks_to_freeze(pe):
        return False
    return bool(pe.registers.read(MDCR_EL2).HPMFZS if el2s else control.FZS)


def frozen_by_overflow(
    pe: PE, control: PMCR_EL0, overflows: int, implemented: int, *, el2s: bool
) -> bool:
    """Whether a counter of the same range has overflowed, and that freezes the others.

    ``overflows`` are PMOVSSET_EL0's bits of counters whose SYNC is 0.
    """
    if Feature.FEAT_PMUv3p7 not in pe.features:
        return False
    mine = (1 << counters_below_el2(pe, implemented)) - 1
    if el2s:
        freezes = pe.registers.read(MDCR_EL2).HPMFZO
        return bool(freezes and overflows & ALL_EVENT_COUNTERS & ~mine)
    return bool(control.FZO and overflows & (mine | 1 << INSTRUCTION_COUNTER))
