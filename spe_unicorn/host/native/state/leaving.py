"""A block is left in its midst, and the run goes on after the operation that it came to."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Pointer, array_at, entry, int64, pointer_to, record_at, routine
from spe_unicorn.host.native.state.block_table import BLOCKS, slot_of
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import charge_members, charge_up_to, goes_on_at
from spe_unicorn.host.native.state.plan_row import PLAN_PLACE, PLAN_PLACES, PLAN_WORDS, PLANS
from spe_unicorn.host.native.state.transit import branch_resolved
from spe_unicorn.host.native.state.whole import LAYOUT

_IN_A_BLOCK: Final = (1 << 32) - 1
"""What is left of the distance between two addresses of a block."""


@routine
def _members_from(state: StateRecord, place: int) -> int:
    """How many members the block that began last has from its operation ``place`` on.

    It is in the block table: only such blocks are weighed.
    """
    slot = slot_of(state.block, state.block_operations)
    first = array_at(pointer_to(state.block_plans), (BLOCKS,), np.int64)[slot]
    weight = array_at(pointer_to(state.weights), (BLOCKS,), np.int64)[slot]
    plans = array_at(pointer_to(state.plans), (PLANS,), np.int64)
    found = 0
    for n in range(weight):
        how = plans[first + PLAN_WORDS * n]
        found += (how >> PLAN_PLACE & PLAN_PLACES) >= place
    return found


@routine
def leave_block_after(state: StateRecord, pc: int) -> None:
    """The run goes on after the operation at ``pc``, which somebody else carries out.

    Take back what was counted of the block that began last and is not executed: operations,
    members, its branch. No sample of it is pending, and no events of it are added up.
    """
    charge_up_to(state, pc)
    if state.weigh != 0:
        done = ((pc - state.block & _IN_A_BLOCK) >> 2) + 1
        charge_members(state, -_members_from(state, done))
    goes_on_at(state, pc + 4)
    branch_resolved(state)


@entry("void", "pointer", "uint64")
def left_block_after(user: Pointer, pc: int) -> None:
    """For Python: :func:`leave_block_after`."""
    leave_block_after(record_at(user, LAYOUT), int64(pc))
