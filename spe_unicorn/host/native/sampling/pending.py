"""The chosen members of the block that runs: prepared before it, noted in the ring after it.

A block may hold several. Each has a row of the table ``chosen``, in the order of the members. A row
keeps what is found before its operation, and what the core model notes of it. The rest is found
when the block has run.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import arm64_const as regs

from spe_unicorn.compiled import (
    Pointer,
    Words,
    address_of,
    array_at,
    entry,
    int64,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.cores.cache_model import what_was_done
from spe_unicorn.cores.caches import UNBOUNDED as ALL
from spe_unicorn.cores.caches import forget_notes, outcome_at
from spe_unicorn.cores.predictor import MISSED
from spe_unicorn.host.native.calls import call_register, current_el, physical_of
from spe_unicorn.host.native.recipes.evaluate import foresee
from spe_unicorn.host.native.rules import access_address
from spe_unicorn.host.native.sampling.frames import note_early, note_late
from spe_unicorn.host.native.sampling.unwinding import note_the_same, note_unwound
from spe_unicorn.host.native.state.block_table import BLOCKS
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import grant, grant_members
from spe_unicorn.host.native.state.plan_row import (
    PLAN,
    PLAN_ACCESS,
    PLAN_ALIGN,
    PLAN_BASE,
    PLAN_BASE_AT_END,
    PLAN_DIVIDED,
    PLAN_EXTEND,
    PLAN_FLAGS,
    PLAN_FLAGS_AT_END,
    PLAN_INDEX,
    PLAN_INDEX_AT_END,
    PLAN_PLACE,
    PLAN_PLACES,
    PLAN_PROBE,
    PLAN_RECIPE,
    PLAN_REGISTERS,
    PLAN_RUN,
    PLAN_SHIFT,
    PLAN_SIZES,
    PLAN_WORDS,
    PLAN_WRITE,
)
from spe_unicorn.host.native.state.sample_row import (
    PENDING,
    PENDING_BYTES,
    SAMPLE,
    SAMPLE_BYTES,
    SAMPLE_PA,
    SAMPLES,
    Pending,
)
from spe_unicorn.host.native.state.transit import forget_access, samples_over
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

_SCRATCH: Final = offset_of("scratch")
_PHYSICAL: Final = offset_of("physical")
_NZCV: Final = int(regs.UC_ARM64_REG_NZCV)
_BASE, _INDEX, _FLAGS = (8 * PENDING.names.index(name) for name in ("base", "index", "flags"))


@routine
def _row_at(state: StateRecord, n: int) -> Pending:
    """Row ``n`` of the table ``chosen``."""
    return record_at(pointer_to(state.chosen + n * PENDING_BYTES), PENDING)


@routine
def _place_of(row: Pending) -> int:
    """The place of a member's operation in its block."""
    return row.plan >> PLAN_PLACE & PLAN_PLACES


@routine
def _note_registers(state: StateRecord, engine: Pointer, n: int) -> None:
    """Note those registers for row ``n`` that have the needed values now."""
    here = state.chosen + n * PENDING_BYTES
    plan = _row_at(state, n).plan
    number = plan >> PLAN_BASE & PLAN_REGISTERS
    if number != 0 and plan & PLAN_BASE_AT_END == 0:
        call_register(state.reg_read, address_of(engine), number - 1, here + _BASE)
    number = plan >> PLAN_INDEX & PLAN_REGISTERS
    if number != 0 and plan & PLAN_INDEX_AT_END == 0:
        call_register(state.reg_read, address_of(engine), number - 1, here + _INDEX)
    if plan & PLAN_FLAGS:
        call_register(state.reg_read, address_of(engine), _NZCV, here + _FLAGS)


# Before the block


@routine
def _prepare(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, first: int, n: int
) -> bool:
    """Whether the member of row ``n`` can be sampled while its block at ``address`` runs.

    If so, note what it finds. ``first`` is where the plans of the block begin.
    """
    row = _row_at(state, n)
    place = state.plans + 8 * (first + PLAN_WORDS * row.member)
    planned = record_at(pointer_to(place), PLAN)
    plan = planned.how
    if plan & PLAN_RUN == 0:
        return False
    row.plan = plan
    row.access = planned.access
    row.instruction = planned.instruction
    row.did = 0
    if plan & PLAN_RECIPE:
        if not foresee(engine, user, address, state.plans + 8 * first, planned.recipe, row):
            return False
    elif plan & PLAN_PROBE == 0:
        _note_registers(state, engine, n)
    if state.unwinding != 0:
        if n != 0:
            note_the_same(state, n)
            return True
        return note_unwound(state, engine, n, address)
    if state.led != 0 and plan & PLAN_PROBE == 0:
        note_early(state, engine, plan, n)
    return True


@routine
def prepared(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, slot: int, member: int
) -> bool:
    """Whether the chosen members of a block, from ``member`` on, can be sampled while it runs.

    If so, prepare for that. The block at ``address`` is in ``slot`` of the block table.
    """
    if state.samples_itself == 0 or state.epoch != state.gap_epoch:
        return False
    members = array_at(pointer_to(state.weights), (BLOCKS,), np.int64)[slot]
    first = array_at(pointer_to(state.block_plans), (BLOCKS,), np.int64)[slot]
    gaps = array_at(pointer_to(state.gaps), (SAMPLES,), np.int64)
    count = int64(0)
    probe = int64(0)
    while member < members:
        if state.samples_in_ring + count >= state.samples_allowed:
            return False
        row = _row_at(state, count)
        row.member = member
        if not _prepare(state, engine, user, address, first, count):
            return False
        if row.plan & PLAN_PROBE and probe == 0:
            probe = address + 4 * _place_of(row)
        member += gaps[state.samples_in_ring + count]
        count += 1
    state.slot = slot
    state.probe = probe
    state.pending = count
    state.noting = 0
    if state.data_side != 0:
        forget_access(state)
        forget_notes(array_at(pointer_to(state.data_side), (ALL,), np.int64))
        array_at(pointer_to(state.predictor), (ALL,), np.int64)[MISSED] = 0
    return True


# While the block runs


@routine
def probed(state: StateRecord, engine: Pointer) -> None:
    """The engine is at an operation with a probe: note its registers for the rows that have it."""
    place = state.probe - state.block >> 2
    state.probe = 0
    for n in range(state.pending):
        row = _row_at(state, n)
        if row.plan & PLAN_PROBE and _place_of(row) >= place:
            if _place_of(row) > place:
                state.probe = state.block + 4 * _place_of(row)
                return
            _note_registers(state, engine, n)
            if state.led != 0 and state.unwinding == 0:
                note_early(state, engine, row.plan, n)


@routine
def _keep_noted(state: StateRecord, engine: Pointer, user: Pointer, own: Words) -> int:
    """Keep what the core model has noted, in the rows of its operation. Return the next row."""
    n = state.noting
    predictor = array_at(pointer_to(state.predictor), (ALL,), np.int64)
    place = _place_of(_row_at(state, n))
    while n < state.pending:
        row = _row_at(state, n)
        if _place_of(row) != place:
            break
        row.did = what_was_done(own, predictor)
        size = row.plan >> PLAN_DIVIDED & PLAN_SIZES
        if size != 0:
            # the base and index of such a plan are known before the block
            here = _address(state, row, row.base, row.index)
            kind = 2 if row.plan & PLAN_WRITE else 1
            uc = address_of(engine)
            physical = physical_of(state, uc, here, kind, address_of(user) + _PHYSICAL)
            if physical >= 0:
                row.did = outcome_at(own, physical, int64(1) << size - 1)
        n += 1
    forget_notes(own)
    return n


@routine
def is_chosen(state: StateRecord, engine: Pointer, user: Pointer, own: Words, pc: int) -> bool:
    """Whether the operation at ``pc`` in the block that runs is a chosen one, for the core model.

    If so, what is noted from here on is of that operation.
    """
    place = pc - state.block >> 2
    n = state.noting
    while n < state.pending and _place_of(_row_at(state, n)) < place:
        n += 1
    if n >= state.pending or _place_of(_row_at(state, n)) != place:
        return False
    if n != state.noting:
        _keep_noted(state, engine, user, own)
        state.noting = n
    return True


@routine
def _address(state: StateRecord, row: Pending, base: int, index: int) -> int:
    """The address that a member accesses, by the values of its base and index registers."""
    plan = row.plan
    address = base
    if plan >> PLAN_BASE & PLAN_REGISTERS == 0:
        address = state.block + 4 * _place_of(row)
    address += (row.access << 32) >> 32
    if plan >> PLAN_INDEX & PLAN_REGISTERS == 0:
        index = int64(0)
    extend, shift = plan >> PLAN_EXTEND & 7, plan >> PLAN_SHIFT & 7
    align = int64(1) << (plan >> PLAN_ALIGN & 15)
    return access_address(address, index, extend, shift, align)


# After the block


@routine
def _keep_all(state: StateRecord, engine: Pointer, user: Pointer) -> None:
    """Keep all that the core model has noted of the block that has run."""
    own = array_at(pointer_to(state.data_side), (ALL,), np.int64)
    if state.noting < state.pending:
        state.noting = _keep_noted(state, engine, user, own)
    # what is left is whether the branch at its end was mispredicted
    missed = what_was_done(own, array_at(pointer_to(state.predictor), (ALL,), np.int64))
    for n in range(state.pending):
        _row_at(state, n).did |= missed


@entry("void", "pointer", "pointer", "int64")
def keep_noted_before(engine: Pointer, user: Pointer, place: int) -> None:
    """For Python: the block was left before its operation at ``place``. Keep what was noted so far.

    What has been noted of that operation stays noted: it counts if the host carries it out.
    """
    state = record_at(user, LAYOUT)
    if state.data_side == 0:
        return
    if state.noting >= state.pending or _place_of(_row_at(state, state.noting)) < place:
        _keep_all(state, engine, user)


@routine
def _note(
    state: StateRecord, engine: Pointer, user: Pointer, n: int, following: int, level: int
) -> int:
    """The block of the sample in row ``n`` has run: note it. Return how many operations follow."""
    here = address_of(user)
    pending = _row_at(state, n)
    plan = pending.plan
    k = _place_of(pending)
    row = record_at(pointer_to(state.samples + state.samples_in_ring * SAMPLE_BYTES), SAMPLE)
    executed = state.granted - state.budget
    behind = state.block_operations - k - 1
    row.instruction = pending.instruction
    row.pc = state.block + 4 * k
    row.cycles = executed - behind - 1 + state.skipped
    row.following = following
    if plan & PLAN_ACCESS:
        scratch = here + _SCRATCH
        base, index = pending.base, pending.index
        if plan & PLAN_BASE_AT_END:
            number = plan >> PLAN_BASE & PLAN_REGISTERS
            call_register(state.reg_read, address_of(engine), number - 1, scratch)
            base = state.scratch - (pending.access >> 32)
        if plan & PLAN_INDEX_AT_END:
            number = plan >> PLAN_INDEX & PLAN_REGISTERS
            call_register(state.reg_read, address_of(engine), number - 1, scratch)
            index = state.scratch
        row.va = _address(state, pending, base, index)
        kind = 2 if plan & PLAN_WRITE else 1
        physical = physical_of(state, address_of(engine), row.va, kind, here + _PHYSICAL)
        if physical >= 0:
            row.pa = physical
            level |= SAMPLE_PA
    row.flags = pending.flags
    if plan & PLAN_FLAGS_AT_END:
        call_register(state.reg_read, address_of(engine), _NZCV, here + _SCRATCH)
        row.flags = state.scratch
    row.level = level
    row.flow_target = state.flow_target
    row.flow = state.flow
    row.did = pending.did
    if state.led != 0:
        note_late(state, engine, plan, 0)
    state.samples_in_ring += 1
    if state.weigh != 0:
        weights = array_at(pointer_to(state.weights), (BLOCKS,), np.int64)
        behind = weights[state.slot] - pending.member - 1
        row.members = state.members_granted - state.members - behind
    else:
        row.members = executed - behind
    return behind


@routine
def note_samples(state: StateRecord, engine: Pointer, user: Pointer, following: int) -> None:
    """The block of the pending samples has run: note them, and go on to the next one."""
    if state.data_side != 0:
        _keep_all(state, engine, user)
    level = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    behind = int64(0)
    for n in range(state.pending):
        behind = _note(state, engine, user, n, following, level)
    samples_over(state)
    gap = array_at(pointer_to(state.gaps), (SAMPLES,), np.int64)[state.samples_in_ring - 1]
    left = gap - 1 - behind
    if state.weigh != 0:
        grant_members(state, state.members_granted - state.members, left)
        return
    executed = state.granted - state.budget
    if left > state.horizon - executed:
        # the slice or the run ends before the next sample
        left = max(state.horizon - executed, 0)
        state.samples_itself = 0
    grant(state, left)
