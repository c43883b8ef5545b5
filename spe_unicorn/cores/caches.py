"""Caches and TLBs: what each data access finds, by exact least-recently-used replacement.

A :class:`DataSide` belongs to one PE: two levels of TLB, the L1 data cache and the L2 cache. The
last-level cache is a :class:`SharedCache`, which several PEs may share. Each is a flat array of
numbers, so that :func:`access`, which is compiled, can be called from compiled hooks by its address
for each access that a guest makes.

A set lists what it holds with the most recent first. So an access to what was accessed last changes
nothing, and it makes no difference whether one operation touches a line once or in pieces.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np

from spe_unicorn.compiled import array_at, entry, routine
from spe_unicorn.cores.model_numbers import Level

L1D_ACCESS: Final = 1 << 2
L1D_REFILL: Final = 1 << 3
TLB_ACCESS: Final = 1 << 4
TLB_WALK: Final = 1 << 5
LLC_ACCESS: Final = 1 << 8
LLC_MISS: Final = 1 << 9
L2D_ACCESS: Final = 1 << 19
L2D_MISS: Final = 1 << 20
L2_TLB_ACCESS: Final = 1 << 32
"""What an access did: bits of the Events packet, but for the last, which no packet shows."""

_OUTCOME: Final = 0
"""Where the header of the array holds what all accesses since :meth:`DataSide.begin` did."""
_LINE_SHIFT: Final = 1
_PAGE_SHIFT: Final = 2
_L1_TLB: Final = 3
_L2_TLB: Final = 6
_L1D: Final = 9
_L2: Final = 12
_NOTED: Final = 15
"""How many accesses have been noted since :meth:`DataSide.begin`."""
_COUNTS: Final = 16
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


_PAGES, _TLB_REFILLS, _WALKS, _LINES, _L1D_REFILLS, _L2D_REFILLS, _LLC_REFILLS = (
    _COUNTS + int(happening) for happening in Happening
)
_NOTES: Final = 128
"""So many accesses are noted one by one, more than any operation that is divided makes."""
_NOTE: Final = 3
"""A note, after the levels: address, size in bytes, what the access did."""
# A level is three words of the header.
_START: Final = 0
"""Where its sets begin."""
_MASK: Final = 1
"""The number of its sets, less 1."""
_WAYS: Final = 2
_LLC: Final = 0
"""The one level in the array of a SharedCache."""
_EMPTY: Final = -1
_UNBOUNDED: Final = 1 << 40


def _array(header: int, *levels: tuple[int, Level], room: int = 0) -> Any:
    """Empty levels after a header, which says at the places given where they are; then room."""
    words = np.zeros(header + sum(level.entries for _, level in levels) + room, np.int64)
    words[header : len(words) - room] = _EMPTY
    start = header
    for place, level in levels:
        words[place : place + 3] = start, level.sets - 1, level.ways
        start += level.entries
    return words


class SharedCache:
    """The last-level cache, shared by those PEs that are given it."""

    STATE = ("words",)

    def __init__(self, level: Level) -> None:
        self.words = _array(3, (_LLC, level))


class DataSide:
    """What one PE's loads and stores go through; ``line`` and ``page`` are in bytes.

    Raises ValueError for sizes that are no powers of two.
    """

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
        line: int = 64,
        page: int = 4096,
    ) -> None:
        for name, size in (("line", line), ("page", page)):
            if size < 1 or size & size - 1:
                raise ValueError(f"a {name} of {size} bytes is no power of two")
        levels = (_L1_TLB, l1_tlb), (_L2_TLB, l2_tlb), (_L1D, l1d), (_L2, l2)
        self.words = _array(_HEADER, *levels, room=_NOTES * _NOTE)
        self.words[_LINE_SHIFT] = line.bit_length() - 1
        self.words[_PAGE_SHIFT] = page.bit_length() - 1
        self._notes = self.words[len(self.words) - _NOTES * _NOTE :].reshape(_NOTES, _NOTE)
        self.last = last

    def begin(self) -> None:
        """Forget what accesses did so far: an operation begins whose outcome is wanted."""
        self.words[_OUTCOME] = self.words[_NOTED] = 0
        self._notes[:] = 0

    def happened(self, what: Happening) -> int:
        """How often something has been, in all accesses so far."""
        return int(self.words[_COUNTS + what])

    @property
    def outcome(self) -> int:
        """What all accesses since :meth:`begin` did."""
        return int(self.words[_OUTCOME])

    def outcome_at(self, address: int, size: int) -> int:
        """What those of them did that touched any of ``size`` bytes from ``address`` on."""
        outcome = 0
        for at, length, did in self._notes[: self.words[_NOTED]].tolist():
            if at < address + size and address < at + length:
                outcome |= did
        return outcome

    def access(self, address: int, size: int) -> None:
        """Make an access of ``size`` bytes at a physical address."""
        access(self.words.ctypes.data, self.last.words.ctypes.data, address, size)

    def forget_translations(self) -> None:
        """TLB maintenance: both levels are empty."""
        forget_translations(self.words.ctypes.data)


@routine
def _touch(words: Any, level: Any, number: Any) -> Any:
    """Make a line or page the most recent one of its set; whether it was there."""
    ways = words[level + _WAYS]
    first = words[level + _START] + (number & words[level + _MASK]) * ways
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


@entry("void", "pointer", "pointer", "int64", "int64")
def access(data_side: Any, last: Any, address: Any, size: Any) -> None:
    """An access of ``size`` bytes at a physical address.

    ``void access(int64_t *data_side, int64_t *last, int64_t address, int64_t size)``, the first two
    being ``words`` of a :class:`DataSide` and of its :class:`SharedCache`. Pages and lines that it
    reaches into are taken to follow each other in physical memory.
    """
    own = array_at(data_side, (_UNBOUNDED,), np.int64)
    shared = array_at(last, (_UNBOUNDED,), np.int64)
    end = address + size - 1
    outcome = np.int64(TLB_ACCESS | L1D_ACCESS)
    for page in range(address >> own[_PAGE_SHIFT], (end >> own[_PAGE_SHIFT]) + 1):
        own[_PAGES] += 1
        if not _touch(own, _L1_TLB, page):
            own[_TLB_REFILLS] += 1
            outcome |= L2_TLB_ACCESS
            if not _touch(own, _L2_TLB, page):
                own[_WALKS] += 1
                outcome |= TLB_WALK
    for line in range(address >> own[_LINE_SHIFT], (end >> own[_LINE_SHIFT]) + 1):
        own[_LINES] += 1
        if not _touch(own, _L1D, line):
            own[_L1D_REFILLS] += 1
            outcome |= L1D_REFILL | L2D_ACCESS
            if not _touch(own, _L2, line):
                own[_L2D_REFILLS] += 1
                outcome |= L2D_MISS | LLC_ACCESS
                if not _touch(shared, _LLC, line):
                    own[_LLC_REFILLS] += 1
                    outcome |= LLC_MISS
    own[_OUTCOME] |= outcome
    noted = own[_NOTED]
    if noted < _NOTES:
        own[_NOTED] = noted + 1
        note = own[_L2 + _START] + (own[_L2 + _MASK] + 1) * own[_L2 + _WAYS] + noted * _NOTE
        own[note] = address
        own[note + 1] = size
        own[note + 2] = outcome


@entry("void", "pointer")
def forget_translations(data_side: Any) -> None:
    """Both levels of the TLB are empty from now on.

    ``void forget_translations(int64_t *data_side)``, given ``words`` of a :class:`DataSide`.
    """
    own = array_at(data_side, (_UNBOUNDED,), np.int64)
    own[own[_L1_TLB + _START] : own[_L1D + _START]] = _EMPTY
