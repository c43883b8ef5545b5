"""Stores of translated code that may take the fast way, though a hook is to see all accesses.

The engine has the first store to each page take its slow way, which forgets translated code. With a
hook for stores it does so for all others, too; without one not if it fetches nothing from the page.
What it would then do to its TLB is done here, for stores whose stubs know of all that the hook
would be told. Here a page may also be one that may be executed, as all are without translation: as
long as no code was translated from it.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.engine.builds import code_numbers
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.calls import FETCH, call_read, call_reset_dirty, call_translate
from spe_unicorn.host.native.inline.accesses import have_accesses_noted
from spe_unicorn.host.native.inline.recent import PLACE, places_of
from spe_unicorn.host.native.inline.shared import INLINE
from spe_unicorn.host.native.state.block_table import CODE_WORDS
from spe_unicorn.host.native.state.fields import StateRecord

_PLACE_BYTES: Final = PLACE.itemsize
_CODE_PAGE_BITS: Final = 12
_CODE_PAGES: Final = 1 << 16
"""Pages that the table tells apart."""
_STORED: Final = 1 << 8
_ZEROING: Final = 1 << 12
_DC_ZVA: Final = 0xD50B_7420
_WITHOUT_RT: Final = 0xFFFF_FFE0
_TLB: Final = code_numbers().tlb
_TLB_WRITE = _TLB.write
_TLB_ADDEND = _TLB.addend
_TLB_WORDS = _TLB.words
_NOT_DIRTY = _TLB.not_dirty
_WHOLE_HOST: Final = -1
"""So many bytes, without a sign: all memory of the host."""


class StoresRow:
    """What is known of one engine's pages and blocks."""

    places: int
    """Table of where the host has memory to which stores may be fast: rows of PLACE."""
    place_count: int
    """How many rows that has."""
    memory: int
    """What :func:`~.accesses.have_accesses_noted` is given."""
    code_pages: int
    """Table of physical pages with code, a byte each."""
    stored: int
    """Table of pages that were stored to since code was translated."""
    zeroing: int
    """Table of blocks with DC ZVA, a byte each."""
    fast: int
    """Whether some stores may take the fast way now."""
    zeroes: int
    """Address of the last block that may have DC ZVA; -1: none."""
    reset_dirty: int
    """The engine's ``tlb_reset_dirty``, and in the next field its CPU, once stores were fast."""
    cpu: int
    here: int
    """Its own address."""
    physical: int
    """Room for a physical address."""


STORES: Final = layout(StoresRow)
_PHYSICAL: Final = 8 * STORES.names.index("physical")


class StoresState(StoresRow, ctypes.Structure):
    """The same, for Python."""

    _fields_ = [(name, ctypes.c_int64) for name in STORES.names]


class Stores:
    """What is known of one engine's pages and blocks; ``memory``: see ``ModelHooks``.

    ``recent`` is whether lines and pages are compared with recent ones in a block's own code.
    """

    DERIVED = ("_code_pages", "_places", "_state", "_stored", "_zeroing")

    def __init__(self, memory: RamMemory | None, *, recent: bool) -> None:
        self._state = s = StoresState()
        self._places = places_of(memory)
        self._code_pages = np.zeros(_CODE_PAGES, np.uint8)
        self._stored = np.full(_STORED, -1, np.int64)
        self._zeroing = np.zeros(_ZEROING, np.uint8)
        s.zeroes = -1
        s.zeroing = self._zeroing.ctypes.data
        s.code_pages, s.stored = self._code_pages.ctypes.data, self._stored.ctypes.data
        s.places, s.place_count = self._places.ctypes.data, len(self._places)
        s.memory = s.places if recent else 0
        self.address = s.here = ctypes.addressof(s)


@routine
def physical_of(s: StoresRow, host: int) -> int:
    """The physical address of memory that the host has at an address; -1 where there is none."""
    for n in range(s.place_count):
        place = record_at(pointer_to(s.places + n * _PLACE_BYTES), PLACE)
        if place.begin <= host < place.end:
            return host - place.begin + place.physical
    return int64(-1)


@routine
def prepare_accesses(
    s: StoresRow, state: StateRecord, engine: Pointer, address: int, size: int, back: int
) -> None:
    """A block begins: have its accesses noted, and see to it that nothing is missed.

    Where blocks may not count themselves no stub is written, and nobody hears of new code.
    """
    if state.inline == 0:
        _slow_down(s)
        return
    inline = record_at(pointer_to(state.inline), INLINE)
    if inline.begin <= back < inline.end:
        return  # a stub has called the hook
    zeroing = array_at(pointer_to(s.zeroing), (_ZEROING,), np.uint8)
    place = back >> 4 & (_ZEROING - 1)
    if have_accesses_noted(state, s.memory, address, size, back):
        _new_code(s, state, engine, address, size)
        if _zeroes(state, engine, address, size):
            zeroing[place] = 1
    if zeroing[place] != 0:
        s.zeroes = address
        _slow_down(s)


@routine
def may_count_itself(stores: int, state: StateRecord, block: int) -> bool:
    """Whether a block may count itself, by the STORES at an address and by who has the engine."""
    zeroes = record_at(pointer_to(stores), STORES).zeroes
    return zeroes != block and state.steps == 0 and state.unattended == 0


@routine
def _zeroes(state: StateRecord, engine: Pointer, address: int, size: int) -> int:
    """Whether a block has DC ZVA, or may have it.

    Its stores come to the hook only if they take the slow way.
    """
    if call_read(state.vmem_read, address_of(engine), address, FETCH, state.code, size) != 0:
        return True
    code = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    found = False
    for n in range(size >> 2):
        found |= int64(code[n]) & _WITHOUT_RT == _DC_ZVA
    return found


@routine
def _slow_down(s: StoresRow) -> None:
    """Have all stores take the slow way again. The engine's TLB keeps its translations.

    To empty it instead would be seen by a guest that changes tables without TLB maintenance.
    """
    if s.fast != 0:
        s.fast = 0
        call_reset_dirty(s.reset_dirty, s.cpu, 0, _WHOLE_HOST)


@routine
def _new_code(s: StoresRow, state: StateRecord, engine: Pointer, address: int, size: int) -> None:
    """The engine has translated a block: have stores to its pages take the slow way."""
    array_at(pointer_to(s.stored), (_STORED,), np.int64)[:] = -1
    for at in (address, address + size - 1):
        place = s.here + _PHYSICAL
        pages = array_at(pointer_to(s.code_pages), (_CODE_PAGES,), np.uint8)
        if call_translate(state.vmem_translate, address_of(engine), at, FETCH, place) != 0:
            pages[:] = 1
            _slow_down(s)
        elif pages[_code_page(s.physical)] == 0:
            pages[_code_page(s.physical)] = 1
            _slow_down(s)


@routine
def _code_page(physical: int) -> int:
    return physical >> _CODE_PAGE_BITS & (_CODE_PAGES - 1)


@routine
def may_be_fast(s: StoresRow, state: StateRecord, place: int, address: int, size: int) -> bool:
    """Whether the engine's TLB, whose entry for a store lies at ``place``, has its page from now.

    If not, the slow way is to be taken.
    """
    entry_ = array_at(pointer_to(place), (_TLB_WORDS,), np.int64)
    inline = record_at(pointer_to(state.inline), INLINE)
    page_bits = inline.page_bits
    page = address >> page_bits << page_bits
    if entry_[_TLB_WRITE] != page | _NOT_DIRTY:
        return False
    if s.zeroes == state.block or address & size - 1 != 0:
        return False
    physical = physical_of(s, address + entry_[_TLB_ADDEND])
    if physical < 0:
        return False
    pages = array_at(pointer_to(s.code_pages), (_CODE_PAGES,), np.uint8)
    if pages[_code_page(physical)] != 0:
        return False
    stored = array_at(pointer_to(s.stored), (_STORED,), np.int64)
    n = page >> page_bits & (_STORED - 1)
    if stored[n] != page:
        stored[n] = page
        return False
    entry_[_TLB_WRITE] = page
    s.reset_dirty, s.cpu = inline.reset_dirty, inline.cpu
    s.fast = 1
    return True
