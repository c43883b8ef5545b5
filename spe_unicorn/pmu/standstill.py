"""Why counters stand still, in words."""

from __future__ import annotations

from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.registers.pmu import CYCLE_COUNTER
from spe_unicorn.pmu.counting import Standstill, cycles_disabled_by, of_el2, prohibited_by
from spe_unicorn.pmu.monitors import PerformanceMonitors


def standstill_text(monitors: PerformanceMonitors, pe: PE, counter: int, why: Standstill) -> str:
    """The fields that keep a counter still at the Exception level of ``pe``, and their values."""
    el, el2s = pe.el, of_el2(pe, counter, monitors.implemented)
    also = "PMCR_EL0.DP is 1, and " if counter == CYCLE_COUNTER else ""
    match why:
        case Standstill.HALTED:
            return "the PE is in Debug state"
        case Standstill.ABSENT:
            return "the core does not have it"
        case Standstill.DISABLED:
            return "its bit in PMCNTENSET_EL0 is 0"
        case Standstill.STOPPED:
            return "MDCR_EL2.HPME is 0" if el2s else "PMCR_EL0.E is 0"
        case Standstill.NOT_SYNCHRONOUS:
            return "SYNC is 1, and the event is not one of synchronous mode"
        case Standstill.FILTERED:
            return f"its filter leaves EL{el} out"
        case Standstill.CYCLES_DISABLED:
            return str(cycles_disabled_by(pe, el))
        case Standstill.PROHIBITED:
            return f"{also}{prohibited_by(pe, el, el2s=el2s)}"
        case Standstill.FROZEN_BY_OVERFLOW:
            field = "MDCR_EL2.HPMFZO" if el2s else "PMCR_EL0.FZO"
            return f"{also}{field} is 1, and PMOVSSET_EL0 is {monitors.s.overflowed:#x}"
        case Standstill.FROZEN_BY_SPE:
            field = "MDCR_EL2.HPMFZS" if el2s else "PMCR_EL0.FZS"
            return f"{also}{field} and PMBLIMITR_EL1.PMFZ are 1, and profiling has stopped"
