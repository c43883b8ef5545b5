"""Marks of the bytes of RAM, and the hook that looks at them at each load and store.

The engine calls the hook with physical addresses, once for each piece of an access. What is found
is noted once for each operation, and once more where it goes on behind the access before. SVE's
contiguous loads and stores call no hook.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

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
from spe_unicorn.host.native.calls import call_register
from spe_unicorn.host.native.state.whole import LAYOUT

WRITTEN, FREED, OUTSIDE, LIVE = 1, 2, 4, 8
"""Marks of a byte: somebody has written it; a block that was freed had it; it lies beside a block;
a block has it that was not freed."""
UNWRITTEN, HEAP = 1, 2
"""What is looked for: loads of what nobody has written, accesses to what no block has."""
FRESH, LOAD, STORE, FREE = 0, 1, 2, 3
"""Kinds of notes: a load of what nobody has written; with a heap an access, and a block that cannot
be given back."""
NOTES: Final = 256
"""Notes that are kept until Python takes them."""
SEEN: Final = 4096
"""Entries of the table of operations that have a note."""
_PROBES: Final = 8
BAD: Final = FREED | OUTSIDE
_EIGHT: Final = 0x0101_0101_0101_0101
_FOUR: Final = 0x0101_0101
_WRITE: Final = int(uc_const.UC_MEM_WRITE)
_PC: Final = int(PC)


class Note:
    """What was found at an operation."""

    pc: int
    executed: int
    """Operations of the PE before it."""
    kind: int
    address: int
    """The first byte of the access or of its piece; what was to be given back."""
    size: int
    follows: int
    """Whether the piece begins where the access before it ended."""
    block: int
    """The block that is meant, as it was then, with all that `Chunk` has; 0: none."""
    physical: int
    length: int
    live: int
    got: int
    freed: int


class Chunk:
    """A block: the last one at its address."""

    address: int
    physical: int
    size: int
    live: int
    """Whether it was not freed."""
    got: int
    """To where the call returned that made it."""
    freed: int
    """The same of the call that freed it, 0 for none."""


class HeapRow:
    """What the PEs of a board share."""

    functions: int
    """Rows of FUNCTION."""
    function_count: int
    low: int
    """The lowest address of a function."""
    high: int
    """The highest."""
    chunks: int
    """Rows of CHUNK, by address."""
    used: int
    """How many are used."""
    borders: int
    """Addresses at which objects of the program begin or end, in ascending order."""
    border_count: int
    log: int
    """Rows of LOGGED: what the allocator does, where that is wanted; 0: it is not."""
    logged: int
    """How many rows are used."""


class Logged:
    """A block that the program got or gave back."""

    executed: int
    """Operations of the PE before it, to within a block of code."""
    address: int
    size: int
    """-1 for one that was given back."""
    place: int
    """To where the call returns."""
    number: int
    """That of the PE."""


CHUNK: Final = layout(Chunk)
HEAP_ROW: Final = layout(HeapRow)
LOGGED: Final = layout(Logged)
LOG: Final = 1 << 16
"""Rows of LOGGED that are kept until Python takes them."""
CHUNKS: Final = 1 << 18
"""Rows of the table of blocks."""
_BESIDE: Final = 64
"""How far beside a block an access may be that is said to be beside it."""
NOTE: Final = layout(Note)
_CHUNK_BYTES: Final = CHUNK.itemsize
_NOTE_BYTES: Final = NOTE.itemsize


class ShadowRow:
    """What the hooks of one PE and Python share."""

    here: int
    """Its own address."""
    engine: int
    state: int
    """Address of the `State`."""
    number: int
    """That of the PE."""
    marks: int
    """Where the marks are, of the byte at `base` first; 0: blocks are only logged."""
    base: int
    size: int
    looks: int
    """UNWRITTEN, HEAP, or both."""
    open: int
    """Calls of the allocator that have not returned."""
    opened: int
    """Where those are: rows of `heap.OPENED`."""
    heap: int
    """Where the HEAP_ROW is; 0 without."""
    notes: int
    count: int
    """How many notes there are."""
    seen: int
    """Table of operations that have a note."""
    last_end: int
    """Where the last access ended."""
    last: int
    """Where `CheckedRow.last` is; 0 where no stub looks at marks."""
    host: int
    """Where the host has the byte at `base`."""
    scratch: int
    physical: int
    pages: int
    """Virtual pages that were translated: rows of `heap.TRANSLATED`."""
    mapping: int
    """The epoch and the Exception level of these."""
    border_below: int
    """The last border up to the block that was given last."""
    border_above: int
    """The first one above it; both are 0 before any block."""
    registers: int
    """Where the engine has X0 to X30 and SP; 0: it is asked."""
    told: int
    """The set of blocks that tell, though they count themselves (``inline.told``); 0: none do."""
    untold: int
    """The table of those that may count themselves and do not."""
    slow: int
    """Calls that return to such a block: until then each block has to call the hook."""


SHADOW_ROW: Final = layout(ShadowRow)


class ShadowState(ShadowRow, ctypes.Structure):
    """The same, for Python."""

    _fields_ = [(name, ctypes.c_int64) for name in SHADOW_ROW.names]


SCRATCH: Final = 8 * SHADOW_ROW.names.index("scratch")
PHYSICAL: Final = 8 * SHADOW_ROW.names.index("physical")


@routine
def _take_last(m: ShadowRow) -> None:
    """The last access may have been one that a stub has seen: ask where that was."""
    if m.last != 0:
        last = array_at(pointer_to(m.last), (2,), np.int64)
        if last[0] != 0:
            m.last_end = last[0] - m.host + m.base + last[1]
            last[0] = 0


@routine
def noted_already(m: ShadowRow, key: int) -> bool:
    """Whether there is a note with a key, which is not 0; from now on there is."""
    seen = array_at(pointer_to(m.seen), (SEEN,), np.int64)
    for n in range(_PROBES):
        place = (key >> 4) + n & (SEEN - 1)
        if seen[place] == key:
            return True
        if seen[place] == 0:
            seen[place] = key
            return False
    return False


@routine
def note(m: ShadowRow, pc: int, executed: int, kind: int, address: int, size: int) -> int:
    """Make a note, unless there is one. Return its place, 0 for none."""
    if m.count >= NOTES:
        return 0
    follows = int64(address == m.last_end)
    fresh = int64(kind == FRESH)
    if noted_already(m, (pc << 2 ^ fresh << 1 ^ follows) + 1):
        return 0
    place = m.notes + m.count * _NOTE_BYTES
    row = record_at(pointer_to(place), NOTE)
    row.pc, row.executed = pc, executed
    row.kind, row.follows = kind, follows
    row.address, row.size = address, size
    row.block = 0
    m.count += 1
    return place


@routine
def describe(place: int, at: int) -> None:
    """Put the block whose row lies ``at`` into the note at ``place``."""
    row, block = record_at(pointer_to(place), NOTE), record_at(pointer_to(at), CHUNK)
    row.block, row.physical, row.length = block.address, block.physical, block.size
    row.live, row.got, row.freed = block.live, block.got, block.freed


@routine
def _describe_near(m: ShadowRow, place: int, address: int) -> None:
    """Put the block that has a physical address, or is nearest, into the note at ``place``."""
    h = record_at(pointer_to(m.heap), HEAP_ROW)
    best, nearest = int64(0), int64(_BESIDE)
    at = h.chunks
    for _ in range(CHUNKS):
        row = record_at(pointer_to(at), CHUNK)
        if row.address != 0:
            away = max(row.physical - address, address - row.physical - max(row.size, 1) + 1, 0)
            if away < nearest or (away == nearest and row.live != 0):
                best, nearest = at, away
        at += _CHUNK_BYTES
    if best != 0:
        describe(place, best)


@routine
def _found(m: ShadowRow, kind: int, address: int, size: int) -> None:
    """An access is one that is looked for."""
    state = record_at(pointer_to(m.state), LAYOUT)
    call_register(state.reg_read, m.engine, _PC, m.here + SCRATCH)
    pc = m.scratch
    executed = state.granted - state.budget - state.block_operations + ((pc - state.block) >> 2)
    place = note(m, pc, executed, kind, address, size)
    if place != 0 and kind != FRESH:
        _describe_near(m, place, address)


@routine
def _marks_of(place: int, size: int) -> int:
    """All marks of some bytes together; WRITTEN if any of them was written."""
    if size == 8:
        word = array_at(pointer_to(place), (1,), np.int64)[0]
        word |= word >> 32
        word |= word >> 16
        return (word | word >> 8) & 0xFF
    if size == 4:
        word = array_at(pointer_to(place), (1,), np.int64)[0] & 0xFFFF_FFFF
        word |= word >> 16
        return (word | word >> 8) & 0xFF
    marks = array_at(pointer_to(place), (size,), np.uint8)
    together = int64(0)
    for n in range(size):
        together |= marks[n]
    return together


@routine
def _write(place: int, size: int) -> None:
    """Some bytes are written."""
    if size == 8:
        array_at(pointer_to(place), (1,), np.int64)[0] |= _EIGHT
        return
    if size == 4:
        array_at(pointer_to(place), (1,), np.int64)[0] |= _FOUR
        return
    marks = array_at(pointer_to(place), (size,), np.uint8)
    for n in range(size):
        marks[n] |= WRITTEN


@entry("void", "pointer", "int32", "uint64", "int32", "int64", "pointer")
def on_marked(
    engine: Pointer, kind: int, address: int, size: int, value: int, user: Pointer
) -> None:
    """A load or store, or a piece of one."""
    m = record_at(user, SHADOW_ROW)
    here = int64(address)
    if here < m.base or here + size > m.base + m.size:
        return
    _take_last(m)
    place = m.marks + here - m.base
    found = _marks_of(place, size)
    if found & BAD != 0 and m.open == 0 and m.looks & HEAP != 0:
        _found(m, STORE if kind == _WRITE else LOAD, here, int64(size))
    if kind == _WRITE:
        _write(place, size)
    elif found & WRITTEN == 0 and m.looks & UNWRITTEN != 0:
        _found(m, FRESH, here, int64(size))
    m.last_end = here + size
