"""The core model without caches: a constant latency for each class of operation.

Latencies are modelled, not measured. An operation waits :data:`ISSUE` cycles from dispatch to
issue, then executes for the cycles of its class; an access that translates spends
:data:`TRANSLATION` of them in the TLB, where it always hits. No cache, TLB or branch predictor is
modelled, so no event tells of one and there is no data source. ``cores.cache_model`` has them.
"""

from __future__ import annotations

from collections.abc import Mapping

from spe_unicorn.arch.operation import CostClass, Operation, Timing

ISSUE = 1
"""Cycles from dispatch to issue."""
TRANSLATION = 1
"""Cycles that a translation takes."""

EXECUTION: Mapping[CostClass, int] = {
    CostClass.ALU: 1,
    CostClass.MULTIPLY: 3,
    CostClass.DIVIDE: 12,
    CostClass.FP: 3,
    CostClass.FP_DIVIDE: 12,
    CostClass.SIMD: 3,
    CostClass.CRYPTO: 3,
    CostClass.LOAD: 4,
    CostClass.STORE: 1,
    CostClass.ATOMIC: 6,
    CostClass.BRANCH: 1,
    CostClass.SYSTEM: 1,
}
"""Cycles from issue to completion: a plausible small out-of-order core, all accesses hitting."""


class ConstantModel:
    """Answers every operation by its cost class. ``execution`` gives cycles from issue on.

    Raises ValueError for a class without a latency or a latency below 1 cycle.
    """

    def __init__(self, execution: Mapping[CostClass, int] = EXECUTION) -> None:
        for cost in CostClass:
            if execution.get(cost, 0) < 1:
                raise ValueError(f"{cost.name} needs a latency of at least 1 cycle")
        self._plain = [Timing(ISSUE + execution[cost], ISSUE) for cost in CostClass]
        self._access = [
            Timing(ISSUE + execution[cost], ISSUE, translation=TRANSLATION) for cost in CostClass
        ]

    def timing(self, operation: Operation, did: int | None = None) -> Timing:
        """Latencies in cycles; no events and no data source."""
        table = self._plain if operation.va is None else self._access
        return table[operation.instruction.cost]
