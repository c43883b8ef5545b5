"""Hooks for blocks while memory is checked: most accesses are then made without a hook for them.

The hook for blocks tells :func:`on_block` of each block first, as it tells a core model. So the
accesses of a block that has run twice get stubs (``inline.checked``), and an allocator's functions
are seen. Blocks at which such a function begins, and those to which it returns, tell even if they
count themselves. A core model's own hooks do the same, where there is one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

import numpy as np

from spe_unicorn.compiled import (
    ForeignCall,
    Pointer,
    address_of,
    entry,
    int64,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.engine.known import slow_stores_by
from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.host.native.calls import current_el
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.inline.accesses import counts_itself
from spe_unicorn.host.native.inline.checked import (
    ATTENTION,
    BEFORE,
    CHECKED,
    LARGEST_RAM,
    LAST,
    CheckedRow,
)
from spe_unicorn.host.native.inline.shared import INLINE
from spe_unicorn.host.native.inline.stores import (
    STORES,
    Stores,
    may_be_fast,
    may_count_itself,
    prepare_accesses,
)
from spe_unicorn.host.native.inline.told import (
    TELLING,
    TOLD,
    UNTOLD,
    is_told,
    note_untold,
    tell,
)
from spe_unicorn.host.native.shadow.heap import (
    ALL,
    BEGUN,
    RETURNED,
    first_begun,
    first_returned,
    follow,
    followed,
    function_at,
    is_own,
)
from spe_unicorn.host.native.shadow.lines import LinesState, SharedState
from spe_unicorn.host.native.shadow.marks import HEAP, SHADOW_ROW, ShadowState
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.transit import work_out_special
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

_SCRATCH: Final = offset_of("scratch")
call_told: Final = ForeignCall("void", ("pointer", "int64", "int64"))
"""A function like ``on_told``."""
_EVERYWHERE: Final = -1
"""So many bytes, without a sign: all memory of the host."""


class CheckedState(CheckedRow, ctypes.Structure):
    """CHECKED, for Python."""

    _fields_ = [(name, ctypes.c_int64) for name in CHECKED.names]


@routine
def checked_block(state: StateRecord, engine: Pointer, here: int, size: int) -> None:
    """A block begins, or the engine stops before it: before its accesses are prepared."""
    m = record_at(pointer_to(state.checked), CHECKED)
    if m.shadow != 0:
        shadow = record_at(pointer_to(m.shadow), SHADOW_ROW)
        inline = record_at(pointer_to(state.inline), INLINE)
        if state.inline != 0 and inline.registers != 0:
            shadow.registers, shadow.copies = inline.registers, 0
        follow(shadow, here, function_at(shadow, here), int64(0))
        state.allocating = shadow.slow
        m.own = is_own(shadow, here, size)
    if state.inline != 0 and m.pages != 0:
        m.level = current_el(state, address_of(engine), m.state + _SCRATCH)


@entry("void", "pointer", "int64", "int64", "pointer", "int64")
def on_block(engine: Pointer, here: int, size: int, user: Pointer, back: int) -> None:
    """A block begins, or the engine stops before it. Its code goes on at ``back``."""
    m = record_at(user, CHECKED)
    state = record_at(pointer_to(m.state), LAYOUT)
    checked_block(state, engine, here, size)
    prepare_accesses(record_at(pointer_to(m.stores), STORES), state, engine, here, size, back)


@entry("void", "pointer", "int64", "int64")
def on_told(user: Pointer, here: int, function: int) -> None:
    """A block that counts itself begins: ``function`` of an allocator, or where a call returns (0).

    What needs many registers has functions of its own, so that this one saves none.
    """
    m = record_at(user, SHADOW_ROW)
    if m.looks & HEAP == 0:
        return
    rest = followed(m, here, function)
    if rest == RETURNED:
        call_told(m.returned, address_of(user), here, function)
    elif rest == BEGUN:
        call_told(m.begun, address_of(user), here, function)
    elif rest == ALL:
        call_told(m.followed, address_of(user), here, function)


@entry("void", "pointer", "int64", "int64")
def on_returned(user: Pointer, here: int, function: int) -> None:
    """RETURNED is left to be done."""
    first_returned(record_at(user, SHADOW_ROW))


@entry("void", "pointer", "int64", "int64")
def on_begun(user: Pointer, here: int, function: int) -> None:
    """BEGUN is left to be done."""
    m = record_at(user, SHADOW_ROW)
    state = record_at(pointer_to(m.state), LAYOUT)
    first_begun(m, function, state.block_operations)


@entry("void", "pointer", "int64", "int64")
def on_followed(user: Pointer, here: int, function: int) -> None:
    """ALL is left to be done."""
    m = record_at(user, SHADOW_ROW)
    state = record_at(pointer_to(m.state), LAYOUT)
    follow(m, here, function, state.block_operations)
    if m.slow != state.allocating:
        state.allocating = m.slow
        work_out_special(state)


@routine
def note_counted(state: StateRecord, here: int) -> None:
    """A block counts itself from now on."""
    m = record_at(pointer_to(state.checked), CHECKED)
    if m.shadow != 0:
        shadow = record_at(pointer_to(m.shadow), SHADOW_ROW)
        if not is_told(shadow.told, here):
            note_untold(shadow.untold, here)


@entry("int64", "pointer", "int64", "int64", "pointer", "int64")
def on_counted_block(engine: Pointer, here: int, size: int, user: Pointer, back: int) -> int:
    """The hook has counted a block by a call that returns to ``back``: replace it if that is due.

    Return the address to which the call is to return instead, 0 for none. A block that may have
    DC ZVA is never replaced.
    """
    state = record_at(user, LAYOUT)
    m = record_at(pointer_to(state.checked), CHECKED)
    if not may_count_itself(m.stores, state, here):
        return 0
    to = counts_itself(state, engine, here, size, back)
    if to != 0:
        note_counted(state, here)
    return to


@entry("int64", "pointer", "int64", "int64", "int64")
def on_unknown_store(user: Pointer, place: int, address: int, size: int) -> int:
    """A store that the engine's TLB, whose entry for it lies at ``place``, does not have.

    It is not 0 if the slow way is to be taken.
    """
    m = record_at(user, CHECKED)
    state = record_at(pointer_to(m.state), LAYOUT)
    return not may_be_fast(record_at(pointer_to(m.stores), STORES), state, place, address, size)


class CheckedAccesses:
    """What has the blocks of one PE look at shadows of ``ram`` by themselves."""

    WIRING = ("_attention", "_hooks", "_last", "_memory", "_row", "_stores", "_told", "_untold")

    def __init__(self, hooks: NativeHooks, memory: RamMemory, ram: Ram) -> None:
        self._hooks = hooks
        self._memory = memory
        self._stores = Stores(memory, recent=False)
        self._row = row = CheckedState()
        row.here = ctypes.addressof(row)
        row.state, row.stores = hooks.state.address, self._stores.address
        row.begin, row.size = ram.address, ram.size
        self._told = np.zeros(TOLD, TELLING).view(np.recarray)
        self._untold = np.zeros(UNTOLD, np.uint8)
        self._attention = row.here + ATTENTION
        self._last = row.here + LAST
        hooks.state.checked = row.here
        if not hooks.state.model_hook:
            hooks.tell_first(row.here, on_block.address, on_counted_block.address)
            hooks.state.store_hook = on_unknown_store.address

    def follow_marks(self, shadow: ShadowState, functions: Sequence[tuple[int, int]]) -> None:
        """Look at the marks of bytes, and see the functions of an allocator.

        These are their addresses, and where their rows of ``heap.FUNCTION`` are.
        """
        row = self._row
        row.marks = shadow.marks
        row.looks = shadow.looks
        shadow.last, shadow.host = self._last, row.begin
        if functions:
            row.shadow = shadow.here
            shadow.told, shadow.untold = self._told.ctypes.data, self._untold.ctypes.data
            shadow.returned, shadow.begun = on_returned.address, on_begun.address
            shadow.followed = on_followed.address
            for address, at in functions:
                tell(self._told, address, at)
            if self._hooks.inline is not None:
                self._hooks.inline.tell(shadow.told, on_told.address, shadow.here)
            self._hooks.engine.code_forgotten.wire(self._forget)
        self._hooks.engine.forget_all_code()

    def _forget(self) -> None:
        """No block counts itself any more."""
        self._untold.fill(0)

    def notice_loads(self, *, wanted: bool) -> None:
        """From now on look, or no longer look, for loads that :meth:`notice` names.

        Whoever asks has the engine forget its code.
        """
        self._row.notices = wanted

    def notice(self, low: int, high: int) -> None:
        """Loads are noticed that have bytes from one physical address up to another."""
        row = self._row
        if low >= high:
            row.noticed_size = 0
            return
        host = self._memory.host_address(low, high - low)
        if host is None:
            row.noticed, row.noticed_size = 0, _EVERYWHERE
        else:
            row.noticed, row.noticed_size = host - BEFORE, high - low + BEFORE

    def follow_lines(self, lines: LinesState, shared: SharedState) -> None:
        """Look at how pages are mapped, and mark lines that are stored to."""
        self._row.pages, self._row.lines = lines.pages, shared.lines
        lines.attention = self._attention
        lines.raise_attention()
        self._hooks.engine.forget_all_code()


def accesses_of(hooks: NativeHooks, memory: RamMemory, ram: Ram) -> CheckedAccesses | None:
    """Those of a PE; None where accesses cannot look by themselves."""
    possible = hooks.inline is not None and slow_stores_by() != 0 and ram.size <= LARGEST_RAM
    if hooks.checked is None and possible:
        hooks.checked = CheckedAccesses(hooks, memory, ram)
    return hooks.checked
