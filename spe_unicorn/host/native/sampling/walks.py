"""Wrong paths in compiled code: their members are counted, and noted where they are sampled.

How many members of the population a walk is, and which, depends only on its start, as long as the
code stays. So Python works a walk out once (``host.run.wrong_paths``) and keeps it in a table. At
each misprediction compiled code finds it there. Python is asked for starts that are not in the
table, and where the samples of the run have to be taken by stopping.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    entry,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.native.calls import current_el
from spe_unicorn.host.native.sampling.frames import note_here
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import charge_members, grant_members
from spe_unicorn.host.native.state.sample_row import (
    SAMPLE,
    SAMPLE_BYTES,
    SAMPLE_ON_WRONG_PATH,
    SAMPLES,
)
from spe_unicorn.host.native.state.transit import wrong_path_taken
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

WALKS: Final = 1 << 12
"""Entries of the table of walks, direct-mapped by address."""
WALK_MEMBERS: Final = 1 << 17
"""Members that all walks in the table can have."""


class Walk:
    """An entry of the table of walks."""

    start: int
    """Where it starts."""
    epoch: int
    members: int
    first: int
    """Where its members begin in the table of those."""


class Member:
    """A member of a walk."""

    pc: int
    instruction: int
    """The number of its instruction."""


WALK: Final = layout(Walk)
WALK_MEMBER: Final = layout(Member)
_WALK_BYTES: Final = WALK.itemsize
_MEMBER_BYTES: Final = WALK_MEMBER.itemsize
_FAR: Final = 1 << 61
"""More members than can be left. With this number taken away, the hook looks at every block."""
_SCRATCH: Final = offset_of("scratch")


@routine
def _place_of(state: StateRecord) -> int:
    """The address of the WALK of the wrong path at hand; 0 if it is not in the table."""
    place = state.wrong_paths + (state.wrong_path >> 2 & (WALKS - 1)) * _WALK_BYTES
    walk = record_at(pointer_to(place), WALK)
    known = walk.start == state.wrong_path and walk.epoch == state.epoch
    return place if known else int64(0)


@entry("void", "pointer", "pointer", "int64", "int64", "int64")
def on_misprediction(
    engine: Pointer, user: Pointer, branch: int, predicted: int, actual: int
) -> None:
    """A branch was mispredicted: count the members of its walk, or have that be done later."""
    state = record_at(user, LAYOUT)
    if state.speculates == 0:
        return
    state.wrong_path = predicted
    state.wrong_from = 0
    if state.weigh != 0:
        place = _place_of(state)
        if place != 0:
            members = record_at(pointer_to(place), WALK).members
            if members <= state.members:
                charge_members(state, members)
                return
        # with so few members left the block hook looks at the next block
        grant_members(state, state.members_granted - state.members, state.members - _FAR)
    state.wrong = 1


@routine
def _note(state: StateRecord, engine: Pointer, user: Pointer, place: int) -> None:
    """The chosen member, at ``place`` in the table, is sampled. It takes no time."""
    member = record_at(pointer_to(state.wrong_members + place * _MEMBER_BYTES), WALK_MEMBER)
    row = record_at(pointer_to(state.samples + state.samples_in_ring * SAMPLE_BYTES), SAMPLE)
    row.instruction = member.instruction
    row.pc = member.pc
    row.cycles = state.granted - state.budget + state.skipped - 1
    row.following = row.va = row.pa = row.flags = row.flow_target = row.flow = row.did = 0
    level = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    row.level = level | SAMPLE_ON_WRONG_PATH
    row.members = state.members_granted + 1
    if state.led != 0:
        note_here(state, engine)  # what led to the branch
    gap = array_at(pointer_to(state.gaps), (SAMPLES,), np.int64)[state.samples_in_ring]
    state.samples_in_ring += 1
    grant_members(state, row.members, gap - 1)


@routine
def walked(state: StateRecord, engine: Pointer, user: Pointer) -> bool:
    """Whether all members of the wrong path at hand are counted, and noted where sampled.

    If not, Python goes on from the member ``wrong_from`` on. No sample of an operation is pending.
    """
    if state.members < -(_FAR >> 1):
        # `on_misprediction` had the block hook called
        grant_members(state, state.members_granted - state.members, state.members + _FAR)
    place = _place_of(state)
    if place == 0:
        return False
    walk = record_at(pointer_to(place), WALK)
    while walk.members - state.wrong_from > state.members:
        if (
            state.samples_itself == 0
            or state.unwinding != 0  # Python does that where the engine stands
            or state.epoch != state.gap_epoch
            or state.samples_in_ring >= state.samples_allowed
        ):
            return False
        chosen = state.wrong_from + state.members
        _note(state, engine, user, walk.first + chosen)
        state.wrong_from = chosen + 1
    charge_members(state, walk.members - state.wrong_from)
    wrong_path_taken(state)
    return True
