"""Caches and TLBs: what each data access finds, by exact least-recently-used replacement.

A :class:`DataSide` belongs to one PE: two levels of TLB, the L1 data cache and the L2 cache. The
last-level cache is a :class:`SharedCache`, which several PEs may share. Each is a flat array of
numbers, so that :func:`access`, which is compiled, can be called from compiled hooks by its address
for each access that a guest makes. Where several PEs have caches, ``cores.coherence`` has what is
called instead.

A set lists what it holds with the most recent first. So an access to what was accessed last changes
nothing, and it makes no difference whether one operation touches a line once or in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.compiled import Pointer, Words, array_at, entry, int64, routine
from spe_unicorn.cores.model_numbers import Level
from spe_unicorn.stateful import expect

L1D_ACCESS: Final = 1 << 2
L1D_REFILL: Final = 1 << 3
TLB_ACCESS: Final = 1 << 4
TLB_WALK: Final = 1 << 5
LLC_ACCESS: Final = 1 << 8
LLC_MISS: Final = 1 << 9
L2D_ACCESS: Final = 1 << 19
L2D_MISS: Final = 1 << 20
MODIFIED_ELSEWHERE: Final = 1 << 21
SNOOPED: Final = 1 << 23
L2_TLB_ACCESS: Final = 1 << 32
FROM_PEER_CORE: Final = 1 << 33
FROM_PEER_CLUSTER: Final = 1 << 34
"""What an access did: bits of the Events packet, but for the last three, which no packet shows.

A line that comes from another PE has neither LLC_ACCESS nor LLC_MISS here.
"""

OUTCOME: Final = 0
"""Where the header of the array holds what all accesses since :meth:`DataSide.begin` did."""
LINE_SHIFT: Final = 1
PAGE_SHIFT: Final = 2
L1_TLB: Final = 3
_L2_TLB: Final = 6
L1D: Final = 9
L2: Final = 12
NOTED: Final = 15
"""How many accesses have been noted since :meth:`DataSide.begin`; UNNOTED where none is."""
UNNOTED: Final = -1
COUNTS: Final = 16
"""From here on how often each of :class:`Happening` has been."""
_HEADER: Final = 24


class Happening(IntEnum):
    """What is counted of all accesses: pages looked up, lines touched, and what was missing."""

    TLB = 0
    TLB_REFILL = 1
    WALK = 2
    L1D = 3
    L1D_REFILL = 4
    L2D_REFILL = 5
    LLC_REFILL = 6
    FROM_PEER_CORE = 7
    """Lines that L2D_REFILL counts and that did not go past the cluster."""


PAGES, _TLB_REFILLS, _WALKS = (COUNTS + n for n in range(3))
LINES, L1D_REFILLS, L2D_REFILLS, LLC_REFILLS, PEER_CORES = (COUNTS + n for n in range(3, 8))
_NOTES: Final = 128
"""So many accesses are noted one by one, more than any operation that is divided makes."""
NOTE_WORDS: Final = 3
"""A note, after the levels: address, size in bytes, what the access did."""
# A level is three words of the header.
START: Final = 0
"""Where its sets begin."""
MASK: Final = 1
"""The number of its sets, less 1."""
WAYS: Final = 2
LLC: Final = 0
"""The one level in the array of a SharedCache."""
SIDES: Final = 0
CLUSTER: Final = 1
FIRST_SIDE: Final = 2
"""Where :attr:`SharedCache.sides` has what."""
EMPTY: Final = -1
UNBOUNDED: Final = 1 << 40


def _array(header: int, *levels: tuple[int, Level], room: int = 0) -> NDArray[np.int64]:
    """Empty levels after a header, which says at the places given where they are; then room."""
    words = np.zeros(header + sum(level.entries for _, level in levels) + room, np.int64)
    words[header : len(words) - room] = EMPTY
    start = header
    for place, level in levels:
        words[place : place + 3] = start, level.sets - 1, level.ways
        start += level.entries
    return words


class SharedCache:
    """The last-level cache, shared by those PEs that are given it.

    With ``pes`` of 2 and more it is given to so many, and they know each other's lines; each
    ``cluster`` of them, in the order in which they are given it, are a cluster.
    """

    STATE = ("words",)
    DERIVED = ("sides", "_kept")

    def __init__(self, level: Level, pes: int = 1, cluster: int = 1) -> None:
        self.words = _array(3, (LLC, level))
        self.coherent = pes > 1
        self.sides = np.zeros(FIRST_SIDE + pes, np.int64)
        """How many PEs there are, how many make a cluster, where the words of each are."""
        self.sides[CLUSTER] = cluster
        self._kept: list[NDArray[np.int64]] = []

    def check_words(self, words: NDArray[np.int64]) -> None:
        """Raise StateError for words of another cache: compiled code follows its places."""
        expect(bool((words[: LLC + 3] == self.words[: LLC + 3]).all()), "the last-level cache")

    def join(self, words: NDArray[np.int64]) -> None:
        """Another PE has this last level; ``words`` are those of its :class:`DataSide`."""
        if self.coherent:
            self.sides[FIRST_SIDE + len(self._kept)] = words.ctypes.data
            self._kept.append(words)
            self.sides[SIDES] = len(self._kept)


@dataclass(frozen=True)
class Grain:
    """The bytes of a line of a cache and of a page. Raises ValueError for no powers of two."""

    line: int = 64
    page: int = 4096

    def __post_init__(self) -> None:
        for name, size in (("line", self.line), ("page", self.page)):
            if size < 1 or size & size - 1:
                raise ValueError(f"a {name} of {size} bytes is no power of two")


_USUAL: Final = Grain()


class DataSide:
    """What one PE's loads and stores go through."""

    STATE = ("words",)
    DERIVED = ("_notes",)

    def __init__(
        self,
        *,
        l1_tlb: Level,
        l2_tlb: Level,
        l1d: Level,
        l2: Level,
        last: SharedCache,
        grain: Grain = _USUAL,
    ) -> None:
        levels = (L1_TLB, l1_tlb), (_L2_TLB, l2_tlb), (L1D, l1d), (L2, l2)
        self.words = _array(_HEADER, *levels, room=_NOTES * NOTE_WORDS)
        self.words[LINE_SHIFT] = grain.line.bit_length() - 1
        self.words[PAGE_SHIFT] = grain.page.bit_length() - 1
        self.words[NOTED] = UNNOTED
        self._notes = self.words[len(self.words) - _NOTES * NOTE_WORDS :].reshape(
            _NOTES, NOTE_WORDS
        )
        self.last = last
        last.join(self.words)

    def check_words(self, words: NDArray[np.int64]) -> None:
        """Raise StateError for words of other caches: compiled code follows their places."""
        there = self.words[LINE_SHIFT:NOTED]
        expect(bool((words[LINE_SHIFT:NOTED] == there).all()), "a cache")
        expect(UNNOTED <= int(words[NOTED]) <= _NOTES, "an access to a cache")

    def begin(self) -> None:
        """Note what accesses do from now on: an operation begins whose outcome is wanted."""
        forget_notes(self.words)
        self.words[NOTED] = 0

    def end(self) -> None:
        """Forget what was noted, and note nothing until :meth:`begin`."""
        forget_notes(self.words)

    def happened(self, what: Happening) -> int:
        """How often something has been, in all accesses so far."""
        return int(self.words[COUNTS + what])

    @property
    def outcome(self) -> int:
        """What all accesses since :meth:`begin` did."""
        return int(self.words[OUTCOME])

    def outcome_at(self, address: int, size: int) -> int:
        """What those of them did that touched any of ``size`` bytes from ``address`` on."""
        return int(outcome_at(self.words, address, size))

    def access(self, address: int, size: int) -> None:
        """Make an access of ``size`` bytes at a physical address, where no other PE has caches."""
        access(self.words.ctypes.data, self.last.words.ctypes.data, address, size)

    def forget_translations(self) -> None:
        """TLB maintenance: both levels are empty."""
        forget_translations(self.words.ctypes.data)


@routine
def touch(words: Words, level: int, number: int) -> bool:
    """Make a line or page the most recent one of its set; whether it was there."""
    ways = words[level + WAYS]
    first = words[level + START] + (number & words[level + MASK]) * ways
    displaced = words[first]
    if displaced == number:
        return True
    words[first] = number
    for place in range(first + 1, first + ways):
        held = words[place]
        words[place] = displaced
        if held == number:
            return True
        displaced = held
    return False


@routine
def look_up(own: Words, address: int, end: int) -> int:
    """The pages from one address to another in both levels of the TLB: what that did."""
    outcome = int64(TLB_ACCESS)
    for page in range(address >> own[PAGE_SHIFT], (end >> own[PAGE_SHIFT]) + 1):
        own[PAGES] += 1
        if not touch(own, L1_TLB, page):
            own[_TLB_REFILLS] += 1
            outcome |= L2_TLB_ACCESS
            if not touch(own, _L2_TLB, page):
                own[_WALKS] += 1
                outcome |= TLB_WALK
    return outcome


@routine
def _bring_line(own: Words, shared: Words, line: int) -> int:
    """Make a line the most recent one, where no other PE has caches: what that did."""
    own[LINES] += 1
    if touch(own, L1D, line):
        return L1D_ACCESS
    own[L1D_REFILLS] += 1
    if touch(own, L2, line):
        return L1D_ACCESS | L1D_REFILL | L2D_ACCESS
    own[L2D_REFILLS] += 1
    if touch(shared, LLC, line):
        return L1D_ACCESS | L1D_REFILL | L2D_ACCESS | L2D_MISS | LLC_ACCESS
    own[LLC_REFILLS] += 1
    return L1D_ACCESS | L1D_REFILL | L2D_ACCESS | L2D_MISS | LLC_ACCESS | LLC_MISS


@routine
def access_within_line(own: Words, shared: Words, address: int, size: int) -> None:
    """An access within one line, where no other PE has caches and nothing is noted."""
    look_up(own, address, address + size - 1)
    _bring_line(own, shared, address >> own[LINE_SHIFT])


@routine
def notes_of(own: Words) -> int:
    """Where the notes begin: after all levels."""
    return own[L2 + START] + (own[L2 + MASK] + 1) * own[L2 + WAYS]


@routine
def forget_notes(own: Words) -> None:
    """Forget what accesses did, and note nothing. Python and compiled code both call this."""
    first = notes_of(own)
    for place in range(first, first + max(own[NOTED], 0) * NOTE_WORDS):
        own[place] = 0
    own[OUTCOME] = 0
    own[NOTED] = UNNOTED


@routine
def outcome_at(own: Words, address: int, size: int) -> int:
    """What those noted accesses did that touched any of ``size`` bytes from ``address`` on."""
    first = notes_of(own)
    outcome = int64(0)
    for place in range(first, first + max(own[NOTED], 0) * NOTE_WORDS, NOTE_WORDS):
        at, length = own[place], own[place + 1]
        if at < address + size and address < at + length:
            outcome |= own[place + 2]
    return outcome


@routine
def note(own: Words, address: int, size: int, outcome: int) -> None:
    """If that is wanted, keep what an access did: with the operation's others, and by itself."""
    noted = own[NOTED]
    if noted == UNNOTED:
        return
    own[OUTCOME] |= outcome
    if noted < _NOTES:
        own[NOTED] = noted + 1
        place = notes_of(own) + noted * NOTE_WORDS
        own[place] = address
        own[place + 1] = size
        own[place + 2] = outcome


@entry("int64", "pointer", "pointer", "int64", "int64")
def access(data_side: Pointer, last: Pointer, address: int, size: int) -> int:
    """An access of ``size`` bytes at a physical address: what it did.

    ``int64_t access(int64_t *data_side, int64_t *last, int64_t address, int64_t size)``, the first
    two being ``words`` of a :class:`DataSide` and of its :class:`SharedCache`. Pages and lines that
    it reaches into are taken to follow each other in physical memory.
    """
    own = array_at(data_side, (UNBOUNDED,), np.int64)
    shared = array_at(last, (UNBOUNDED,), np.int64)
    end = address + size - 1
    outcome = look_up(own, address, end)
    for line in range(address >> own[LINE_SHIFT], (end >> own[LINE_SHIFT]) + 1):
        outcome |= _bring_line(own, shared, line)
    note(own, address, size, outcome)
    return outcome


@entry("void", "pointer")
def forget_translations(data_side: Pointer) -> None:
    """Both levels of the TLB are empty from now on.

    ``void forget_translations(int64_t *data_side)``, given ``words`` of a :class:`DataSide`.
    """
    own = array_at(data_side, (UNBOUNDED,), np.int64)
    own[own[L1_TLB + START] : own[L1D + START]] = EMPTY
