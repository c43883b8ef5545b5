"""Which events happen here, by who knows of them; those of words and exceptions stand there."""

from __future__ import annotations

from typing import Final

from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.exceptions import EXCEPTION_EVENTS
from spe_unicorn.pmu.words import JUMP_EVENTS, PART_EVENTS, WORD_EVENTS

CLOCKS: Final = frozenset({E.CPU_CYCLES, E.CNT_CYCLES})
RETIRED: Final = frozenset({E.INST_RETIRED, E.INST_SPEC})
STALLS: Final = frozenset({E.STALL, E.STALL_FRONTEND, E.STALL_BACKEND})
"""Cycles in which no operation is begun: there are none, as each operation is a cycle."""
STEPPED: Final = frozenset({E.UNALIGNED_LDST_RETIRED})
"""Events that need each operation by itself."""
MODELLED: Final = frozenset(
    {
        E.BR_PRED,
        E.BR_MIS_PRED,
        E.BR_MIS_PRED_RETIRED,
        E.DTLB_WALK,
        E.L1D_TLB,
        E.L1D_TLB_REFILL,
        E.L2D_TLB,
        E.L2D_TLB_REFILL,
        E.L1D_CACHE,
        E.L1D_CACHE_REFILL,
        E.L2D_CACHE,
        E.L2D_CACHE_REFILL,
        E.LL_CACHE,
        E.LL_CACHE_MISS,
    }
)
"""Events that a core model with caches alone knows."""


def countable(*, with_model: bool) -> frozenset[E]:
    """The events that can be counted, with a core model of caches or without one."""
    known = CLOCKS | RETIRED | STALLS | STEPPED | EXCEPTION_EVENTS
    known |= WORD_EVENTS | JUMP_EVENTS | PART_EVENTS
    return known | MODELLED if with_model else known
