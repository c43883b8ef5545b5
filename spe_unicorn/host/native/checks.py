"""The compiled hooks before operations: alignment, watched memory, breakpoints, and traces.

While alignment is checked or memory is watched, one hook runs before every operation. It stops the
engine before an operation that may fail a check, and ``host.pe.checks`` then decides. Each
breakpoint has a hook before only its operation. A hook that never stops the engine notes each
operation for a trace.
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
)
from spe_unicorn.host.native.calls import FETCH, call_read, call_register, current_el, stop_engine
from spe_unicorn.host.native.rules import access_address
from spe_unicorn.host.native.state.actions import KEYS
from spe_unicorn.host.native.state.request import CHECK_SYSTEM
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

CHECKS: Final = 1 << 14
"""Rows of the table of operations, direct-mapped by address."""


class Check:
    """An operation that is checked."""

    key: int
    """Its address with the epoch."""
    plan: int
    """What to check."""
    offset: int
    """The offset of its address."""
    first: int
    """The first byte that it may access, from its address."""
    size: int
    """How many bytes it may access."""


CHECK: Final = layout(Check)
CHECK_BYTES: Final = CHECK.itemsize
CHECK_BASE: Final = 0
CHECK_INDEX: Final = 16
"""Shifts of the registers' engine numbers plus 1, 0 for none; without a base it is the PC."""
CHECK_EXTEND: Final = 32
CHECK_SHIFT: Final = 36
CHECK_MASK: Final = 40
"""Shifts of the extension of the index, of its shift, and of the bits that must be 0."""
CHECK_SP: Final = 1 << 48
"""The base is SP."""
CHECKED: Final = 1 << 49
"""There is an alignment to check."""
LOADS: Final = 1 << 50
STORES: Final = 1 << 51
"""It loads, or stores."""
UNCLEAR: Final = 1 << 52
"""Compiled code cannot work out its address."""
LOOKS: Final = 1 << 53
"""It is an MRS, MSR, SYS or SYSL. ``offset`` is its place in the tables ``looked_at``."""
DATA, STACK, DEVICE, WATCH, BREAK, EVERY, SYSTEM, NOTE = 1, 2, 4, 8, 16, 32, CHECK_SYSTEM, 128
"""``State.checking``: addresses of data, SP as a base, addresses of data in Device memory; watched
memory; breakpoints by address, and breakpoints by context, for which each operation is looked at;
MRS, MSR and SYS that are watched (``registers.system``); and whether operations are noted.
"""
RANGES: Final = 64
"""Rows of the table of watched ranges."""


class Range:
    """A range of addresses that is watched."""

    first: int
    """Its first address, :data:`ADDRESS_BITS` of it."""
    last: int
    """The bits of its last address."""
    kinds: int
    """LOADS, STORES or both."""


RANGE: Final = layout(Range)
RANGE_BYTES: Final = RANGE.itemsize
ADDRESS_BITS: Final = 49
_ADDRESS: Final = (1 << ADDRESS_BITS) - 1
NOTES: Final = 1 << 13
"""Rows of the ring of operations that were noted."""


class Noted:
    """An operation that was noted for a trace."""

    number: int
    """Which operation of the PE it is, from 1 on."""
    pc: int
    word: int
    """Its instruction word, -1 if that could not be read."""
    level: int
    """Its Exception level."""


NOTED: Final = layout(Noted)
NOTED_BYTES: Final = NOTED.itemsize

_ACCESS: Final = int(Stop.ACCESS)
_SCRATCH: Final = offset_of("scratch")


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_operation(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """Before an operation: stop if its alignment or its accesses have to be looked at."""
    state = record_at(user, LAYOUT)
    if state.checking == 0:
        return
    here = int64(address)
    slot = (here >> 2) & (CHECKS - 1)
    row = record_at(pointer_to(state.checks + slot * CHECK_BYTES), CHECK)
    plan = row.plan
    # an operation that the table does not know, or every one
    stops = row.key != here ^ (state.epoch << 48) or state.checking & EVERY != 0
    if not stops and plan & (CHECKED | LOADS | STORES) != 0:
        uc, scratch = address_of(engine), address_of(user) + _SCRATCH
        # its address, as far as SP's alignment needs it, and then with the index
        where = here
        number = plan >> CHECK_BASE & 0xFFFF
        if number != 0:
            call_register(state.reg_read, uc, number - 1, scratch)
            where = state.scratch
        aligns = plan & CHECKED != 0
        stops = aligns and plan & CHECK_SP != 0 and state.checking & STACK != 0 and where & 15 != 0
        number = plan >> CHECK_INDEX & 0xFFFF
        index = int64(0)
        if number != 0:
            call_register(state.reg_read, uc, number - 1, scratch)
            index = state.scratch
        extend, shift = plan >> CHECK_EXTEND & 7, plan >> CHECK_SHIFT & 7
        where = access_address(where + row.offset, index, extend, shift, 1)
        if aligns and state.checking & (DATA | DEVICE) != 0:
            stops = stops or where & (plan >> CHECK_MASK & 0xFF) != 0
        # watchpoints: ranges that the access meets
        if state.checking & WATCH != 0 and not stops:
            stops = plan & UNCLEAR != 0
            begin = (where + row.first) & _ADDRESS
            for n in range(state.watched):
                watched = record_at(pointer_to(state.ranges + n * RANGE_BYTES), RANGE)
                if plan & watched.kinds != 0:
                    within = begin <= watched.last and begin + row.size > watched.first
                    stops = stops or within
    # MRS, MSR and SYS of a watched register
    if plan & LOOKS != 0 and state.checking & SYSTEM != 0 and not stops:
        stops = array_at(pointer_to(state.looked_at), (3 * KEYS,), np.uint8)[row.offset] != 0
    if stops:
        state.stop = _ACCESS
        stop_engine(state, engine)


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_breakpoint(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """Before an operation with a breakpoint: stop."""
    state = record_at(user, LAYOUT)
    if state.checking & BREAK != 0 and state.stop == 0:
        state.stop = _ACCESS
        stop_engine(state, engine)


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_noted(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """Before an operation: note it. One that is then stopped is noted again when it is executed."""
    state = record_at(user, LAYOUT)
    if state.checking & NOTE == 0 or state.notes_held >= NOTES:
        return
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    row = record_at(pointer_to(state.notes + state.notes_held * NOTED_BYTES), NOTED)
    row.pc = int64(address)
    begun = state.granted - state.budget - state.block_operations
    row.number = begun + ((row.pc - state.block) >> 2) + 1
    state.scratch = 0
    unread = call_read(state.vmem_read, uc, row.pc, FETCH, scratch, 4) != 0
    row.word = -1 if unread else state.scratch
    row.level = current_el(state, uc, scratch)
    state.notes_held += 1
