"""What counters are set to: PMEVTYPER<n>_EL0 and its kin, taken apart at each write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.registers.pmu import (
    CYCLE_COUNTER,
    INSTRUCTION_COUNTER,
    PMEVTYPER,
    PMICFILTR_EL0,
)
from spe_unicorn.pmu.events import SYNCHRONOUS, PMUEvent


@dataclass(frozen=True, slots=True)
class Configured:
    """By the counters' numbers, as a list of events and as maps."""

    events: tuple[int, ...]
    """The number of the event that each counts."""
    marked: int
    """The counters whose SYNC is 1."""
    synchronous: int
    """Those of them that are in synchronous mode: their event is a synchronous one."""

    @classmethod
    def of(cls, types: Sequence[int], implemented: int, features: Features) -> Configured:
        """``types`` as in ``MonitorState``; ``implemented`` is the number of event counters."""
        bits = [PMEVTYPER(value) for value in types[:implemented]]
        events = [PMEVTYPER(value).evtCount for value in types]
        events[CYCLE_COUNTER] = PMUEvent.CPU_CYCLES
        events[INSTRUCTION_COUNTER] = PMUEvent.INST_RETIRED
        marked = 0
        if Feature.FEAT_SEBEP in features:
            marked = sum(1 << n for n, value in enumerate(bits) if value.SYNC)
            instructions = PMICFILTR_EL0(types[INSTRUCTION_COUNTER]).SYNC
            if instructions and Feature.FEAT_PMUv3_ICNTR in features:
                marked |= 1 << INSTRUCTION_COUNTER
        others = sum(1 << n for n, value in enumerate(bits) if value.evtCount not in SYNCHRONOUS)
        return cls(tuple(events), marked, marked & ~others)
