"""Blocks of memory that an allocator gives to a program, followed by calls of its functions.

A hook for blocks of code sees a call begin, and return to where X30 said. Where blocks are only
logged, hooks stand at the functions and at their returns alone. While an allocator is at work, what
it does to its memory is its own. A function that it calls by itself is part of that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from unicorn import UC_PROT_READ

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
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.engine.builds import release_numbers
from spe_unicorn.host.native.calls import call_register, call_translate
from spe_unicorn.host.native.inline.told import may_be_untold, tell_at
from spe_unicorn.host.native.shadow.marks import (
    CHUNK,
    CHUNKS,
    FREE,
    FREED,
    HEAP_ROW,
    LIVE,
    LOG,
    LOGGED,
    OUTSIDE,
    PHYSICAL,
    SCRATCH,
    SHADOW_ROW,
    UNWRITTEN,
    WRITTEN,
    HeapRow,
    ShadowRow,
    describe,
    note,
)
from spe_unicorn.host.native.state.whole import LAYOUT

GETS, CLEARS, MOVES, GIVES_BACK, ALIGNS = 1, 2, 3, 4, 5
"""Kinds of functions by arguments: size; number and size; block and size; block; alignment and
size."""
FUNCTIONS: Final = 32
"""The most functions."""
OPEN: Final = 16
"""The most calls that have not returned, of one PE."""
MOST: Final = CHUNKS // 4 * 3
"""The most blocks at different addresses. After that nothing is learned of new ones."""
_STACK: Final = 1 << 16
"""A call from within so many bytes of stack below another one is part of that."""
_BESIDE: Final = 16
"""Bytes beside a block that are no block's, at least."""
_PAGE: Final = 4096
PAGES: Final = 16
"""Pages of which is known where they are: a block and those used before it lie on a few."""
_NO_PAGE: Final = 1
"""What no page begins at."""
_SAVED: Final = release_numbers().saved
_PSTATE: Final = _SAVED.pstate - _SAVED.x0
"""Where the engine has the low byte of PSTATE, from X0."""
_LEVEL: Final = 0b1100
_X30, _SP = 30, 31
_X0_NAME, _X30_NAME, _SP_NAME = int(e.X[0]), int(e.X[30]), int(e.SP)
_READ: Final = int(UC_PROT_READ)


class Function:
    """A function of an allocator."""

    address: int
    kind: int
    argument: int
    """The number of the register with its first argument of the kind."""
    end: int
    """Where its code ends; its address where that is not known."""


class Opened:
    """A call that has not returned."""

    returns: int
    sp: int
    kind: int
    block: int
    """What is to be moved."""
    size: int
    slow: int
    """Whether the block to which it returns may count itself and tell nobody."""


class Translated:
    """A page of memory."""

    page: int
    """Its virtual address."""
    frame: int
    """Its physical one."""


FUNCTION: Final = layout(Function)
OPENED: Final = layout(Opened)
TRANSLATED: Final = layout(Translated)
_CHUNK_BYTES: Final = CHUNK.itemsize


def no_pages() -> npt.NDArray[np.void]:
    """Rows of TRANSLATED that say nothing."""
    rows = np.zeros(PAGES, TRANSLATED)
    rows["page"] = _NO_PAGE
    return rows


@routine
def _register(m: ShadowRow, number: int) -> int:
    """One of X0 to X7, X30 or SP by its number."""
    if m.registers != 0:
        return array_at(pointer_to(m.registers + 8 * number), (1,), np.int64)[0]
    state = record_at(pointer_to(m.state), LAYOUT)
    m.scratch = 0
    register = _SP_NAME if number == _SP else _X30_NAME if number == _X30 else _X0_NAME + number
    call_register(state.reg_read, m.engine, register, m.here + SCRATCH)
    return m.scratch


@routine
def _forget_pages(m: ShadowRow) -> None:
    pages = array_at(pointer_to(m.pages), (PAGES,), TRANSLATED)
    for n in range(PAGES):
        pages[n].page = _NO_PAGE


@routine
def _begin_to_translate(m: ShadowRow) -> None:
    """Forget where pages are, unless it is certain that they are mapped as then."""
    if m.registers == 0:
        _forget_pages(m)
        return
    state = record_at(pointer_to(m.state), LAYOUT)
    level = array_at(pointer_to(m.registers + _PSTATE), (1,), np.uint8)[0] & _LEVEL
    mapping = state.epoch << 4 | int64(level)
    if mapping != m.mapping:
        _forget_pages(m)
        m.mapping = mapping


@routine
def _physical(m: ShadowRow, address: int) -> int:
    """The physical address of a virtual one; -1 for none.

    The engine is asked once for each page, until the page is forgotten.
    """
    page = address & -_PAGE
    row = array_at(pointer_to(m.pages), (PAGES,), TRANSLATED)[(address >> 12) & (PAGES - 1)]
    if page != row.page:
        state = record_at(pointer_to(m.state), LAYOUT)
        place = m.here + PHYSICAL
        if call_translate(state.vmem_translate, m.engine, page, _READ, place) != 0:
            return int64(-1)
        row.page, row.frame = page, m.physical
    return row.frame + (address - page)


@routine
def _marks_at(m: ShadowRow, first: int, end: int) -> int:
    """Where the host has the marks of bytes of one page; 0 where there are none."""
    physical = _physical(m, first)
    if physical >= m.base and physical + end - first <= m.base + m.size:
        return m.marks + physical - m.base
    return int64(0)


@routine
def _mark(
    m: ShadowRow,
    first: int,
    end: int,
    keep: int,
    add: int,
    unless: int,
) -> None:
    """Keep and add marks of bytes ``first`` up to ``end``, virtual, that have none of ``unless``.

    A block is no longer than RAM, whatever the guest says.
    """
    if m.marks == 0:
        return
    end = min(end, first + m.size)
    while first < end:
        piece = min(end, (first | _PAGE - 1) + 1)
        at = _marks_at(m, first, piece)
        if at != 0:
            marks = array_at(pointer_to(at), (piece - first,), np.uint8)
            for n in range(piece - first):  # without a branch, so that it takes many at a time
                has = marks[n]
                marks[n] = has if has & unless != 0 else has & keep | add
        first = piece


@routine
def _set(m: ShadowRow, first: int, end: int, value: int) -> None:
    """Give all bytes of a block the same marks, which is faster."""
    if m.marks == 0:
        return
    end = min(end, first + m.size)
    while first < end:
        piece = min(end, (first | _PAGE - 1) + 1)
        at = _marks_at(m, first, piece)
        if at != 0:
            marks = array_at(pointer_to(at), (piece - first,), np.uint8)
            for n in range(piece - first):
                marks[n] = value
        first = piece


@routine
def place_of(address: int) -> int:
    """Where the search for a block's row begins in the table: near that of a block near it."""
    return ((address >> 10) * 0x9E37_79B9 >> 7 << 6 | address >> 4 & 63) & (CHUNKS - 1)


@routine
def _chunk_at(h: HeapRow, address: int) -> int:
    """Where the row of a block's address is, or a free one for it; 0 if the table is full."""
    place = place_of(address)
    for _ in range(CHUNKS):
        at = h.chunks + place * _CHUNK_BYTES
        row = record_at(pointer_to(at), CHUNK)
        if row.address == address:
            return at
        if row.address == 0:
            return at if h.used < MOST else 0
        place = place + 1 & (CHUNKS - 1)
    return 0


@routine
def _find_borders(m: ShadowRow, h: HeapRow, address: int) -> None:
    """Set the last border up to an address, and the first one above it.

    Nearly all blocks lie between the same two.
    """
    if m.border_below <= address < m.border_above:
        return
    borders = array_at(pointer_to(h.borders), (h.border_count,), np.int64)
    low, high = int64(0), h.border_count
    while low < high:
        middle = low + high >> 1
        if borders[middle] <= address:
            low = middle + 1
        else:
            high = middle
    m.border_below, m.border_above = borders[low - 1], borders[low]


@routine
def _log(m: ShadowRow, address: int, size: int, place: int) -> None:
    """Log a block; what comes after a full log is lost, and counted."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    if h.log == 0:
        return
    if h.logged < LOG:
        state = record_at(pointer_to(m.state), LAYOUT)
        row = array_at(pointer_to(h.log), (LOG,), LOGGED)[h.logged]
        row.executed = state.granted - state.budget
        row.address, row.size = address, size
        row.place, row.number = place, m.number
    h.logged += 1


@routine
def _give(m: ShadowRow, address: int, size: int, written: int, got: int) -> None:
    """The program has a block now, of which ``written`` bytes hold something."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    at = _chunk_at(h, address)
    if at == 0:
        return
    row = record_at(pointer_to(at), CHUNK)
    if row.address == 0:
        h.used += 1
    physical = _physical(m, address)
    again = row.address == address and row.size == size and row.physical == physical
    row.address, row.size, row.physical = address, size, physical
    row.live, row.got, row.freed = 1, got, 0
    _log(m, address, size, got)
    end = address + size
    if m.looks & UNWRITTEN != 0:
        written = min(written, size)
        _set(m, address, address + written, LIVE | WRITTEN)
        _set(m, address + written, end, LIVE)
    else:
        _set(m, address, end, LIVE | WRITTEN)
    if again:
        return  # what lies beside it has its marks: since then of another block, or as it was
    _find_borders(m, h, address)
    low = max(m.border_below, address - _BESIDE)
    high = min(m.border_above, (end + _BESIDE - 1 & -_BESIDE) + _BESIDE)
    _mark(m, low, address, -1, OUTSIDE, LIVE)
    _mark(m, end, high, -1, OUTSIDE, LIVE)


@routine
def _take(m: ShadowRow, address: int, by: int) -> int:
    """The program gives a block back. Return its size, -1 if it has none there."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    at = _chunk_at(h, address)
    if at == 0:
        return 0
    row = record_at(pointer_to(at), CHUNK)
    if row.address == 0 or row.live == 0:
        return int64(-1)
    row.live, row.freed = 0, by
    _log(m, address, int64(-1), by)
    if m.looks & UNWRITTEN != 0:
        _mark(m, address, address + row.size, ~LIVE, FREED, 0)
    else:
        _set(m, address, address + row.size, FREED | WRITTEN)
    return row.size


@routine
def _begins(m: ShadowRow, function: Function, executed: int) -> None:
    """A function of the allocator is called."""
    _begin_to_translate(m)
    sp = _register(m, _SP)
    opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
    for n in range(m.open):
        if 0 <= opened[n].sp - sp < _STACK:
            return
    if m.open == OPEN:
        return
    call = opened[m.open]
    call.returns, call.sp = _register(m, _X30), sp
    call.kind = function.kind
    first = _register(m, function.argument)
    second = _register(m, function.argument + 1)
    call.block, call.size = first, first
    if function.kind == CLEARS:
        call.size = first * second
    elif function.kind == MOVES or function.kind == ALIGNS:
        call.size = second
    m.open += 1
    call.slow = 0
    if m.told != 0 and (may_be_untold(m.untold, call.returns) or not tell_at(m.told, call.returns)):
        call.slow = 1
        m.slow += 1
    if (function.kind != GIVES_BACK and function.kind != MOVES) or first == 0:
        return
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    at = _chunk_at(h, first)
    if at == 0:
        return
    row = record_at(pointer_to(at), CHUNK)
    if row.address == 0 or row.live == 0:
        if m.marks == 0:
            return
        place = note(m, function.address, executed, FREE, first, int64(0))
        if place != 0 and row.address != 0:
            describe(place, at)
    elif function.kind == GIVES_BACK:
        _take(m, first, call.returns)


@routine
def _returns(m: ShadowRow, n: int) -> None:
    """Call ``n`` of those that are open returns."""
    _begin_to_translate(m)
    opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
    call, last = opened[n], opened[m.open - 1]
    kind, block, asked, to = call.kind, call.block, call.size, call.returns
    size = max(int64(0), asked)  # less than 0: half of all addresses and more
    m.slow -= call.slow
    call.returns, call.sp, call.kind = last.returns, last.sp, last.kind
    call.block, call.size, call.slow = last.block, last.size, last.slow
    m.open -= 1
    if kind == GIVES_BACK:
        return
    result = _register(m, 0)
    written = size if kind == CLEARS else int64(0)
    if kind == MOVES and block != 0 and (result != 0 or asked == 0):
        written = max(int64(0), _take(m, block, to))
    if result != 0:
        _give(m, result, size, written, to)


@routine
def follow(m: ShadowRow, here: int, executed: int) -> None:
    """A block of code begins at ``here``, after ``executed`` operations of the PE."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    if m.open == 0 and not h.low <= here <= h.high:
        return
    opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
    for n in range(m.open):
        if opened[n].returns == here and opened[n].sp == _register(m, _SP):
            _returns(m, n)
            break
    _called(m, here, executed)


@routine
def _called(m: ShadowRow, here: int, executed: int) -> None:
    """If a function of the allocator begins at ``here``, a call of it begins."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    functions = array_at(pointer_to(h.functions), (FUNCTIONS,), FUNCTION)
    for n in range(h.function_count):
        if functions[n].address == here:
            _begins(m, functions[n], executed)


@routine
def is_own(m: ShadowRow, here: int, size: int) -> bool:
    """Whether a block of code that begins at ``here`` is of the allocator, which is at work."""
    if m.open == 0:
        return False
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    functions = array_at(pointer_to(h.functions), (FUNCTIONS,), FUNCTION)
    for n in range(h.function_count):
        if functions[n].address <= here and here + size <= functions[n].end:
            return True
    return False


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_code(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """A block of code begins, or the engine stops before it; it has been counted if it begins."""
    m = record_at(user, SHADOW_ROW)
    state = record_at(pointer_to(m.state), LAYOUT)
    if state.stop == 0:
        follow(m, int64(address), state.granted - state.budget - int64(size >> 2))


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_function(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """The first operation of a function of the allocator comes next."""
    m = record_at(user, SHADOW_ROW)
    state = record_at(pointer_to(m.state), LAYOUT)
    if state.stop == 0:
        _called(m, int64(address), state.granted - state.budget)


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_return(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """A return comes next, of the allocator or of what it goes on in: of the call with this SP."""
    m = record_at(user, SHADOW_ROW)
    state = record_at(pointer_to(m.state), LAYOUT)
    if m.open == 0 or state.stop != 0:
        return
    sp = _register(m, _SP)
    opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
    for n in range(m.open):
        if opened[n].sp == sp:
            _returns(m, n)
            break
