"""Turns of several PEs that compiled code takes.

PEs that send each other interrupts change turns all the time. Compiled code takes a turn if nothing
but the PE's operations matters in it, and if it ends because the PE sleeps in a WFI, or because it
has sent an interrupt to a PE that sleeps. All else is left to Python: between two turns, or in the
midst of one, at a stop of the engine. ``machine.schedule`` has the rules of turns. Before the first
turn, Python sees whether all PEs may have such turns (``Runner.offer_turns``,
``machine.turns.relay``).
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import Pointer, entry, int64, layout, pointer_to, record_at, routine
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import call_register, current_el
from spe_unicorn.host.native.cover import left_block
from spe_unicorn.host.native.levels import at_level, flow_moves, work_out_watch
from spe_unicorn.host.native.marks import MARK_MEND
from spe_unicorn.host.native.runs import is_in_wfi, run_through
from spe_unicorn.host.native.state.budget import BUDGET_SPENT
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import select_set
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.whole import LAYOUT, begin_run, offset_of


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
    due: int
    turn: int
    limit: int
    """What ``Runner.offer_turns`` says, like the next five."""
    slice: int
    gic_at: int
    uart_at: int
    own_calls: int
    waits_at: int
    writes: int
    """``State.writes`` as it was then."""
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
    devices_due: int
    """When a device drives a line."""
    time: int
    """What ``ScheduleState`` has, like the next three."""
    last: int
    alone: int
    length: int
    left: int
    """Operations left of the run."""
    began: int
    """Operations that the PE of the last turn had executed before it."""
    granted: int
    """Operations that it may execute in it."""
    status: int
    """The engine's error number after it."""
    sent: int
    """Whether a PE has executed a SEV of which Python has to hear."""


PE_ROW: Final = layout(PeRow)
TURNS: Final = layout(Turns)
_ROW_BYTES: Final = PE_ROW.itemsize
_SCRATCH: Final = offset_of("scratch")
_PC: Final = int(PC)
_AARCH32: Final = int(SPSR.nRW.mask)
_NONE, _NOTICED = int(Stop.NONE), int(Stop.NOTICED)
_NEVER: Final = -1
"""No address: where no run ends, or begins."""
OVER, GOES_ON, FOR_PYTHON = 0, 1, 2
"""What becomes of a turn at a stop of the engine."""


@routine
def _row(t: Turns, n: int) -> PeRow:
    return record_at(pointer_to(t.rows + n * _ROW_BYTES), PE_ROW)


@routine
def _sleeps(p: PeRow) -> bool:
    """Whether the PE is in a WFI that no interrupt ends."""
    return p.on != 0 and p.asleep != 0 and record_at(pointer_to(p.state), LAYOUT).lines == 0


@routine
def _first_due(t: Turns) -> int:
    """When the first timer of a PE that sleeps goes off."""
    due = int64(1) << 62
    for n in range(t.pes):
        p = _row(t, n)
        if _sleeps(p) and p.due < due:
            due = p.due
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
            if chosen < 0:
                chosen = n
    if t.left <= 0 or able == 0 or (t.alone != 0 and chosen == t.last):
        return -1  # the run is over, all sleep, or turns get longer
    p = _row(t, chosen)
    if t.time >= min(p.due, t.devices_due) or t.time >= _first_due(t):
        return -1
    t.alone = able == 1
    return chosen


@routine
def _begin(t: Turns, p: PeRow, state: StateRecord) -> bool:
    """Begin a turn of a PE. False, with nothing done, if Python has to begin it."""
    executed = state.granted - state.budget
    call_register(state.reg_read, p.engine, _PC, p.state + _SCRATCH)
    if (
        state.writes != p.writes
        or state.deliver_irq < 0
        or executed >= p.limit
        or state.scratch & 3 != 0
    ):
        return False
    p.asleep = 0
    p.taken += 1
    state.skipped = t.time - executed
    for n in range(t.pes):
        other = _row(t, n)
        record_at(pointer_to(other.state), LAYOUT).waits = t.alone | other.asleep
    t.length = t.turn if t.alone != 0 else min(t.turn, p.turn)
    t.began = executed
    t.granted = min(t.length, min(_first_due(t) - t.time, t.left))
    return True


@routine
def _run(t: Turns, p: PeRow, state: StateRecord) -> bool:
    """Run the engine in the turn. False, with nothing done, if Python has to act before that."""
    executed = state.granted - state.budget
    limit = min(t.began + t.granted, min(p.limit, min(p.due, t.devices_due) - state.skipped))
    horizon = min(limit, t.began + p.slice)
    scratch = p.state + _SCRATCH
    call_register(state.reg_read, p.engine, _PC, scratch)
    pc = state.scratch
    if executed >= horizon:
        return False
    state.limit, state.horizon = limit, horizon
    begin_run(pointer_to(p.state), horizon - executed, 0)
    state.sends_events = 1  # no PE waits in a WFE
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
    t.status = run_through(engine, user, start, buffer, pc, _NEVER, 1)
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
    of_all = (
        state.controls_written
        | state.stale_code
        | state.maintenance
        | state.line_count
        | state.uart_sent
    )
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
def _after_run(t: Turns, p: PeRow, state: StateRecord) -> int:
    """Decide after a stop of the engine: the turn is ``OVER``, or ``GOES_ON``, or is for Python.

    If it is for Python, nothing has been done but that ``sent`` may have been set.
    """
    if t.status != 0 or state.writes != p.writes or not _nothing_to_tell(state):
        return FOR_PYTHON
    el = current_el(state, p.engine, p.state + _SCRATCH)
    if state.scratch & _AARCH32 != 0:
        return FOR_PYTHON
    wakes = _wakes(t, state)
    waits = state.stop == _NONE and is_in_wfi(state, p.engine, p.state + _SCRATCH)
    if not wakes and not waits:
        return FOR_PYTHON
    t.sent |= state.sent | (state.sev != 0)  # the block has run to its end
    state.sent = state.sev = 0
    if wakes:
        for n in range(t.pes):
            if state.rose >> n & 1 != 0:
                _row(t, n).asleep = 0
        state.rose = state.notice = 0
        return OVER
    if state.lines != 0:
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
    n, now = 0, OVER
    for _ in range(t.most):
        if now == OVER:
            alone = t.alone
            n = _next(t)
            if n < 0:
                return False
            p = _row(t, n)
            state = record_at(pointer_to(p.state), LAYOUT)
            if not _begin(t, p, state):
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
    return now == GOES_ON
