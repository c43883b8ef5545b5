"""A plan as a row of the pool of plans: what its words mean."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import layout


class PlanRow:
    """The plan of a member of the population: how to describe it when it is the sampled one."""

    how: int
    """The bits below."""
    access: int
    """Two signed halves: the offset of its address (low), what it adds to its base (high)."""
    instruction: int
    """The number of its instruction."""
    recipe: int
    """Where its recipe is (``recipes.steps``), 0 without one."""


PLAN: Final = layout(PlanRow)
PLAN_WORDS: Final = PLAN.itemsize // 8
PLAN_EXACT: Final = 0
"""Stop before the block and step to the operation."""
PLAN_RUN: Final = 1
"""Let the block run, and note what the following bits say."""
PLAN_FLAGS: Final = 1 << 1
PLAN_FLAGS_AT_END: Final = 1 << 2
"""The condition flags, at the block's start or at its end."""
PLAN_ACCESS: Final = 1 << 3
"""It accesses memory: by PC if it has no base."""
PLAN_WRITE: Final = 1 << 4
PLAN_BASE_AT_END: Final = 1 << 5
PLAN_INDEX_AT_END: Final = 1 << 6
"""These registers have the value that counts at the block's end, not at its start."""
PLAN_PROBE: Final = 1 << 7
"""A probe stands at the operation, and notes base, index and flags there."""
PLAN_FRAMES_AT_END: Final = 1 << 47
PLAN_LINK_AT_END: Final = -1 << 63
"""X29 and the frame records, and X30, are those of the block's end, not those of its start."""
PLAN_RECIPE: Final = 1 << 43
"""Its recipe says what base, index and flags will be, before the block runs."""
PLAN_BASE: Final = 8
PLAN_INDEX: Final = 24
"""Shifts of the registers' engine numbers plus 1, 0 for none."""
PLAN_REGISTERS: Final = 0xFFF
"""Mask of such a number."""
PLAN_DIVIDED: Final = 20
PLAN_SIZES: Final = 15
"""Shift and mask of the power of two, plus 1, of the bytes that it accesses; 0 unless it is one of
several members among which the accesses of its operation are divided."""
PLAN_EXTEND: Final = 40
PLAN_SHIFT: Final = 44
PLAN_ALIGN: Final = 48
"""Shifts of the extension of the index (``arch.operation.Extend``), of its shift, and of the power
of two to which the address is rounded down."""
PLAN_PLACE: Final = 52
PLAN_PLACES: Final = 0x7FF
"""Shift and mask of the operation's place in its block."""
PLANS: Final = 1 << 20
"""Words in the pool of plans. The plans of a block are followed by its code, one word an operation,
and then by its recipes."""
