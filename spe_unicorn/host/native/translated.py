"""Which code the engine has translated, and whether memory still holds it.

At IC IALLU the engine would have to forget all that it has translated, as it misses some stores to
code (``host.native.code`` says which). Hypervisors execute IC IALLUIS for each page that they give
to a guest. So pages from which blocks were translated are kept as they were at the first block, and
compared then: where nothing has changed, nothing has to be forgotten.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import numpy as np

from spe_unicorn.compiled import array_at, entry, int64, layout, pointer_to, record_at, routine
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.native.calls import FETCH, call_translate
from spe_unicorn.host.native.inline.recent import PLACE, places_of
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import CODE_TOLD

if TYPE_CHECKING:
    from spe_unicorn.host.engine.engine import Engine
    from spe_unicorn.host.engine.memory import RamMemory
    from spe_unicorn.host.native.state.whole import State

MOST_PAGES: Final = 256
"""Pages that are kept: a comparison of all takes as long as the engine does to forget them."""
_PAGE: Final = 4096
_WORDS: Final = _PAGE // 8
_PLACE_BYTES: Final = PLACE.itemsize


class TranslatedRow:
    """What is known of the code that one engine has translated."""

    places: int
    """Table of where the host has memory: rows of PLACE."""
    place_count: int
    pages: int
    """Table of the host's addresses of pages with translated code."""
    page_count: int
    copies: int
    """What these pages held, one after the other."""
    here: int
    """Its own address."""
    physical: int
    """Room for a physical address."""
    unknown: int
    """Whether there is translated code that need not be what those pages held."""


TRANSLATED_CODE: Final = layout(TranslatedRow)
_PHYSICAL: Final = 8 * TRANSLATED_CODE.names.index("physical")


class _TranslatedState(TranslatedRow, ctypes.Structure):
    """The same, for Python."""

    _fields_ = [(name, ctypes.c_int64) for name in TRANSLATED_CODE.names]


class TranslatedCode:
    """The code that one engine has translated, from ``memory``."""

    DERIVED = ("_copies", "_pages", "_row")
    TRANSIT = ("_places",)

    def __init__(self, engine: Engine, state: State, memory: RamMemory) -> None:
        self._state = state
        self._places = places_of(memory)
        self._pages = np.zeros(MOST_PAGES, np.int64)
        self._copies = np.zeros((MOST_PAGES, _WORDS), np.int64)
        self._row = row = _TranslatedState()
        row.places, row.place_count = self._places.ctypes.data, len(self._places)
        row.pages, row.copies = self._pages.ctypes.data, self._copies.ctypes.data
        row.unknown = 1  # nobody is told of the first blocks
        row.here = ctypes.addressof(row)
        if wanted("code"):
            state.translated = row.here
        engine.code_forgotten.wire(self._forget)

    def _forget(self) -> None:
        told = self._state.new_code & CODE_TOLD  # from then on the engine tells of each block
        self._row.page_count, self._row.unknown = 0, not told

    def is_in_memory(self) -> bool:
        """Whether memory holds all code that the engine has translated, and is known to."""
        if self._row.unknown:
            return False  # as at each start, for which no function has to be loaded
        return bool(code_is_in_memory(self._state.translated))


@routine
def _place_of(t: TranslatedRow, physical: int) -> int:
    """Where the host has memory of a physical address; 0 where there is none."""
    for n in range(t.place_count):
        place = record_at(pointer_to(t.places + n * _PLACE_BYTES), PLACE)
        host = place.begin + physical - place.physical
        if place.begin <= host < place.end:
            return host
    return int64(0)


@routine
def note_translated(state: StateRecord, uc: int, address: int, size: int) -> None:
    """The engine has translated ``size`` bytes of code at a virtual address, of one page."""
    if state.translated == 0:
        return
    t = record_at(pointer_to(state.translated), TRANSLATED_CODE)
    if t.unknown != 0:
        return
    place = int64(0)
    if call_translate(state.vmem_translate, uc, address, FETCH, t.here + _PHYSICAL) == 0:
        place = _place_of(t, t.physical)
    page = place & -_PAGE
    if place == 0 or place + size > page + _PAGE:
        t.unknown = 1
        return
    pages = array_at(pointer_to(t.pages), (MOST_PAGES,), np.int64)
    number = int64(0)
    while number < t.page_count and pages[number] != page:
        number += 1
    if number == MOST_PAGES:
        t.unknown = 1
        return
    copy = t.copies + number * _PAGE
    if number == t.page_count:
        pages[number] = page
        t.page_count += 1
        held = array_at(pointer_to(page), (_WORDS,), np.int64)
        kept = array_at(pointer_to(copy), (_WORDS,), np.int64)
        for n in range(_WORDS):
            kept[n] = held[n]
        return
    words = size >> 2
    now = array_at(pointer_to(place), (words,), np.uint32)
    then = array_at(pointer_to(copy + place - page), (words,), np.uint32)
    for n in range(words):
        if now[n] != then[n]:
            t.unknown = 1
            return


@entry("bool", "int64")
def code_is_in_memory(translated: int) -> bool:
    """Whether memory holds all code that the engine has translated, and is known to.

    ``translated`` is the address of a row of TRANSLATED_CODE; 0: it is not known.
    """
    if translated == 0:
        return False
    t = record_at(pointer_to(translated), TRANSLATED_CODE)
    if t.unknown != 0:
        return False
    pages = array_at(pointer_to(t.pages), (MOST_PAGES,), np.int64)
    for number in range(t.page_count):
        now = array_at(pointer_to(pages[number]), (_WORDS,), np.int64)
        then = array_at(pointer_to(t.copies + number * _PAGE), (_WORDS,), np.int64)
        differ = int64(0)
        for n in range(_WORDS):
            differ |= now[n] ^ then[n]
        if differ != 0:
            return False
    return True
