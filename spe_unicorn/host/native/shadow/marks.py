"""Marks of the bytes of RAM, what is looked for, and notes of what was found."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, layout, pointer_to, record_at, routine

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
    mapping: int
    """By which mapping `physical` and `place` are known; 0: by none that holds again."""
    place: int
    """Where its marks are, if it and what lies beside it are in one page; else 0."""


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
NOTE: Final = layout(Note)
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
    """Virtual pages that were translated: rows of `ranges.TRANSLATED`."""
    mapping: int
    """The PE, epoch and Exception level of these: another number for each other mapping."""
    border_below: int
    """The last border up to the block that was given last."""
    border_above: int
    """The first one above it; both are 0 before any block."""
    registers: int
    """Where X0 to X30 and SP are."""
    copies: int
    """Whether these are copies, for which the engine is asked."""
    told: int
    """The table of blocks that tell, though they count themselves (``inline.told``); 0: none do."""
    untold: int
    """The table of those that may count themselves and do not."""
    slow: int
    """Calls that return to such a block: until then each block has to call the hook."""
    returned: int
    """``blocks.on_returned``, and so on: for blocks that tell."""
    begun: int
    followed: int


SHADOW_ROW: Final = layout(ShadowRow)


class ShadowState(ShadowRow, ctypes.Structure):
    """The same, for Python."""

    _fields_ = [(name, ctypes.c_int64) for name in SHADOW_ROW.names]


OPEN_CALLS: Final = 8 * SHADOW_ROW.names.index("open")
SCRATCH: Final = 8 * SHADOW_ROW.names.index("scratch")
PHYSICAL: Final = 8 * SHADOW_ROW.names.index("physical")


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
