"""The hook that looks at marks at each load and store.

The engine calls it with physical addresses, once for each piece of an access. What is found
is noted once for each operation, and once more where it goes on behind the access before. SVE's
contiguous loads and stores call no hook.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.compiled import Pointer, array_at, entry, int64, pointer_to, record_at, routine
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import call_register
from spe_unicorn.host.native.shadow.heap import is_own
from spe_unicorn.host.native.shadow.marks import (
    BAD,
    CHUNK,
    CHUNKS,
    FRESH,
    HEAP,
    HEAP_ROW,
    LOAD,
    SCRATCH,
    SHADOW_ROW,
    STORE,
    UNWRITTEN,
    WRITTEN,
    ShadowRow,
    describe,
    note,
)
from spe_unicorn.host.native.state.whole import LAYOUT

_BESIDE: Final = 64
"""How far beside a block an access may be that is said to be beside it."""
_CHUNK_BYTES: Final = CHUNK.itemsize
_EIGHT: Final = 0x0101_0101_0101_0101
_FOUR: Final = 0x0101_0101
_WRITE: Final = int(uc_const.UC_MEM_WRITE)
_PC: Final = int(PC)


@routine
def _take_last(m: ShadowRow) -> None:
    """The last access may have been one that a stub has seen: ask where that was."""
    if m.last != 0:
        last = array_at(pointer_to(m.last), (2,), np.int64)
        if last[0] != 0:
            m.last_end = last[0] - m.host + m.base + last[1]
            last[0] = 0


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


@routine
def _is_own(m: ShadowRow) -> bool:
    """Whether the allocator itself is at work."""
    state = record_at(pointer_to(m.state), LAYOUT)
    return is_own(m, state.block, 4 * state.block_operations)


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
    heap = m.looks & HEAP != 0 and not _is_own(m)
    if found & BAD != 0 and heap and m.open == 0:
        _found(m, STORE if kind == _WRITE else LOAD, here, int64(size))
    if kind == _WRITE:
        _write(place, size)
    elif found & WRITTEN == 0 and m.looks & UNWRITTEN != 0:
        _found(m, FRESH, here, int64(size))
    if heap or m.looks & UNWRITTEN != 0:
        m.last_end = here + size
