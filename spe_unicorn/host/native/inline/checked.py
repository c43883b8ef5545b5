"""Accesses whose stubs look at shadows of RAM, while memory is checked.

An access for which there is nothing to be said is made without the hook for accesses: all its bytes
were written, no byte is outside of a block of an allocator, its page is mapped as cacheable only,
and none of them is of a record that waits for a DSB.
Every other one takes the engine's slow way, to that hook. So the rules of what is found have their
one text there (``host.native.shadow``), and a stub may always say that it does not know.

Once the engine's TLB has the page, and RSI is where the host has it, the stub goes on::

            mov   rdi, -begin of RAM
            add   rdi, rsi
            cmp   rdi, bytes of RAM - 8
            ja    again
            mov   rdi, marks - begin of RAM     ; where bytes have marks
            test  [rdi + rsi], bad              ; for a heap, but in the allocator's own code
            jne   asked
    heeded:
            test  [rdi + rsi], written          ; of a load
            je    again
            or    [rdi + rsi], written          ; of a store
            mov   rdi, CheckedRow.last
            mov   [rdi], rsi
            mov   dword [rdi + 8], size
            mov   rdi, CheckedRow.attention of the Exception level    ; where lines are followed
            cmp   dword [rdi], 0
            jne   again
            mov   rdi, -begin of RAM
            add   rdi, rsi
            shr   rdi, bits of a page
            push  rsi
            mov   rsi, marks of pages
            cmp   byte [rdi + rsi], CACHED
            pop   rsi
            jne   again
            (of a store: the same for its lines, which become dirty)
            (of a load, where some are noticed:)
            mov   rdi, rsi
            push  rax
            mov   rax, CheckedRow.noticed
            sub   rdi, [rax]
            cmp   rdi, [rax + 8]
            pop   rax
            jb    again
            (with a core model: the comparison of lines of ``accesses``, which may leave to again)
            jmp   behind

    again:  mov   rsi, address
            jmp   slow
    asked:  mov   rdi, ShadowRow.open
            cmp   dword [rdi], 0                ; a call of the allocator that has not returned
            je    again
            mov   rdi, marks - begin of RAM
            jmp   heeded
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import int64, layout, routine
from spe_unicorn.host.native.inline.shared import put
from spe_unicorn.host.native.inline.written import put_branch, put_jump, put_wide
from spe_unicorn.host.native.shadow.lines import CACHED
from spe_unicorn.host.native.shadow.marks import BAD, HEAP, OPEN_CALLS, UNWRITTEN, WRITTEN

_FOUR: Final = 0x0101_0101
_BAD: Final = _FOUR * BAD
_WRITTEN: Final = _FOUR * WRITTEN
"""Marks of four bytes."""
_LARGEST: Final = 8
_HALF: Final = 4
_PAGE_BITS: Final = 12
_LINE_BITS: Final = 6
LARGEST_RAM: Final = 1 << 31
BEFORE: Final = _LARGEST - 1
"""Bytes before a range at which a load that has bytes of it may begin."""


class CheckedRow:
    """What one engine's stubs and hooks share."""

    state: int
    """Address of the `State`."""
    stores: int
    """Address of the STORES."""
    begin: int
    """Where the host has RAM."""
    size: int
    """Its bytes, at most LARGEST_RAM."""
    looks: int
    """UNWRITTEN, HEAP, both or none."""
    marks: int
    """Where the marks of bytes are."""
    shadow: int
    """The SHADOW_ROW that follows an allocator; 0: none."""
    last: int
    """Where the host has what a stub has accessed last, 0 for none; and how many bytes."""
    last_size: int
    pages: int
    """Where the marks of pages are, a byte each; 0: lines are not followed."""
    lines: int
    """Where the marks of lines are, a byte each."""
    level: int
    """The Exception level of the block whose accesses are being replaced."""
    attention0: int
    """Not 0 where no stub knows which accesses are cacheable, by Exception level."""
    attention1: int
    attention2: int
    attention3: int
    own: int
    """Whether that block is of an allocator's function, to whose accesses the heap says nothing."""
    here: int
    """Its own address."""
    notices: int
    """Whether some loads are noticed by the hook for accesses."""
    noticed: int
    """Where the host has what such loads begin at, the first of it, and how many bytes; 0: none."""
    noticed_size: int


CHECKED: Final = layout(CheckedRow)
LAST: Final = 8 * CHECKED.names.index("last")
ATTENTION: Final = 8 * CHECKED.names.index("attention0")
_NOTICED: Final = 8 * CHECKED.names.index("noticed")
ASKED: Final = 10 + 3 + 6 + 10 + 5
"""Bytes of ``asked``."""


@routine
def _put_marks(at: int, code: int, value: int, size: int) -> int:
    """Write what ``code`` does with the marks of up to four bytes. Return the end.

    ``code`` is TEST or OR with a constant: the byte of the operation for one byte, and above it
    that of its operands, for marks at RDI + RSI.
    """
    if size == 1:
        return put(put(at, code, 3), value, 1)
    if size == 2:
        return put(put(put(at, 0x66, 1), code | 1, 3), value, 2)
    return put(put(at, code | 1, 3), value, 4)


@routine
def _put_second_half(at: int, code: int, value: int) -> int:
    """The same for the marks of bytes four to seven."""
    return put(put(put(at, code | 0x4001, 3), _HALF, 1), value, 4)


_TEST, _OR = 0x3704F6, 0x370C80


@routine
def _put_asked(at: int, row: CheckedRow, heeded: int, again: int) -> None:
    """Write ``asked``."""
    at = put_wide(at, 0xBF48, row.shadow + OPEN_CALLS)
    at = put_branch(put(at, 0x003F83, 3), 0x840F, again)
    put_jump(put_wide(at, 0xBF48, row.marks - row.begin), heeded)


@routine
def _put_looks(at: int, row: CheckedRow, looks: int, size: int, store: int, again: int) -> int:
    """Write the looks at the marks of bytes. Return the end."""
    at = put_wide(at, 0xBF48, row.marks - row.begin)
    if looks & HEAP:
        asked = again - ASKED
        at = put_branch(_put_marks(at, _TEST, _BAD, size), 0x850F, asked)
        if size == _LARGEST:
            at = put_branch(_put_second_half(at, _TEST, _BAD), 0x850F, asked)
        _put_asked(asked, row, at, again)
    if looks & UNWRITTEN and store:
        at = _put_marks(at, _OR, _WRITTEN, size)
        if size == _LARGEST:
            at = _put_second_half(at, _OR, _WRITTEN)
    elif looks & UNWRITTEN and size == _LARGEST:
        at = _put_marks(at, _TEST, _WRITTEN, size)
        at = put(at, 0x0E75, 2)  # jne, over the second half and its branch
        at = put_branch(_put_second_half(at, _TEST, _WRITTEN), 0x840F, again)
    elif looks & UNWRITTEN:
        at = put_branch(_put_marks(at, _TEST, _WRITTEN, size), 0x840F, again)
    at = put(put_wide(at, 0xBF48, row.here + LAST), 0x378948, 3)
    return put(put(at, 0x0847C7, 3), size, 4)


@routine
def _put_marked(at: int, row: CheckedRow, beyond: int, shift: int, table: int, code: int) -> int:
    """Write what ``code`` does with an access's byte in a table. Return the end.

    It is the byte of the one at RSI + ``beyond``; there is one byte for ``1 << shift``.
    """
    at = put_wide(at, 0xBF48, beyond - row.begin)
    at = put(put(put(at, 0xF70148, 3), 0xEFC148, 3), shift, 1)
    at = put(put_wide(put(at, 0x56, 1), 0xBE48, table), code, 4)
    return put(at, 0x5E, 1)


@routine
def _put_lines(at: int, row: CheckedRow, size: int, store: int, again: int) -> int:
    """Write the look at how the page is mapped; a store makes its lines dirty. Return the end."""
    at = put_wide(at, 0xBF48, row.here + ATTENTION + 8 * row.level)
    at = put_branch(put(at, 0x003F83, 3), 0x850F, again)
    at = _put_marked(at, row, int64(0), _PAGE_BITS, row.pages, 0x373C80 | CACHED << 24)
    at = put_branch(at, 0x850F, again)
    if store:
        at = _put_marked(at, row, int64(0), _LINE_BITS, row.lines, 0x013704C6)
        if size > 1:
            at = _put_marked(at, row, size - 1, _LINE_BITS, row.lines, 0x013704C6)
    return at


@routine
def _put_noticed(at: int, row: CheckedRow, again: int) -> int:
    """Write the look at whether the load at RSI is noticed. Return the end."""
    at = put_wide(put(put(at, 0xFE8B48, 3), 0x50, 1), 0xB848, row.here + _NOTICED)
    at = put(put(put(at, 0x382B48, 3), 0x08783B48, 4), 0x58, 1)
    return put_branch(at, 0x820F, again)


@routine
def put_checks(at: int, row: CheckedRow, size: int, store: int, again: int) -> int:
    """Write the looks at shadows for an access, which leave to ``again``. Return the end.

    Of an access of the allocator itself there is nothing to be said where only a heap is looked at.
    """
    looks = row.looks & ~HEAP if row.own != 0 else row.looks
    if row.pages != 0 or looks != 0:
        at = put(put_wide(at, 0xBF48, -row.begin), 0xF70148, 3)
        at = put(put(at, 0xFF8148, 3), row.size - _LARGEST, 4)
        at = put_branch(at, 0x870F, again)
    if row.pages != 0:
        at = _put_lines(at, row, size, store, again)
    if row.notices != 0 and store == 0:
        at = _put_noticed(at, row, again)
    if looks != 0:
        at = _put_looks(at, row, looks, size, store, again)
    return at
