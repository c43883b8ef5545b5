"""Blocks of memory that an allocator gives to a program, followed by calls of its functions.

A hook for blocks of code sees a call begin, and return to where X30 said. Where blocks are only
logged, hooks stand at the functions and at their returns alone. While an allocator is at work, what
it does to its memory is its own. A function that it calls by itself is part of that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

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
from spe_unicorn.host.native.calls import FETCH, call_register, call_translate, forget_code
from spe_unicorn.host.native.inline.told import is_told, is_told_first, may_be_untold, tell_at
from spe_unicorn.host.native.shadow.marks import (
    CHUNK,
    CHUNKS,
    FREE,
    FREED,
    HEAP_ROW,
    LIVE,
    LOG,
    LOGGED,
    PHYSICAL,
    SHADOW_ROW,
    UNWRITTEN,
    WRITTEN,
    Chunk,
    HeapRow,
    ShadowRow,
    describe,
    note,
)
from spe_unicorn.host.native.shadow.ranges import (
    begin_to_translate,
    change_marks,
    fill_marks,
    mark_beside,
    marks_in_page,
    physical_at,
    set_marks,
)
from spe_unicorn.host.native.state.whole import LAYOUT

GETS, CLEARS, MOVES, GIVES_BACK, ALIGNS = 1, 2, 3, 4, 5
"""Kinds of functions by arguments: size; number and size; block and size; block; alignment and
size."""
NOTHING, RETURNED, BEGUN, ALL = 0, 1, 2, 3
"""What may be left to be done of a block that tells."""
FUNCTIONS: Final = 32
"""The most functions."""
OPEN: Final = 16
"""The most calls that have not returned, of one PE."""
MOST: Final = CHUNKS // 4 * 3
"""The most blocks at different addresses. After that nothing is learned of new ones."""
_STACK: Final = 1 << 16
"""A call from within so many bytes of stack below another one is part of that."""
_ARGUMENTS: Final = 8
"""X0 to X7."""
_X30, _SP = 30, 31
REGISTERS: Final = _SP + 1
"""X0 to X30 and SP."""
_X0_NAME, _X30_NAME, _SP_NAME = int(e.X[0]), int(e.X[30]), int(e.SP)


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


FUNCTION: Final = layout(Function)
OPENED: Final = layout(Opened)
_CHUNK_BYTES: Final = CHUNK.itemsize
_FUNCTION_BYTES: Final = FUNCTION.itemsize


@routine
def _register(m: ShadowRow, number: int) -> int:
    """One of X0 to X7, X30 or SP by its number."""
    return array_at(pointer_to(m.registers + 8 * number), (1,), np.int64)[0]


@routine
def _read_registers(m: ShadowRow) -> None:
    """Ask the engine for these, where it is not known where it has them."""
    if m.copies == 0:
        return
    state = record_at(pointer_to(m.state), LAYOUT)
    for number in range(_ARGUMENTS):
        call_register(state.reg_read, m.engine, _X0_NAME + number, m.registers + 8 * number)
    call_register(state.reg_read, m.engine, _X30_NAME, m.registers + 8 * _X30)
    call_register(state.reg_read, m.engine, _SP_NAME, m.registers + 8 * _SP)


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
def _log(m: ShadowRow, h: HeapRow, address: int, size: int, place: int) -> None:
    """Log a block; what comes after a full log is lost, and counted."""
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
    mapping = begin_to_translate(m)
    again = row.address == address and row.size == size
    if row.mapping != mapping or not again:
        physical = physical_at(m, address)
        again = again and row.physical == physical
        h.used += row.address == 0
        row.address, row.size, row.physical = address, size, physical
        row.mapping, row.place = mapping, marks_in_page(m, address, size, physical)
    row.live, row.got, row.freed = 1, got, 0
    if h.log != 0:
        _log(m, h, address, size, got)
    if m.marks == 0:
        return
    if m.looks & UNWRITTEN != 0:
        end, written = address + size, min(written, size)
        set_marks(m, address, address + written, LIVE | WRITTEN)
        set_marks(m, address + written, end, LIVE)
    else:
        _set_all(m, row, row.place, LIVE | WRITTEN)
    if not again:  # else it has its marks: since then of another block, or as it was
        _find_borders(m, h, address)
        mark_beside(m, address, size, row.place)


@routine
def _set_all(m: ShadowRow, row: Chunk, place: int, value: int) -> None:
    """Give all bytes of a block the same marks; they are at ``place`` (``Chunk.place``)."""
    if place != 0:
        fill_marks(place, row.size, value)
    else:
        set_marks(m, row.address, row.address + row.size, value)


@routine
def _take(m: ShadowRow, at: int, by: int) -> None:
    """The program gives the block back whose row is at an address."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    row = record_at(pointer_to(at), CHUNK)
    row.live, row.freed = 0, by
    if h.log != 0:
        _log(m, h, row.address, int64(-1), by)
    if m.marks == 0:
        return
    mapping = begin_to_translate(m)
    place = row.place
    if row.mapping != mapping:
        place = marks_in_page(m, row.address, row.size, physical_at(m, row.address))
    if m.looks & UNWRITTEN != 0:
        change_marks(m, row.address, row.address + row.size, ~LIVE, FREED, 0)
    else:
        _set_all(m, row, place, FREED | WRITTEN)


@routine
def _is_heard_of(m: ShadowRow, address: int) -> bool:
    """Whether a block at an address tells each time from now on, if it ever counts itself.

    One that has come to count itself by now tells nobody. The engine forgets it.
    """
    if is_told(m.told, address):
        return True
    untold = may_be_untold(m.untold, address)
    state = record_at(pointer_to(m.state), LAYOUT)
    place = m.here + PHYSICAL
    if untold and call_translate(state.vmem_translate, m.engine, address, FETCH, place) != 0:
        return False
    if not tell_at(m.told, address, int64(0)):
        return False
    if untold:
        forget_code(state, m.engine, address, address + 4)
    return True


@routine
def _is_within(call: Opened, sp: int) -> bool:
    """Whether a call with this SP is part of an open one."""
    return 0 <= call.sp - sp < _STACK


@routine
def _open(m: ShadowRow, function: Function, sp: int, slow: int) -> None:
    """A call of the program's begins."""
    call = array_at(pointer_to(m.opened), (OPEN,), OPENED)[m.open]
    call.returns, call.sp, call.kind = _register(m, _X30), sp, function.kind
    call.block = call.size = _register(m, function.argument)
    if function.kind == CLEARS:
        call.size = call.block * _register(m, function.argument + 1)
    elif function.kind == MOVES or function.kind == ALIGNS:
        call.size = _register(m, function.argument + 1)
    call.slow = slow
    m.slow += slow
    m.open += 1


@routine
def _begins(m: ShadowRow, function: Function, uncounted: int) -> None:
    """A function of the allocator is called."""
    sp = _register(m, _SP)
    opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
    for n in range(m.open):
        if _is_within(opened[n], sp):
            return
    if m.open == OPEN:
        return
    slow = int64(m.told != 0 and not _is_heard_of(m, _register(m, _X30)))
    call = opened[m.open]
    _open(m, function, sp, slow)
    if function.kind == GIVES_BACK or function.kind == MOVES:
        _comes_back(m, function, call.block, call.returns, uncounted)


@routine
def _comes_back(m: ShadowRow, function: Function, block: int, returns: int, uncounted: int) -> None:
    """A function is called with a block that it is given back, or is to move; 0: with none."""
    if block == 0:
        return
    at = _chunk_at(record_at(pointer_to(m.heap), HEAP_ROW), block)
    if at == 0:
        return
    row = record_at(pointer_to(at), CHUNK)
    if row.address == 0 or row.live == 0:
        if m.marks == 0:
            return
        state = record_at(pointer_to(m.state), LAYOUT)
        executed = state.granted - state.budget - uncounted
        place = note(m, function.address, executed, FREE, block, int64(0))
        if place != 0 and row.address != 0:
            describe(place, at)
    elif function.kind == GIVES_BACK:
        _take(m, at, returns)


@routine
def _returns(m: ShadowRow, n: int) -> None:
    """Call ``n`` of those that are open returns."""
    opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
    call = opened[n]
    kind, block, asked, to = call.kind, call.block, call.size, call.returns
    m.slow -= call.slow
    m.open -= 1
    if n != m.open:
        last = opened[m.open]
        call.returns, call.sp, call.kind = last.returns, last.sp, last.kind
        call.block, call.size, call.slow = last.block, last.size, last.slow
    if kind == GIVES_BACK:
        return
    size = max(int64(0), asked)  # less than 0: half of all addresses and more
    result = _register(m, 0)
    written = size if kind == CLEARS else int64(0)
    if kind == MOVES and block != 0 and (result != 0 or asked == 0):
        written = _moved(m, block, to)
    if result != 0:
        _give(m, result, size, written, to)


@routine
def _moved(m: ShadowRow, block: int, to: int) -> int:
    """The program does not have a block any more. Return its size, 0 if it had none there."""
    at = _chunk_at(record_at(pointer_to(m.heap), HEAP_ROW), block)
    if at == 0:
        return int64(0)
    row = record_at(pointer_to(at), CHUNK)
    if row.address == 0 or row.live == 0:
        return int64(0)
    _take(m, at, to)
    return row.size


@routine
def function_at(m: ShadowRow, here: int) -> int:
    """Where the row of the function is that begins at an address, 0 if none does."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    if not h.low <= here <= h.high:
        return int64(0)
    functions = array_at(pointer_to(h.functions), (FUNCTIONS,), FUNCTION)
    for n in range(h.function_count):
        if functions[n].address == here:
            return h.functions + n * _FUNCTION_BYTES
    return int64(0)


@routine
def follow(m: ShadowRow, here: int, function: int, uncounted: int) -> None:
    """A block of code begins at ``here``, where ``function`` does, as its row says; 0 for none.

    So many operations are ``uncounted`` as the PE has not executed them.
    """
    if m.open != 0:
        _read_registers(m)
        opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
        for n in range(m.open):
            if opened[n].returns == here and opened[n].sp == _register(m, _SP):
                _returns(m, n)
                break
    if function != 0:
        _read_registers(m)
        _begins(m, record_at(pointer_to(function), FUNCTION), uncounted)


@routine
def followed(m: ShadowRow, here: int, function: int) -> int:
    """What is left to be done of :func:`follow` for a block that tells; nearly always not all."""
    if m.open > 1:
        return ALL
    sp = _register(m, _SP)
    call = array_at(pointer_to(m.opened), (OPEN,), OPENED)[0]
    if m.open == 1 and call.returns == here and call.sp == sp:
        if function != 0 or call.slow != 0:
            return ALL
        if call.kind != GIVES_BACK:
            return RETURNED
        m.open = 0
        return NOTHING
    if function == 0:
        return NOTHING
    if m.open == 1:
        return NOTHING if _is_within(call, sp) else ALL
    if not is_told_first(m.told, _register(m, _X30)):
        return ALL
    begins = record_at(pointer_to(function), FUNCTION)
    _open(m, begins, sp, int64(0))
    return BEGUN if begins.kind == GIVES_BACK or begins.kind == MOVES else NOTHING


@routine
def first_returned(m: ShadowRow) -> None:
    """RETURNED: the only open call returns."""
    _returns(m, int64(0))


@routine
def first_begun(m: ShadowRow, function: int, uncounted: int) -> None:
    """BEGUN: the only open call is one of a function that is given a block back."""
    call = array_at(pointer_to(m.opened), (OPEN,), OPENED)[0]
    begins = record_at(pointer_to(function), FUNCTION)
    _comes_back(m, begins, call.block, call.returns, uncounted)


@routine
def is_own(m: ShadowRow, here: int, size: int) -> bool:
    """Whether a block of code that begins at ``here`` is of a function of the allocator."""
    if m.heap == 0:
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
    here = int64(address)
    if state.stop == 0:
        follow(m, here, function_at(m, here), int64(size >> 2))


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_function(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """The first operation of a function of the allocator comes next."""
    m = record_at(user, SHADOW_ROW)
    state = record_at(pointer_to(m.state), LAYOUT)
    function = function_at(m, int64(address))
    if state.stop == 0 and function != 0:
        _read_registers(m)
        _begins(m, record_at(pointer_to(function), FUNCTION), int64(0))


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_return(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """A return comes next, of the allocator or of what it goes on in: of the call with this SP."""
    m = record_at(user, SHADOW_ROW)
    state = record_at(pointer_to(m.state), LAYOUT)
    if m.open == 0 or state.stop != 0:
        return
    _read_registers(m)
    sp = _register(m, _SP)
    opened = array_at(pointer_to(m.opened), (OPEN,), OPENED)
    for n in range(m.open):
        if opened[n].sp == sp:
            _returns(m, n)
            break
