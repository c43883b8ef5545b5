"""Events that only the core model knows: mispredictions, caches, TLBs.

Each piece of an access counts by itself, and so does each line and page that it reaches into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.operation import Family, Instruction, Mark, RegisterKind, Structure
from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.caches import Happening
from spe_unicorn.host.native.sampling.awaited import (
    HITS,
    LAST_LEVEL,
    MISPREDICTIONS,
    last_level_accesses,
)
from spe_unicorn.pmu.events import PMUEvent as E

MOST_AT_ONCE: Final = 1 << 8
"""The most events of one kind that an operation makes: 64 elements, each in two lines."""
MOST_OF_PLAIN: Final = 8
"""The same for a load or store of one or two registers: 4 pieces, each in 2 lines."""
_OF_BRANCHES: Final = frozenset({E.BR_PRED, E.BR_MIS_PRED, E.BR_MIS_PRED_RETIRED})
_IN_MEMORY: Final = frozenset({Mark.MRS, Mark.MSR})
"""Operations that access memory if FEAT_NV2 keeps the register there."""
_OF_DATA: Final = {
    E.L1D_TLB: Happening.TLB,
    E.L1D_TLB_REFILL: Happening.TLB_REFILL,
    E.L2D_TLB: Happening.TLB_REFILL,
    E.L2D_TLB_REFILL: Happening.WALK,
    E.DTLB_WALK: Happening.WALK,
    E.L1D_CACHE: Happening.L1D,
    E.L1D_CACHE_REFILL: Happening.L1D_REFILL,
    E.L2D_CACHE: Happening.L1D_REFILL,
    E.L2D_CACHE_REFILL: Happening.L2D_REFILL,
    E.LL_CACHE_MISS: Happening.LLC_REFILL,
}
"""A miss in one level is an access to the next one; for the last level see :func:`modelled`."""

AWAITED: Final = {
    **{int(event): int(what) for event, what in _OF_DATA.items()},
    int(E.LL_CACHE): LAST_LEVEL,
    int(E.BR_MIS_PRED): MISPREDICTIONS,
    int(E.BR_MIS_PRED_RETIRED): MISPREDICTIONS,
}
"""Events for which the engine can stop at the very operation that makes one, each with what
``Awaited.arm`` has a goal for."""
ONLY_CLOSE: Final = frozenset(event for event, what in AWAITED.items() if what in HITS)
"""Those of them for which it does so only close to the goal (``awaited.CLOSE``)."""


def most_at_once(event: int) -> int:
    """The most by which an operation moves the total of a modelled event."""
    return 1 if event in _OF_BRANCHES else MOST_AT_ONCE


def most_of(event: int, instruction: Instruction) -> int:
    """The most by which an operation of ``instruction`` moves that total."""
    if event in _OF_BRANCHES:
        return int(instruction.family is Family.BRANCH)
    if instruction.family in (Family.OTHER, Family.BRANCH):
        return MOST_OF_PLAIN if instruction.mark in _IN_MEMORY else 0
    many = instruction.sve or instruction.structure is not Structure.NONE
    unspecified = instruction.registers is RegisterKind.UNSPECIFIED
    return MOST_AT_ONCE if many or unspecified else MOST_OF_PLAIN


def goes_on(instruction: Instruction) -> bool:
    """Whether the next word in memory is executed next, unless an exception is taken."""
    return instruction.family is not Family.BRANCH and instruction.mark is Mark.NONE


def modelled(model: CacheModel) -> dict[int, Callable[[], int]]:
    """The totals of the events that ``model`` knows."""

    def of_data(what: Happening) -> Callable[[], int]:
        return lambda: model.data.happened(what)

    return {
        E.BR_PRED: lambda: model.predictor.resolved,
        E.BR_MIS_PRED: lambda: model.predictor.mispredicted,
        E.BR_MIS_PRED_RETIRED: lambda: model.predictor.mispredicted,
        **{event: of_data(what) for event, what in _OF_DATA.items()},
        E.LL_CACHE: lambda: int(last_level_accesses(model.data.words)),
    }
