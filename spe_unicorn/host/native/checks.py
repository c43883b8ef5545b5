"""The compiled hooks before operations: alignment, watched memory, breakpoints, and traces.

While alignment is checked or memory is watched, one hook runs before every operation. It stops the
engine before an operation that may fail a check, and ``host.pe.checks`` then decides. Each
breakpoint has a hook before only its operation. A hook that never stops the engine notes each
operation for a trace.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import UC_PROT_READ, UC_PROT_WRITE

from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.arch.rules.tagging import GRANULE
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
from spe_unicorn.host.engine.engine import PSTATE
from spe_unicorn.host.native.calls import (
    FETCH,
    call_read,
    call_register,
    call_translate,
    current_el,
    stop_engine,
)
from spe_unicorn.host.native.rules import access_address
from spe_unicorn.host.native.state.actions import KEYS
from spe_unicorn.host.native.state.fields import StateRecord
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
TAGGED: Final = 1 << 54
"""Its accesses are Tag Checked, where tags are checked at all."""
UNPRIVILEGED: Final = 1 << 55
"""Its accesses are made as EL0 would make them."""
ROUGH: Final = 1 << 56
"""Its bytes are among those of its row, which may be more."""
LOOKS: Final = 1 << 53
"""It is an MRS, MSR, SYS or SYSL. ``offset`` is its place in the tables ``looked_at``."""
DATA, STACK, DEVICE, WATCH, BREAK, EVERY, SYSTEM, NOTE = 1, 2, 4, 8, 16, 32, CHECK_SYSTEM, 128
"""``State.checking``: addresses of data, SP as a base, addresses of data in Device memory; watched
memory; breakpoints by address, and breakpoints by context, for which each operation is looked at;
MRS, MSR and SYS that are watched (``registers.system``); and whether operations are noted.
"""
TAGS, TAGS_OF_EL0 = 1 << 8, 1 << 9
"""``State.checking`` of FEAT_MTE2: tags of accesses that are made at the privilege of the Exception
level, and of those that are made as EL0 would make them."""
TBI, TCMA = 1 << 10, 1 << 12
"""And for it, of addresses with bit 55 clear; those of addresses with it set are the next ones:
TCR_ELx.TBI, and TCMA."""
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

_PSTATE = int(PSTATE)
_TCO: Final = int(SPSR.TCO.mask)
_READ, _WRITE = int(UC_PROT_READ), int(UC_PROT_WRITE)
_ABOUT_EL0: Final = TAGS_OF_EL0 | 3 * TBI | 3 * TCMA
_PRIVILEGED: Final = 2
"""What distinguishes such keys: an address of an operation is a multiple of 4."""
_LDTR_MASK, _LDTR = 0x3B20_0C00, 0x3800_0800
"""LDTR, STTR and their like, of all sizes."""
_PAGE: Final = 4096
_MOST_GRANULES: Final = 1 << 60
"""A number of tags that no memory has."""
_ACCESS: Final = int(Stop.ACCESS)
_SCRATCH: Final = offset_of("scratch")


@routine
def _tags_differ(state: StateRecord, uc: int, scratch: int, where: int, row: Check) -> bool:
    """Whether a tag check of an operation may fail. Python decides, by the attributes of memory.

    Where an address has no translation the engine raises what there is to raise. Python asks for
    that, too, of an access that is made as EL0 would make it, and where another byte is accessed.
    """
    upper = where >> 55 & 1
    if state.checking & TBI << upper == 0:
        return False
    tag = where >> 56 & 15
    if tag == 15 * upper and state.checking & TCMA << upper != 0:
        return False
    # the address without its tag, signed by bit 55
    begin = ((where + row.first) << 8) >> 8
    end = begin + row.size
    granule = begin & -GRANULE
    access = _READ if row.plan & STORES == 0 else _WRITE
    page = int64(-1)
    physical = int64(0)
    while granule < end:
        if granule & -_PAGE != page or page == -1:
            page = granule & -_PAGE
            if call_translate(state.vmem_translate, uc, page, access, scratch) != 0:
                return row.plan & (UNPRIVILEGED | ROUGH) != 0
            physical = state.scratch
        place = physical + (granule - page)
        inside = state.tags_begin <= place < state.tags_end
        tags = array_at(pointer_to(state.tags), (_MOST_GRANULES,), np.uint8)
        if not inside or tags[(place - state.tags_begin) // GRANULE] != tag:
            call_register(state.reg_read, uc, _PSTATE, scratch)
            return state.scratch & _TCO == 0
        granule += GRANULE
    return False


@routine
def _is_privileged(
    state: StateRecord, engine: Pointer, user: Pointer, row: Check, here: int
) -> bool:
    """Whether an operation is surely none that accesses memory as EL0 would: no LDTR, no STTR.

    Where nothing else is checked, as in a kernel of processes whose tags are checked, Python need
    not be asked what an operation is. A row of the table has a key of its own then.
    """
    key = here ^ (state.epoch << 48)
    if row.key == key ^ _PRIVILEGED:
        return True
    if row.key == key:
        return False
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    state.scratch = 0
    if call_read(state.vmem_read, uc, here, FETCH, scratch, 4) != 0:
        return False
    if state.scratch & _LDTR_MASK == _LDTR:
        return False
    row.key = key ^ _PRIVILEGED
    return True


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_operation(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """Before an operation: stop if its alignment or its accesses have to be looked at."""
    state = record_at(user, LAYOUT)
    if state.checking == 0:
        return
    here = int64(address)
    slot = (here >> 2) & (CHECKS - 1)
    row = record_at(pointer_to(state.checks + slot * CHECK_BYTES), CHECK)
    if state.checking & ~_ABOUT_EL0 == 0 and _is_privileged(state, engine, user, row, here):
        return
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
        # Allocation Tags
        if plan & TAGGED != 0 and state.checking & (TAGS | TAGS_OF_EL0) != 0 and not stops:
            unprivileged = plan & UNPRIVILEGED != 0
            if unprivileged or state.checking & TAGS != 0:
                stops = plan & UNCLEAR != 0 or _tags_differ(state, uc, scratch, where, row)
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
