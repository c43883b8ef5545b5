"""Events that the core model alone knows: mispredictions, caches, TLBs.

Each piece of an access counts by itself, and so does each line and page that it reaches into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.caches import Happening
from spe_unicorn.pmu.events import PMUEvent as E

MOST_AT_ONCE: Final = 1 << 8
"""No operation makes more of one of these events."""
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
"""What misses in a level is an access to the next one; for the last level see :func:`modelled`."""


def modelled(model: CacheModel) -> dict[int, Callable[[], int]]:
    """The totals of the events that ``model`` knows."""

    def of_data(what: Happening) -> Callable[[], int]:
        return lambda: model.data.happened(what)

    return {
        E.BR_PRED: lambda: model.predictor.resolved,
        E.BR_MIS_PRED: lambda: model.predictor.mispredicted,
        E.BR_MIS_PRED_RETIRED: lambda: model.predictor.mispredicted,
        **{event: of_data(what) for event, what in _OF_DATA.items()},
        E.LL_CACHE: lambda: (
            model.data.happened(Happening.L2D_REFILL)
            - model.data.happened(Happening.FROM_PEER_CORE)
        ),
    }
