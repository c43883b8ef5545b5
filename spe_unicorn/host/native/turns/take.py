"""Turns of several PEs that compiled code takes.

PEs that send each other interrupts, or that all work, change turns all the time. Compiled code
takes a turn if nothing but the PE's operations matters in it, and if it ends because the PE sleeps
in a WFI, because it has sent an interrupt to a PE that sleeps, or because all of its operations
have been executed and the PE is in no loop that waits (``standing``). All else is left to Python:
between two turns, or in the midst of one, at a stop of the engine. ``machine.schedule`` has the
rules of turns. Before the first turn, Python sees whether all PEs may have such turns
(``Runner.offer_turns``, ``machine.turns.relay``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import (
    Pointer,
    array_at,
    entry,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import call_register, current_el, flush_tlb, forget_code
from spe_unicorn.host.native.cover import left_block
from spe_unicorn.host.native.delivery import ends_wfi
from spe_unicorn.host.native.exceptions.exception import is_trapped_at_end
from spe_unicorn.host.native.levels import at_level, flow_moves, work_out_watch
from spe_unicorn.host.native.marks import MARK_MEND
from spe_unicorn.host.native.runs import is_in_wfi, run_through
from spe_unicorn.host.native.state.budget import BUDGET_SPENT
from spe_unicorn.host.native.state.clock import CODE_MAINTENANCE, FLUSH_MAINTENANCE, TLB_MAINTENANCE
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import begin_epoch, tlb_flushed, was_broadcast
from spe_unicorn.host.native.state.request import PASSES_SOME
from spe_unicorn.host.native.state.steer import select_set
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import answered, complete_event, set_event
from spe_unicorn.host.native.state.whole import LAYOUT, begin_run, offset_of
from spe_unicorn.host.native.translated import code_is_in_memory
from spe_unicorn.host.native.turns.standing import may_wait


class PeRow:
    """A PE whose turns are taken here."""

    engine: int
    """Address of its engine, for ``run_through``, as the next two."""
    start: int
    buffer: int
    state: int
    """Address of its `State`."""
    on: int
    """Whether it is on, as ``machine.pe`` knows, like the next three."""
    asleep: int
    dozing: int
    polls: int
    patience: int
    pending: int
    """Whether an interrupt ends its wait that is not one of its lines: a virtual one."""
    look: int
    """Where the memory lies for whose change it waits; 0 for none."""
    size: int
    """How many bytes that is: up to 8."""
    seen: int
    """What they held."""
    turn: int
    limit: int
    """What ``Runner.offer_turns`` says, like the next five."""
    slice: int
    gic_at: int
    uart_at: int
    own_calls: int
    waits_at: int
    wfes: int
    """WFE_SEARCHED, WFE_AWAITED or WFE_HEARD of ``standing``."""
    taken: int
    """How many turns it has taken here."""


class Turns:
    """What the PEs share."""

    rows: int
    """Where their rows are."""
    pes: int
    """How many PEs there are."""
    most: int
    """The most turns that are taken."""
    turn: int
    """Operations of the longest turn."""
    longest: int
    """The most that ``PeRow.turn`` becomes, which doubles with each whole turn."""
    shortest: int
    """The first ``until_look`` after the number of PEs that wait for memory has changed."""
    devices_due: int
    """When a device drives a line."""
    time: int
    """What ``ScheduleState`` has, like the next five."""
    last: int
    alone: int
    length: int
    awaiting: int
    until_look: int
    left: int
    """Operations left of the run."""
    began: int
    """Operations that the PE of the last turn had executed before it."""
    granted: int
    """Operations that it may execute in it."""
    status: int
    """The engine's error number after it."""
    until: int
    """The address at which the turn is over, -1 while that is not known."""
    stands: int
    """Whether the last turn was a whole one of a PE that may wait where it stands now."""


PE_ROW: Final = layout(PeRow)
TURNS: Final = layout(Turns)
_ROW_BYTES: Final = PE_ROW.itemsize
_SCRATCH: Final = offset_of("scratch")
_PC: Final = int(PC)
_AARCH32: Final = int(SPSR.nRW.mask)
_NONE, _NOTICED, _BUDGET = int(Stop.NONE), int(Stop.NOTICED), int(Stop.BUDGET)
LONG_TURN: Final = 1 << 24
"""Operations of the longest turn while no other PE has anything to do. Such turns double. The turn
ends when another PE gets something to do."""
_NEVER: Final = -1
"""No address: where no run ends, or begins."""
_RUNS: Final = 4
"""Runs of the engine, for each turn on average, after which Python has its turn."""
OVER, GOES_ON, FOR_PYTHON = 0, 1, 2
"""What becomes of a turn at a stop of the engine."""


@routine
def _row(t: Turns, n: int) -> PeRow:
    return record_at(pointer_to(t.rows + n * _ROW_BYTES), PE_ROW)


@routine
def _sleeps(p: PeRow) -> bool:
    """Whether the PE is in a WFI that no interrupt ends."""
    return p.asleep != 0 and _waits(p)


@routine
def _waits(p: PeRow) -> bool:
    """Whether the PE is in a WFI, a WFE or a loop that polls, and no interrupt ends that."""
    if p.on == 0 or p.asleep | p.dozing == 0:
        return False
    return record_at(pointer_to(p.state), LAYOUT).lines | p.pending == 0


@routine
def _sees_change(p: PeRow) -> bool:
    """Whether memory has changed for which the PE waits."""
    if p.look == 0:
        return False
    memory = array_at(pointer_to(p.look), (p.size,), np.uint8)
    held = int64(0)
    for n in range(p.size):
        held |= int64(memory[n]) << 8 * n
    return held != p.seen


@routine
def _wake(p: PeRow) -> None:
    """What the PE waited for has happened, or may have."""
    p.asleep = p.dozing = p.polls = p.pending = p.look = 0


@routine
def _first_due(t: Turns) -> int:
    """When the first timer of a PE that waits goes off."""
    due = int64(1) << 62
    for n in range(t.pes):
        p = _row(t, n)
        own = record_at(pointer_to(p.state), LAYOUT).due
        if own < due and _waits(p):
            due = own
    return due


@routine
def _next(t: Turns) -> int:
    """The PE whose turn is next; -1 if Python has to choose it. Set ``alone``."""
    able, chosen = 0, -1
    for k in range(1, t.pes + 1):
        n = (t.last + k) % t.pes
        p = _row(t, n)
        if p.on != 0 and not _sleeps(p):
            able += 1
            if chosen < 0 and (not _waits(p) or _sees_change(p)):
                chosen = n
    if t.left <= 0 or chosen < 0:
        return -1  # the run is over, or all wait
    own = record_at(pointer_to(_row(t, chosen).state), LAYOUT).due
    if t.time >= min(own, t.devices_due) or t.time >= _first_due(t):
        return -1
    t.alone = able == 1
    return chosen


@routine
def _wake_for_memory(t: Turns) -> None:
    """Wake the PEs that wait for memory which has changed, and say how long it is until a look."""
    waiting = 0
    for n in range(t.pes):
        p = _row(t, n)
        if p.look != 0:
            waiting += 1
            if _sees_change(p):
                _wake(p)
    t.until_look = min(2 * t.until_look, t.longest)
    if waiting != t.awaiting:
        t.awaiting = waiting
        t.until_look = t.shortest if waiting != 0 else t.longest


@routine
def _awaits_event(t: Turns) -> int:
    """Whether a PE waits in a WFE."""
    awaited = 0
    for n in range(t.pes):
        p = _row(t, n)
        awaited |= p.dozing & (p.polls ^ 1)
    return awaited


@routine
def _begin(t: Turns, p: PeRow, state: StateRecord, again: bool) -> bool:
    """Begin a turn of a PE. False, with nothing done, if Python has to begin it.

    ``again`` is whether it was alone in its last turn, and no other has had one since.
    """
    executed = state.granted - state.budget
    call_register(state.reg_read, p.engine, _PC, p.state + _SCRATCH)
    if state.deliver_irq < 0 or executed >= p.limit or state.scratch & 3 != 0:
        return False
    _wake_for_memory(t)
    _wake(p)
    p.taken += 1
    state.skipped = t.time - executed
    for n in range(t.pes):
        other = _row(t, n)
        if other.dozing != 0 and other.on != 0:
            other.patience -= 1
            if other.patience == 0:
                _wake(other)
    for n in range(t.pes):
        other = _row(t, n)
        waits = t.alone | other.asleep | other.dozing
        record_at(pointer_to(other.state), LAYOUT).waits = waits
    if t.alone == 0:
        t.length = min(t.turn, min(p.turn, t.until_look))
    else:
        t.length = min(2 * t.length, LONG_TURN) if again else t.turn
    t.until = _NEVER
    t.began = executed
    t.granted = min(t.length, min(_first_due(t) - t.time, t.left))
    return True


@routine
def _run(t: Turns, p: PeRow, state: StateRecord) -> bool:
    """Run the engine in the turn. False, with nothing done, if Python has to act before that."""
    executed = state.granted - state.budget
    limit = min(t.began + t.granted, min(p.limit, min(state.due, t.devices_due) - state.skipped))
    horizon = min(limit, t.began + p.slice)
    scratch = p.state + _SCRATCH
    call_register(state.reg_read, p.engine, _PC, scratch)
    pc = state.scratch
    if executed >= horizon:
        return False
    state.limit, state.horizon = limit, horizon
    begin_run(pointer_to(p.state), horizon - executed, 0)
    state.sends_events = _awaits_event(t) ^ 1
    state.passes_wfe = PASSES_SOME
    select_set(state, 0, p.gic_at)
    state.uart_at, state.own_calls = p.uart_at, p.own_calls
    state.begins_anew = 1
    state.seeks = state.relevant & MARK_MEND == 0
    state.gap_epoch = state.epoch
    work_out_watch(state)
    el = current_el(state, p.engine, scratch)
    at_level(state, el)
    flow_moves(state)
    engine, user = pointer_to(p.engine), pointer_to(p.state)
    start, buffer = pointer_to(p.start), pointer_to(p.buffer)
    t.status = run_through(engine, user, start, buffer, pc, t.until, 1)
    return True


@routine
def _nothing_to_tell(state: StateRecord) -> bool:
    """Whether nothing is to be told of what has just run."""
    of_run = (
        state.pending
        | state.restored
        | state.samples_in_ring
        | state.fence
        | state.falls_to
        | state.looked_at_pc
        | state.wrong
    )
    of_all = state.controls_written | state.stale_code | state.line_count | state.uart_sent
    return of_run | of_all == 0


@routine
def _wakes(t: Turns, state: StateRecord) -> bool:
    """Whether the PE has sent an interrupt that ends the sleep of others, and ends its turn so."""
    if state.stop != _NOTICED or state.notice != BUDGET_SPENT or state.rose == 0:
        return False
    for n in range(t.pes):
        if state.rose >> n & 1 != 0:
            p = _row(t, n)
            if p.on == 0 or p.asleep == 0:
                return False
            if record_at(pointer_to(p.state), LAYOUT).deliver_irq < 0:
                return False
    return True


@routine
def _hear_events(t: Turns, state: StateRecord) -> None:
    """The other PEs hear of the SEV that one has executed; its last block has run to its end."""
    complete_event(state)
    if state.sent != 0:
        for n in range(t.pes):
            if n != t.last:
                set_event(record_at(pointer_to(_row(t, n).state), LAYOUT))
    state.sent = 0


@routine
def _left(t: Turns, state: StateRecord) -> int:
    """Operations that the turn has left."""
    return t.began + t.granted - (state.granted - state.budget)


@routine
def _may_spread(t: Turns, state: StateRecord) -> bool:
    """Whether no other PE has to forget code, because of the PE's maintenance of caches."""
    if state.maintenance & CODE_MAINTENANCE == 0:
        return True
    for n in range(t.pes):
        if n != t.last:
            other = record_at(pointer_to(_row(t, n).state), LAYOUT)
            if other.translated == 0 or not code_is_in_memory(other.translated):
                return False
    return True


@routine
def _over(t: Turns, p: PeRow, state: StateRecord, pc: int) -> int:
    """The PE has executed all operations of its turn."""
    if not _may_spread(t, state):
        return FOR_PYTHON
    t.stands = may_wait(state, p.engine, pc, p.wfes)
    if t.stands == 0:
        p.turn = min(2 * p.turn, t.longest)
    return OVER


@routine
def _before_block(t: Turns, p: PeRow, state: StateRecord) -> int:
    """The engine has stopped before a block that is too long for the turn: end the turn in it.

    Python ends a turn that is no whole one, and those in which each run of the engine is looked at.
    """
    whole = t.granted == t.length and state.limit == t.began + t.granted
    left = _left(t, state)
    if not whole or state.cover | state.call_stacks != 0 or left >= state.block_operations:
        return FOR_PYTHON
    _hear_events(t, state)
    if left == 0:
        return _over(t, p, state, state.block)
    forget_code(state, p.engine, state.block, state.block + 4)
    t.until = state.block + 4 * left
    return GOES_ON


@routine
def _spread_maintenance(t: Turns, state: StateRecord) -> None:
    """After a turn: the other PEs hear of its maintenance, as ``host.pe.maintenance`` has it."""
    maintenance = state.maintenance
    if maintenance == 0:
        return
    for n in range(t.pes):
        p = _row(t, n)
        if n != t.last:
            other = record_at(pointer_to(p.state), LAYOUT)
            if maintenance & TLB_MAINTENANCE != 0:
                flush_tlb(other, p.engine)
            begin_epoch(other)
            if p.polls != 0:
                _wake(p)  # it may look at other memory now
            if maintenance & FLUSH_MAINTENANCE != 0:
                tlb_flushed(other)
    was_broadcast(state)


@routine
def _after_run(t: Turns, p: PeRow, state: StateRecord) -> int:
    """Decide after a stop of the engine: the turn is ``OVER``, or ``GOES_ON``, or is for Python.

    If it is for Python, nothing has been done, but that events may have been heard of.
    """
    if t.status != 0 or not _nothing_to_tell(state):
        return FOR_PYTHON
    el = current_el(state, p.engine, p.state + _SCRATCH)
    if state.scratch & _AARCH32 != 0:
        return FOR_PYTHON
    if state.stop == _BUDGET:
        return _before_block(t, p, state)
    if t.until != _NEVER and is_trapped_at_end(state, p.engine, t.until):
        state.scratch = t.until
        call_register(state.reg_write, p.engine, _PC, p.state + _SCRATCH)
        answered(state)
    if t.until != _NEVER and state.stop == _NONE and _left(t, state) == 0:
        call_register(state.reg_read, p.engine, _PC, p.state + _SCRATCH)
        if state.scratch != t.until or state.notice | state.rose != 0:
            return FOR_PYTHON
        _hear_events(t, state)
        return _over(t, p, state, t.until)
    wakes = _wakes(t, state)
    waits = state.stop == _NONE and is_in_wfi(state, p.engine, p.state + _SCRATCH)
    if (not wakes and not waits) or not _may_spread(t, state):
        return FOR_PYTHON
    _hear_events(t, state)
    if wakes:
        for n in range(t.pes):
            if state.rose >> n & 1 != 0:
                _row(t, n).asleep = 0
        state.rose = state.notice = 0
        return OVER
    if ends_wfi(state, el):
        return GOES_ON
    if p.waits_at >> el & 1 == 0:
        return FOR_PYTHON
    p.asleep = 1
    return OVER


@entry("bool", "pointer")
def take_turns(turns: Pointer) -> bool:
    """Take turns. Return whether the engine has stopped in one that Python is to go on with.

    That is a turn of the PE ``last``.
    """
    t = record_at(turns, TURNS)
    n, now, begun = 0, OVER, 0
    for _ in range(_RUNS * t.most):
        if now == OVER:
            if begun == t.most:
                return False
            begun += 1
            alone = t.alone
            n = _next(t)
            if n < 0:
                return False
            p = _row(t, n)
            state = record_at(pointer_to(p.state), LAYOUT)
            if not _begin(t, p, state, alone != 0 and n == t.last):
                t.alone = alone
                return False
            t.last = n
        p = _row(t, n)
        state = record_at(pointer_to(p.state), LAYOUT)
        if not _run(t, p, state):
            return True
        now = _after_run(t, p, state)
        if now == FOR_PYTHON:
            return True
        if state.cover != 0:
            left_block(state, state.block + 4 * state.block_operations, 0)
        if now == OVER:
            executed = state.granted - state.budget
            t.left -= executed - t.began
            t.time = executed + state.skipped
            _spread_maintenance(t, state)
            if t.stands != 0:
                return False
    return now == GOES_ON
