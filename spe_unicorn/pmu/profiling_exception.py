"""The PMU Profiling exception (FEAT_EBEP): where an overflow goes, and when it is masked.

Arm ARM D13.3. The Performance Monitors' own registers enable a counter's overflow to be noticed
(PMINTENSET_EL1); the fields PMEE of three Exception levels say whether that is the interrupt
PMUIRQ or this exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.pmu import PMECR_EL1, PMUException
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3
from spe_unicorn.arch.rules.effective import el2_enabled, tge


@dataclass(frozen=True)
class OverflowRoute:
    """What an overflow becomes: an exception to ``target``, or PMUIRQ, or neither."""

    target: int | None
    interrupt: bool


_INTERRUPT: Final = OverflowRoute(None, interrupt=True)
_NOTHING: Final = OverflowRoute(None, interrupt=False)


def overflow_route(pe: PE) -> OverflowRoute:
    """What an overflow becomes, by PMEE from EL3 down.

    A reserved value, 0b10 and in PMECR_EL1 0b01, disables both: one of the architecture's choices.
    """
    if Feature.FEAT_EBEP not in pe.features:
        return _INTERRUPT
    if Feature.FEAT_EL3 in pe.features:
        enable = pe.registers.read(MDCR_EL3).PMEE
        if enable != PMUException.DELEGATED:
            return _route(enable, EL3)
    if el2_enabled(pe):
        enable = pe.registers.read(MDCR_EL2).PMEE
        if enable != PMUException.DELEGATED:
            return _route(enable, EL2)
    return _route(pe.registers.read(PMECR_EL1).PMEE, EL2 if tge(pe) else EL1)


def _route(enable: int, target: int) -> OverflowRoute:
    if enable == PMUException.EXCEPTION:
        return OverflowRoute(target, interrupt=False)
    return _INTERRUPT if enable == PMUException.INTERRUPT else _NOTHING


def exception_masked(pe: PE, target: int) -> bool:
    """Whether the exception to ``target`` cannot be taken as the PE stands."""
    if pe.halted or target < pe.el:
        return True
    if target > pe.el:
        return False
    if target == EL2 and pe.registers.read(MDCR_EL2).PMEE != PMUException.EXCEPTION:
        return True
    return pe.pm or not pe.registers.read(PMECR_EL1).KPME


def exception_unmasked(pe: PE) -> bool:
    """Whether overflows are exceptions, and one could be taken as the PE stands."""
    return exception_target(pe) is not None


def exception_target(pe: PE) -> int | None:
    """Where an overflow's exception would be taken now, None where it is masked or is none."""
    target = overflow_route(pe).target
    return None if target is None or exception_masked(pe, target) else target


def returned_ppend(*, saved: bool, masked_before: bool, unmasked_after: bool) -> bool:
    """PSTATE.PPEND after an exception return that restores ``saved``, SPSR_ELx.PPEND.

    It comes back only where the return itself unmasks the exception.
    """
    return saved and masked_before and unmasked_after
