"""Marks of bytes by their virtual addresses: of the blocks of an allocator, and beside these."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from unicorn import UC_PROT_READ

from spe_unicorn.compiled import array_at, int64, layout, pointer_to, record_at, routine
from spe_unicorn.host.engine.builds import release_numbers
from spe_unicorn.host.native.calls import call_translate
from spe_unicorn.host.native.shadow.marks import (
    LIVE,
    OUTSIDE,
    PHYSICAL,
    ShadowRow,
)
from spe_unicorn.host.native.state.whole import LAYOUT

BESIDE: Final = 16
"""Bytes beside a block that are no block's, at least."""
PAGES: Final = 16
"""Pages of which is known where they are: a block and those used before it lie on a few."""
_PAGE: Final = 4096
_NO_PAGE: Final = 1
"""What no page begins at."""
_SAVED: Final = release_numbers().saved
_PSTATE: Final = _SAVED.pstate - _SAVED.x0
"""Where the engine has the low byte of PSTATE, from X0."""
_LEVEL: Final = 0b1100
_PE_BITS: Final = 16
_READ: Final = int(UC_PROT_READ)
_WORD: Final = 8
_LIVES: Final = 0x0101_0101_0101_0101 * LIVE
"""LIVE of eight bytes."""
_TO_OUTSIDE: Final = LIVE.bit_length() - OUTSIDE.bit_length()
"""How far OUTSIDE is to the right of LIVE."""


class Translated:
    """A page of memory."""

    page: int
    """Its virtual address."""
    frame: int
    """Its physical one."""


TRANSLATED: Final = layout(Translated)


def no_pages() -> npt.NDArray[np.void]:
    """Rows of TRANSLATED that say nothing."""
    rows = np.zeros(PAGES, TRANSLATED)
    rows["page"] = _NO_PAGE
    return rows


@routine
def _forget_pages(m: ShadowRow) -> None:
    pages = array_at(pointer_to(m.pages), (PAGES,), TRANSLATED)
    for n in range(PAGES):
        pages[n].page = _NO_PAGE


@routine
def begin_to_translate(m: ShadowRow) -> int:
    """Return the mapping that holds now. If it may be another one, forget where pages are."""
    state = record_at(pointer_to(m.state), LAYOUT)
    if m.copies != 0:
        mapping = m.mapping - 1  # less than 0, and none that any block has
    else:
        level = array_at(pointer_to(m.registers + _PSTATE), (1,), np.uint8)[0] & _LEVEL
        mapping = (state.epoch << _PE_BITS | m.number) << 4 | int64(level) | 1
    if mapping != m.mapping:
        _forget_pages(m)
        m.mapping = mapping
    return mapping


@routine
def physical_at(m: ShadowRow, address: int) -> int:
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
    physical = physical_at(m, first)
    if physical >= m.base and physical + end - first <= m.base + m.size:
        return m.marks + physical - m.base
    return int64(0)


@routine
def change_marks(m: ShadowRow, first: int, end: int, keep: int, add: int, unless: int) -> None:
    """Keep and add marks of bytes ``first`` up to ``end`` that have none of ``unless``.

    A block is no longer than RAM, whatever the guest says.
    """
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
def fill_marks(at: int, size: int, value: int) -> None:
    """Give ``size`` bytes whose marks are at an address the same marks, which is faster."""
    marks = array_at(pointer_to(at), (size,), np.uint8)
    for n in range(size):
        marks[n] = value


@routine
def set_marks(m: ShadowRow, first: int, end: int, value: int) -> None:
    """Give bytes ``first`` up to ``end`` the same marks."""
    end = min(end, first + m.size)
    while first < end:
        piece = min(end, (first | _PAGE - 1) + 1)
        at = _marks_at(m, first, piece)
        if at != 0:
            fill_marks(at, piece - first, value)
        first = piece


@routine
def marks_in_page(m: ShadowRow, address: int, size: int, physical: int) -> int:
    """Where the marks of a block are, if it and what lies beside it are in one page; else 0."""
    inside = address & _PAGE - 1
    at = physical - m.base
    if inside < BESIDE or not 0 <= size <= _PAGE - 2 * BESIDE - inside or not 0 <= at < m.size:
        return int64(0)
    return m.marks + at


@routine
def _word_at(at: int) -> int:
    return array_at(pointer_to(at), (1,), np.int64)[0]


@routine
def _put_outside(at: int, word: int) -> None:
    """Mark the eight bytes whose marks are a word at an address, but for those of a block."""
    array_at(pointer_to(at), (1,), np.int64)[0] = word | (~word & _LIVES) >> _TO_OUTSIDE


@routine
def _mark_outside(at: int, further: int) -> None:
    """The same for as many bytes as two words that may overlap have; all are read first."""
    first, second = _word_at(at), _word_at(at + _WORD)
    third, fourth = _word_at(at + further), _word_at(at + further + _WORD)
    _put_outside(at, first)
    _put_outside(at + _WORD, second)
    _put_outside(at + further, third)
    _put_outside(at + further + _WORD, fourth)


@routine
def mark_beside(m: ShadowRow, address: int, size: int, at: int) -> None:
    """Mark what lies beside a block and is no block's; ``at``: see :func:`marks_in_page`."""
    end = address + size
    low = max(m.border_below, address - BESIDE)
    high = min(m.border_above, (end + BESIDE - 1 & -BESIDE) + BESIDE)
    if at == 0 or low != address - BESIDE or high < end + BESIDE:
        change_marks(m, low, address, -1, OUTSIDE, LIVE)
        change_marks(m, end, high, -1, OUTSIDE, LIVE)
        return
    _mark_outside(at - BESIDE, int64(0))
    _mark_outside(at + size, high - end - BESIDE)
