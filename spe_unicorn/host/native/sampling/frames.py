"""Frame records in compiled code: the calls that led to a sampled operation.

By the procedure call standard X29 points to a frame record: the caller's X29, and the address to
which the function returns. They are noted in a table with a row for each sample of the ring. X29
and X30 are read when they have the values that the sampled operation finds in them: at the start of
its block, or at the end. So is memory: of code that overwrites the frame record of a caller in that
very block, it is the block's start or end that counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

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
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.native.calls import call_read, call_register
from spe_unicorn.host.native.sampling.calls import note_calls
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.plan_row import PLAN_FRAMES_AT_END, PLAN_LINK_AT_END
from spe_unicorn.host.native.state.whole import LAYOUT

DEPTH: Final = 127
"""The most return addresses of a sample, as many as perf notes."""
LINK, COUNT, FIRST = 0, 1, 2
"""Words of a row: X30, how many return addresses there are, and the first of them."""
ROW_WORDS: Final = FIRST + DEPTH + 1
"""Words of a row; the last is room to work in."""
READ: Final = int(uc_const.UC_PROT_READ)
"""How memory is read."""
_X29: Final = int(e.X[29])
_X30: Final = int(e.X[30])


@routine
def place_of_row(state: StateRecord, n: int) -> int:
    """The address of the row of a sample: 0 for the next one of the ring."""
    return state.led + (state.samples_in_ring + n) * (8 * ROW_WORDS)


@routine
def _note_link(state: StateRecord, engine: Pointer, n: int) -> None:
    """Note X30 for sample ``n`` from the next one on."""
    call_register(state.reg_read, address_of(engine), _X30, place_of_row(state, n) + 8 * LINK)


@routine
def records_from(state: StateRecord, engine: Pointer, n: int, found: int, frame: int) -> int:
    """Note the return addresses of frame records for sample ``n``, behind ``found`` others.

    Return how many there are then. They end where the caller's does not lie above, as the stack
    grows down, where memory cannot be read, or at a return address of 0.
    """
    place = place_of_row(state, n)
    row = array_at(pointer_to(place), (ROW_WORDS,), np.int64)
    while found < DEPTH and frame != 0 and frame & 7 == 0:
        there = place + 8 * (FIRST + found)
        if call_read(state.vmem_read, address_of(engine), frame, READ, there, 16) != 0:
            break
        caller = row[FIRST + found]
        back = row[FIRST + found + 1]
        if back == 0:
            break
        row[FIRST + found] = back
        found += 1
        if caller <= frame:
            break
        frame = caller
    return found


@routine
def _note_frames(state: StateRecord, engine: Pointer, n: int) -> None:
    """Note the frame records to which X29 leads, for sample ``n`` from the next one on."""
    place = place_of_row(state, n)
    row = array_at(pointer_to(place), (ROW_WORDS,), np.int64)
    row[FIRST] = 0
    call_register(state.reg_read, address_of(engine), _X29, place + 8 * FIRST)
    row[COUNT] = records_from(state, engine, n, int64(0), row[FIRST])


@routine
def _note_executed(state: StateRecord, n: int) -> None:
    """Note the calls and exceptions that have not been returned from, for sample ``n``."""
    place = place_of_row(state, n)
    row = array_at(pointer_to(place), (ROW_WORDS,), np.int64)
    row[LINK] = 0
    row[COUNT] = note_calls(state, place + 8 * FIRST, DEPTH)


@routine
def note_early(state: StateRecord, engine: Pointer, plan: int, n: int) -> None:
    """Note of a sample, whose block begins, what its plan does not find at the end.

    ``n`` counts samples from the next one of the ring on.
    """
    if state.call_stacks != 0:
        _note_executed(state, n)
        return
    if plan & PLAN_LINK_AT_END == 0:
        _note_link(state, engine, n)
    if plan & PLAN_FRAMES_AT_END == 0:
        _note_frames(state, engine, n)


@routine
def note_late(state: StateRecord, engine: Pointer, plan: int, n: int) -> None:
    """Note of sample ``n``, whose block has run, what its plan finds at the end."""
    if state.call_stacks != 0 or state.unwinding != 0:
        return
    if plan & PLAN_LINK_AT_END:
        _note_link(state, engine, n)
    if plan & PLAN_FRAMES_AT_END:
        _note_frames(state, engine, n)


@routine
def note_here(state: StateRecord, engine: Pointer) -> None:
    """Note what led to the operation before which the engine stands, for the next sample."""
    if state.call_stacks != 0:
        _note_executed(state, 0)
        return
    _note_link(state, engine, 0)
    _note_frames(state, engine, 0)


@entry("void", "pointer", "pointer")
def frames_here(engine: Pointer, user: Pointer) -> None:
    """For Python: :func:`note_here`."""
    note_here(record_at(user, LAYOUT), engine)


@entry("void", "pointer", "pointer", "int64", "int64")
def frames_at_end(engine: Pointer, user: Pointer, plan: int, n: int) -> None:
    """Note what is left to note of sample ``n`` of the block that was the last one to run."""
    note_late(record_at(user, LAYOUT), engine, plan, n)
