"""Blocks that the hot path does not count: those to look at, and those to sample from.

Most of them stop the engine. A sample need not: if a few registers at the start of the block
describe the sampled operation (see ``host.run.blocks``), the hook notes them and lets the block
run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.access.fine_grained_traps import TRAP_IDS
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    entry,
    int64,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.cores.caches import UNBOUNDED as EVERYTHING
from spe_unicorn.decode.words import SEV, SEVL, WFE
from spe_unicorn.host.engine.engine import PC, PSTATE
from spe_unicorn.host.native.calls import (
    FETCH,
    call_read,
    call_register,
    current_el,
    stop_engine,
)
from spe_unicorn.host.native.cover import UNKNOWN
from spe_unicorn.host.native.delivery import deliverable
from spe_unicorn.host.native.exceptions.exception import returns_alike
from spe_unicorn.host.native.levels import RESTORES_PM
from spe_unicorn.host.native.marks import (
    MARK_EVENT,
    MARK_FENCE,
    MARK_MEND,
    MARK_RETURN,
    MARK_SYNC,
    MARK_TRAP,
    MARK_WHOLE,
    MARKS_OF_HOST_OPERATIONS,
    is_absent,
    marks_of,
)
from spe_unicorn.host.native.rules import trap_id
from spe_unicorn.host.native.sampling.awaited import AWAITED, may_reach
from spe_unicorn.host.native.sampling.calls import forget_branch
from spe_unicorn.host.native.sampling.pending import note_samples, prepared, probed
from spe_unicorn.host.native.sampling.walks import walked
from spe_unicorn.host.native.state.block_table import (
    BLOCKS,
    CODE_WORDS,
    NOT_IN_TABLE,
    ROW,
    SPREAD,
    slot_of,
)
from spe_unicorn.host.native.state.budget import NOTICE_RETURN, UNBOUNDED, begin_anew
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import charge, charge_members, grant, set_pm
from spe_unicorn.host.native.state.plan_row import (
    PLAN_WORDS,
    PLANS,
)
from spe_unicorn.host.native.state.request import PASSES_EACH
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import complete_event, is_event
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of
from spe_unicorn.instructions.known.finding import MOST_NUMBERS

_SCRATCH: Final = offset_of("scratch")
_PC: Final = int(PC)
_PSTATE: Final = int(PSTATE)
_PM: Final = int(SPSR.PM.lsb)

_OURS: Final = int(MARKS_OF_HOST_OPERATIONS)
_STOP_BUDGET, _STOP_NOTICED = int(Stop.BUDGET), int(Stop.NOTICED)
_STOP_UNSEEN = int(Stop.UNSEEN)
_STOP_INTERRUPT = int(Stop.INTERRUPT)
_STOP_TRAP = int(Stop.TRAP)
_STOP_WRONG_PATH: Final = int(Stop.WRONG_PATH)
_STOP_MISALIGNED: Final = int(Stop.MISALIGNED)


@routine
def _slot(state: StateRecord, engine: Pointer, address: int, operations: int) -> int:
    """The slot of the block at ``address`` in the block table, -1 if it is not there."""
    slot = slot_of(address, operations)
    keys = array_at(pointer_to(state.block_keys), (BLOCKS,), np.int64)
    if keys[slot] != address ^ operations:
        return -1
    epochs = array_at(pointer_to(state.block_epochs), (BLOCKS,), np.int64)
    if epochs[slot] != state.epoch:
        # in another epoch the address may mean other code; it rarely does
        if not _holds(state, engine, address, operations, slot):
            return -1
        epochs[slot] = state.epoch
    return slot


@routine
def _plans_of(state: StateRecord, slot: int) -> int:
    """Where the plans of the block in ``slot`` begin in the pool, in words."""
    return array_at(pointer_to(state.block_plans), (BLOCKS,), np.int64)[slot]


@routine
def _code_of(state: StateRecord, slot: int) -> int:
    """Where the code of the block in ``slot`` begins in the pool, in words: after its plans."""
    weight = array_at(pointer_to(state.weights), (BLOCKS,), np.int64)[slot]
    return _plans_of(state, slot) + PLAN_WORDS * weight


@routine
def _holds(state: StateRecord, engine: Pointer, address: int, operations: int, slot: int) -> int:
    """Whether memory at ``address`` still has the code of the block in ``slot``."""
    if (
        call_read(state.vmem_read, address_of(engine), address, FETCH, state.code, 4 * operations)
        != 0
    ):
        return False
    code = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    plans = array_at(pointer_to(state.plans), (PLANS,), np.int64)
    place = _code_of(state, slot)
    same = True
    for n in range(operations):
        same &= plans[place + n] == int64(code[n])
    return same


@routine
def marks_here(state: StateRecord, engine: Pointer, address: int, operations: int) -> int:
    """The marks of a block; -1 if it is not in the table and Python has to enter it."""
    slot = _slot(state, engine, address, operations)
    if slot >= 0:
        return array_at(pointer_to(state.block_marks), (BLOCKS,), np.int64)[slot]
    if state.tally != 0:
        return -1  # Python works out what its words add to the tallies
    if (
        call_read(state.vmem_read, address_of(engine), address, FETCH, state.code, 4 * operations)
        != 0
    ):
        return -1
    code = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    trapped = array_at(pointer_to(state.trapped), (TRAP_IDS,), np.uint8)
    known = array_at(pointer_to(state.known), (MOST_NUMBERS,), np.int64)
    marks = 0
    for n in range(operations):
        word = int64(code[n])
        marks |= marks_of(word) | (MARK_TRAP if trapped[trap_id(word)] else 0)
        if is_absent(known, state.absent, word):
            marks |= MARK_MEND
    return -1 if marks & state.watch & _OURS else marks


@routine
def _traps(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, operations: int
) -> bool:
    """Whether a block with ``MARK_TRAP`` has an operation that traps at the PE's Exception level.

    The block is in the block table.
    """
    here = 1 << current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    slot = slot_of(address, operations)
    trapping = array_at(pointer_to(state.trapping), (TRAP_IDS,), np.uint8)
    plans = array_at(pointer_to(state.plans), (PLANS,), np.int64)
    place = _code_of(state, slot)
    found = 0
    for n in range(operations):
        found |= trapping[trap_id(plans[place + n])] & here
    return found != 0


@routine
def _deliverable(state: StateRecord, engine: Pointer, user: Pointer) -> int:
    """Whether the PE takes a pending interrupt now, by its Exception level and its masks."""
    call_register(state.reg_read, address_of(engine), _PSTATE, address_of(user) + _SCRATCH)
    return deliverable(state.deliver, state.scratch)


@routine
def _stop(state: StateRecord, engine: Pointer, why: int, address: int, operations: int) -> None:
    """Stop before a block that has not been counted."""
    state.stop = why
    state.block = address
    state.block_operations = operations
    if state.cover != 0:
        state.covering = UNKNOWN
    if state.call_stacks != 0:
        forget_branch(state)
    stop_engine(state, engine)


@routine
def _something_comes_first(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, operations: int
) -> bool:
    """Whether something comes before the first operation of a block. If so, stop the engine.

    That is what the block before has left to be done, an interrupt, or a misaligned PC. Where the
    run has reached its limit, what is due there comes before an interrupt.
    """
    if state.notice != 0:
        _stop(state, engine, _STOP_NOTICED, address, operations)
        return True
    due = state.granted - state.budget >= state.limit
    if state.deliver != 0 and not due and _deliverable(state, engine, user):
        _stop(state, engine, _STOP_INTERRUPT, address, 0)
        return True
    if address & state.pc_mask != 0:
        _stop(state, engine, _STOP_MISALIGNED, address, 0)
        return True
    return False


@routine
def _begin(state: StateRecord, address: int, operations: int) -> None:
    """Count a block that begins, and add its events to the tallies."""
    if state.tally != 0:
        place = state.tallies + slot_of(address, operations) * (ROW * 8)
        row = array_at(pointer_to(place), (ROW,), np.int64)
        state.tallied0 += row[0]
        state.tallied1 += row[1]
        state.tallied2 += row[2]
        state.tallied3 += row[3]
        if state.falls_to != 0 and state.falls_to != address:
            state.jumps += 1
        state.falls_to = address + 4 * operations & row[ROW - 1]
    charge(state, operations)
    state.block = address
    state.block_operations = operations
    state.covering = state.cover_row


@routine
def _note_fence(state: StateRecord, operations: int) -> None:
    """Note the context synchronization event at the end of the block that begins."""
    fence = state.granted - state.budget + operations
    if state.fence != fence:
        state.fence_before = state.fence
        state.fence = fence


@routine
def _event_due(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, operations: int
) -> int:
    """``State.event_due`` of a block with ``MARK_EVENT``; 0 if the engine must not execute it.

    It may if the block has one SEV, or ends with a WFE that does not wait, which may follow a SEVL.
    The block is in the block table.
    """
    plans = array_at(pointer_to(state.plans), (PLANS,), np.int64)
    place = _code_of(state, slot_of(address, operations))
    events, sev = 0, 0
    for n in range(operations):
        word = plans[place + n]
        if marks_of(word) & MARK_EVENT != 0:
            events += 1
            if word == SEV:
                sev = n + 1
    if plans[place + operations - 1] != WFE:
        return sev if events == 1 and state.sends_events != 0 else 0
    if state.passes_wfe == 0:
        return 0
    el = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    if events == 2 and plans[place + operations - 2] == SEVL:
        return -1 - el
    goes_on = state.passes_wfe == PASSES_EACH or is_event(state, el)
    return -1 - el if events == 1 and goes_on else 0


@routine
def _may_reach(state: StateRecord, operations: int, marks: int) -> bool:
    """Whether a block with ``MARK_WHOLE`` might make an awaited event."""
    own = array_at(pointer_to(state.data_side), (EVERYTHING,), np.int64)
    return may_reach(record_at(pointer_to(state.awaited), AWAITED), own, operations, marks)


@routine
def _goes_on(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, operations: int
) -> bool:
    """Whether a block that is not known to be harmless may run. If not, stop the engine."""
    # an interrupt comes before the block
    if state.deliver != 0 and state.notice == 0 and _deliverable(state, engine, user):
        _stop(state, engine, _STOP_INTERRUPT, address, 0)
        return False
    # the marks of the block: what its operations ask of the hooks
    if state.watch | state.weigh | state.samples_allowed | state.tally == 0:
        return True
    marks = marks_here(state, engine, address, operations)
    if marks < 0 or (marks & MARK_SYNC and state.samples_in_ring != 0):
        _stop(state, engine, _STOP_UNSEEN, address, operations)
        return False
    # operations that the engine must not execute: stop before the block, but not for all events
    ours = marks & state.watch & _OURS
    if ours == MARK_WHOLE and not _may_reach(state, operations, marks):
        ours = 0
    due = 0
    if ours == MARK_EVENT and state.sends_events | state.passes_wfe != 0:
        due = _event_due(state, engine, user, address, operations)
    elif ours == MARK_TRAP and not _traps(state, engine, user, address, operations):
        ours = 0
    if ours != 0 and due == 0:
        _stop(state, engine, _STOP_TRAP, address, operations)
        return False
    if marks & state.watch & MARK_RETURN and not returns_alike(state, engine, user):
        # let the block run; the engine stops before the operation to which its ERET leads
        state.notice = NOTICE_RETURN
        grant(state, operations)
    if marks & MARK_FENCE and state.notes_fences != 0:
        _note_fence(state, operations)
    if due != 0 or state.restored != 0:
        # let the block run; before the next one the SEV, WFE or ERET has been executed
        state.event_due = due
        state.after_event = state.budget - operations
        grant(state, operations)
    # a block without marks that matter needs no more looks in this epoch
    if marks & state.relevant == 0:
        quick = array_at(pointer_to(state.quick), (BLOCKS,), np.int64)
        harmless = address ^ operations ^ state.epoch * SPREAD
        if _slot(state, engine, address, operations) < 0:
            harmless ^= 1 << NOT_IN_TABLE
        quick[slot_of(address, operations)] = harmless
    return True


@routine
def _samples(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, slot: int, member: int
) -> bool:
    """Whether the chosen members of a block, from ``member`` on, are sampled while it runs."""
    marks = array_at(pointer_to(state.block_marks), (BLOCKS,), np.int64)[slot]
    if marks & state.watch & _OURS:
        return False
    return prepared(state, engine, user, address, slot, member)


@routine
def _note_sampled_fence(state: StateRecord, slot: int, operations: int) -> None:
    """Before a sampled block is counted: note the context synchronization event at its end."""
    if state.notes_fences != 0:
        marks = array_at(pointer_to(state.block_marks), (BLOCKS,), np.int64)[slot]
        if marks & MARK_FENCE:
            _note_fence(state, operations)


@routine
def _weigh_block(
    state: StateRecord, engine: Pointer, user: Pointer, address: int, operations: int
) -> None:
    """Count the members of a block that is not known to be harmless, by its weight."""
    # note the samples of the block before, count a wrong path, leave for what comes first
    if state.pending != 0:
        note_samples(state, engine, user, address)
        if state.samples_in_ring >= state.samples_allowed:
            _stop(state, engine, _STOP_BUDGET, address, operations)
            return
    if state.wrong != 0:
        if not walked(state, engine, user):
            _stop(state, engine, _STOP_WRONG_PATH, address, operations)
            return
        if state.samples_in_ring > 0 and state.samples_in_ring >= state.samples_allowed:
            _stop(state, engine, _STOP_BUDGET, address, operations)
            return
    if _something_comes_first(state, engine, user, address, operations):
        return
    slot = _slot(state, engine, address, operations)
    if slot < 0:
        _stop(state, engine, _STOP_UNSEEN, address, operations)
        return
    weight = array_at(pointer_to(state.weights), (BLOCKS,), np.int64)[slot]
    # a chosen member is in this block: take its sample, if the whole block may run
    ends = operations > state.budget
    if weight > state.members:
        if state.granted - state.budget + operations > state.limit:
            _stop(state, engine, _STOP_BUDGET, address, operations)
            return
        if not _samples(state, engine, user, address, slot, state.members):
            _stop(state, engine, _STOP_BUDGET, address, operations)
            return
        _note_sampled_fence(state, slot, operations)
    elif ends:
        _stop(state, engine, _STOP_BUDGET, address, operations)
        return
    elif not _goes_on(state, engine, user, address, operations):
        return
    charge_members(state, weight)
    _begin(state, address, operations)


@routine
def _restore(state: StateRecord, engine: Pointer, user: Pointer) -> None:
    """The ERET at the end of the block before has been executed: complete PSTATE."""
    bits = state.restored & state.restored_by_host
    if bits != 0:
        scratch = address_of(user) + _SCRATCH
        call_register(state.reg_read, address_of(engine), _PSTATE, scratch)
        state.scratch |= bits
        call_register(state.reg_write, address_of(engine), _PSTATE, scratch)
    if state.restored & RESTORES_PM != 0:
        set_pm(state, state.restored >> _PM & 1)
    state.restored = 0
    if state.notice == 0:
        complete_event(state)
        grant(state, state.after_event)


@entry("void", "pointer", "pointer", "int64", "int64")
def on_special_block(engine: Pointer, user: Pointer, address: int, operations: int) -> None:
    """A block that exceeds the budget, or has to be looked at before it runs."""
    state = record_at(user, LAYOUT)
    if state.again != 0:
        # after a write of the PC the engine leaves this hook and begins the block anew
        begin_anew(state)
        state.attend = -1
        state.scratch = address
        call_register(state.reg_write, address_of(engine), _PC, address_of(user) + _SCRATCH)
        return
    # complete what the block before has left: an ERET, or an event
    if state.restored != 0:
        _restore(state, engine, user)
    elif state.event_due != 0 and state.notice == 0:
        complete_event(state)
        grant(state, state.after_event)
    aligned = address & state.pc_mask == 0
    if state.weigh != 0:
        _weigh_block(state, engine, user, address, operations)
        return
    # the usual case: the whole block is granted
    if operations <= state.budget and aligned:
        if _goes_on(state, engine, user, address, operations):
            _begin(state, address, operations)
        return
    # the samples of the block before are complete; with the last gap the budget is a new one
    if state.pending != 0:
        note_samples(state, engine, user, address)
        if state.samples_in_ring >= state.samples_allowed:
            _stop(state, engine, _STOP_BUDGET, address, operations)
            return
        if operations <= state.budget and aligned and state.notice == 0:
            if state.special == 0 or _goes_on(state, engine, user, address, operations):
                _begin(state, address, operations)
            return
    if state.unattended != 0:
        # an access asked for a stop after its block; a run by the user does not stop for it
        state.notice = 0
        grant(state, UNBOUNDED)
        _begin(state, address, operations)
        return
    if _something_comes_first(state, engine, user, address, operations):
        return
    # the budget ends within this block: take the sample in it, or stop before the block
    fits = state.granted - state.budget + operations <= state.limit
    if fits and state.samples_itself != 0:
        slot = _slot(state, engine, address, operations)
        if slot >= 0 and _samples(state, engine, user, address, slot, state.budget):
            _note_sampled_fence(state, slot, operations)
            _begin(state, address, operations)
            return
    _stop(state, engine, _STOP_BUDGET, address, operations)


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_probe(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """Before an operation that is hard to describe: note its registers if it is sampled."""
    state = record_at(user, LAYOUT)
    if state.probe == int64(address):
        probed(state, engine)
