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

    -1 if the block table does not hold it: a block that counts itself goes on when another one
    takes its slot, or when a new epoch begins.
    """
    address, operations = state.block, state.block_operations
    slot = slot_of(address, operations)
    keys = array_at(pointer_to(state.block_keys), (BLOCKS,), np.int64)
    epochs = array_at(pointer_to(state.block_epochs), (BLOCKS,), np.int64)
    if keys[slot] != address ^ operations or epochs[slot] != state.epoch:
        return int64(-1)
    first = array_at(pointer_to(state.block_plans), (BLOCKS,), np.int64)[slot]
    weight = array_at(pointer_to(state.weights), (BLOCKS,), np.int64)[slot]
    plans = array_at(pointer_to(state.plans), (PLANS,), np.int64)
    found = int64(0)
    for n in range(weight):
        how = plans[first + PLAN_WORDS * n]
        found += (how >> PLAN_PLACE & PLAN_PLACES) >= place
    return found


@routine
def leave_block_after(state: StateRecord, pc: int) -> bool:
    """The run goes on after the operation at ``pc``, which somebody else carries out.

    Take back what was counted of the block that began last and is not executed: operations,
    members, its branch. No sample of it is pending, and no events of it are added up. False, and
    nothing has changed, if its members are not known.
    """
    if state.weigh != 0:
        done = ((pc - state.block & _IN_A_BLOCK) >> 2) + 1
        members = _members_from(state, done)
        if members < 0:
            return False
        charge_members(state, -members)
    charge_up_to(state, pc)
    goes_on_at(state, pc + 4)
    branch_resolved(state)
    return True


@entry("int64", "pointer", "uint64")
def left_block_after(user: Pointer, pc: int) -> int:
    """For Python: :func:`leave_block_after`; 0 for False."""
    return int64(leave_block_after(record_at(user, LAYOUT), int64(pc)))


@entry("int64", "pointer", "int64")
def known_members_from(user: Pointer, place: int) -> int:
    """For Python: how many members the block that began last has from ``place`` on, -1 if unknown.

    It is unknown where the block table does not hold the block.
    """
    return int64(_members_from(record_at(user, LAYOUT), place))
