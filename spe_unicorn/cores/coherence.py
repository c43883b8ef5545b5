"""Coherence: what an access finds where several PEs have caches, and what it does to their lines.

A PE holds a line if its L1 data cache or its L2 cache does. A line is modified in at most one PE,
and then no other holds it. So:

- a store takes the line from all others, and has it modified from then on;
- a load that brings in a line that another PE has modified leaves both with it unmodified; what was
  modified goes to the last-level cache;
- it stays modified for as long as the PE holds it; what both of its caches displaced is in memory,
  and in the last-level cache if that has the line.

A line that is in neither of a PE's caches comes from the nearest that has it: another PE of its
cluster; from outside of the cluster one that has it modified, else the last-level cache, else any
PE, else memory. The last-level cache hears of what leaves the cluster.

The words are those of ``cores.caches``; a line that is modified has :data:`MODIFIED` besides. This
is compiled, and called for each access that a guest makes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import (
    Pointer,
    Words,
    address_of,
    array_at,
    entry,
    int64,
    pointer_to,
    routine,
)
from spe_unicorn.cores.caches import (
    CLUSTER,
    EMPTY,
    FIRST_SIDE,
    FROM_PEER_CLUSTER,
    FROM_PEER_CORE,
    L1D,
    L1D_ACCESS,
    L1D_REFILL,
    L1D_REFILLS,
    L2,
    L2D_ACCESS,
    L2D_MISS,
    L2D_REFILLS,
    LINE_SHIFT,
    LINES,
    LLC,
    LLC_ACCESS,
    LLC_MISS,
    LLC_REFILLS,
    MASK,
    MODIFIED_ELSEWHERE,
    PEER_CORES,
    SIDES,
    SNOOPED,
    START,
    UNBOUNDED,
    WAYS,
    DataSide,
    look_up,
    note,
    touch,
)

MODIFIED: Final = 1 << 60
"""Beside the number of a line, which has fewer bits: no other cache or memory has what it holds."""
_LINE: Final = MODIFIED - 1
_THERE: Final = -2
"""Nothing was displaced: the line was there."""
_NOT_HELD, _UNMODIFIED, _MODIFIED = range(3)


def access_among_peers(side: DataSide, address: int, size: int, write: bool) -> None:
    """Make an access of ``size`` bytes at a physical address."""
    data, last = side.words.ctypes.data, side.last
    coherent_access(data, last.words.ctypes.data, last.sides.ctypes.data, address, size, write)


@routine
def _first(words: Words, level: int, line: int) -> int:
    """Where the set of a line begins, with its most recent line."""
    return words[level + START] + (line & words[level + MASK]) * words[level + WAYS]


@routine
def _find(words: Words, level: int, line: int) -> int:
    """Where a level holds a line, -1 for nowhere."""
    first = _first(words, level, line)
    for place in range(first, first + words[level + WAYS]):
        if words[place] & _LINE == line:
            return place
    return -1


@routine
def _bring(words: Words, level: int, line: int) -> int:
    """Make a line the most recent one of its set: the word that it displaced, or _THERE."""
    first = _first(words, level, line)
    displaced = words[first]
    if displaced & _LINE == line:
        return _THERE
    words[first] = line
    for place in range(first + 1, first + words[level + WAYS]):
        held = words[place]
        words[place] = displaced
        if held & _LINE == line:
            words[first] = held
            return _THERE
        displaced = held
    return displaced


@routine
def _state(peer: Words, line: int) -> int:
    """How a PE holds a line."""
    state = _NOT_HELD
    for level in (L1D, L2):
        place = _find(peer, level, line)
        if place >= 0:
            state = max(state, _MODIFIED if peer[place] & MODIFIED else _UNMODIFIED)
    return state


@routine
def _let_go(peer: Words, line: int) -> None:
    """A PE holds the line no more; the place is the next one of its set to be filled."""
    for level in (L1D, L2):
        place = _find(peer, level, line)
        if place >= 0:
            last = _first(peer, level, line) + peer[level + WAYS] - 1
            while place < last:
                peer[place] = peer[place + 1]
                place += 1
            peer[last] = EMPTY


@routine
def _unmodified(peer: Words, line: int) -> None:
    """A PE holds the line unmodified from now on."""
    for level in (L1D, L2):
        place = _find(peer, level, line)
        if place >= 0:
            peer[place] = line


@routine
def _number(sides: Words, own: int) -> int:
    """The number of the PE whose words lie at an address."""
    number = 0
    while sides[FIRST_SIDE + number] != own:
        number += 1
    return number


@routine
def _take(sides: Words, mine: int, line: int) -> None:
    """No PE but one holds the line any more."""
    for number in range(sides[SIDES]):
        if number != mine:
            _let_go(array_at(pointer_to(sides[FIRST_SIDE + number]), (UNBOUNDED,), np.int64), line)


@routine
def _fetch(own: Words, shared: Words, sides: Words, mine: int, line: int, write: int) -> int:
    """Bring a line from outside a PE's caches: what that did."""
    near = far = _NOT_HELD
    for number in range(sides[SIDES]):
        if number != mine:
            peer = array_at(pointer_to(sides[FIRST_SIDE + number]), (UNBOUNDED,), np.int64)
            state = _state(peer, line)
            if number // sides[CLUSTER] == mine // sides[CLUSTER]:
                near = max(near, state)
            else:
                far = max(far, state)
            if state == _MODIFIED and write == 0:
                _unmodified(peer, line)
    outcome = int64(L2D_MISS)
    if _MODIFIED in (near, far):
        outcome |= MODIFIED_ELSEWHERE
    if near != _NOT_HELD:
        own[PEER_CORES] += 1
        if near == _MODIFIED and write == 0:
            touch(shared, LLC, line)
        return outcome | FROM_PEER_CORE | SNOOPED
    there = touch(shared, LLC, line)
    if far == _MODIFIED or (far == _UNMODIFIED and not there):
        own[LLC_REFILLS] += 1
        return outcome | FROM_PEER_CLUSTER | SNOOPED
    outcome |= LLC_ACCESS
    if not there:
        own[LLC_REFILLS] += 1
        outcome |= LLC_MISS
    return outcome


@entry("int64", "pointer", "pointer", "pointer", "int64", "int64", "int64")
def coherent_access(
    data_side: Pointer, last: Pointer, peers: Pointer, address: int, size: int, write: int
) -> int:
    """A load, or with ``write`` of 1 a store, of ``size`` bytes at a physical address.

    ``int64_t coherent_access(int64_t *data_side, int64_t *last, int64_t *peers, int64_t address,
    int64_t size, int64_t write)``: as ``cores.caches.access``, with the ``sides`` of the
    :class:`~spe_unicorn.cores.caches.SharedCache` as ``peers``.
    """
    own = array_at(data_side, (UNBOUNDED,), np.int64)
    shared = array_at(last, (UNBOUNDED,), np.int64)
    sides = array_at(peers, (UNBOUNDED,), np.int64)
    end = address + size - 1
    outcome = look_up(own, address, end) | L1D_ACCESS
    for line in range(address >> own[LINE_SHIFT], (end >> own[LINE_SHIFT]) + 1):
        own[LINES] += 1
        displaced = _bring(own, L1D, line)
        if displaced != _THERE:
            own[L1D_REFILLS] += 1
            outcome |= L1D_REFILL | L2D_ACCESS
            if displaced != EMPTY and displaced & MODIFIED:
                place = _find(own, L2, displaced & _LINE)
                if place >= 0:
                    own[place] = displaced
            if _bring(own, L2, line) != _THERE:
                own[L2D_REFILLS] += 1
                mine = _number(sides, address_of(data_side))
                outcome |= _fetch(own, shared, sides, mine, line, write)
            own[_first(own, L1D, line)] = own[_first(own, L2, line)]
        first = _first(own, L1D, line)
        if write != 0 and own[first] & MODIFIED == 0:
            _take(sides, _number(sides, address_of(data_side)), line)
            own[first] = line | MODIFIED
    note(own, address, size, outcome)
    return outcome
