"""Loads and stores whose stubs compare their line, for a core model.

While there is a hook for accesses, the engine has each load and store take its slow way, which
calls the hook. Even so, the engine writes the code of the fast way, and jumps past it::

            cmp   [rdi + TAG], rsi  ; whether the engine's TLB has the page
            mov   rsi, address      ; of the guest, in whatever register that is
            jmp   slow
    fast:   add   rsi, [rdi + 32]   ; where the host has it
    behind: (the access)

    slow:   mov   rdi, rbp
            mov   edx, data         ; of a store, unless it is there
            mov   edx, what         ; of a store ECX: size, order of bytes, kind of translation
            lea   rcx, [end]        ; of a store R8: where the block goes on

Once a block has run twice, ``jmp slow`` is made to go to a stub::

            jne   slow
            add   rsi, [rdi + 32]
            mov   rax, &State.line  ; State.line_stored for a store, where caches are coherent
            mov   rdi, rsi
            sub   rdi, [rax]
            cmp   rdi, bytes of a line - size
            ja    other
            mov   rax, the model's counts
            inc   qword [rax]       ; pages that were looked up
            inc   qword [rax + 24]  ; lines that were touched
            jmp   behind
    other:  call  recent            ; for this size, load or store
            je    behind            ; the model knows the access
            mov   rsi, address
            jmp   slow

RAX, RCX and RDX are free there unless the address or the data are in one of them. Few stubs have
that. They keep RAX, and do as stubs do where there is no ``recent``::

    other:  push  size, store
            call  common            ; calls State.access_hook; zero flag: the model knows the access
            lea   rsp, [rsp + 8]
            je    behind

Before that, a store whose page the engine's TLB does not have goes to ``unknown``::

    unknown: push  size
            call  common            ; calls State.store_hook; zero flag: now the TLB has it
            lea   rsp, [rsp + 8]
            je    known             ; the instruction after ``jne``
            jmp   slow

An access to the same line as the access before it changes only two counts in the model. For
another line ``recent`` does little more where line and page are recent ones. Else it goes on to
``common``, which calls ``State.access_hook``. That may leave the access to the slow way, and so to
the hook for accesses. The hook for accesses also gets every access without a stub. After an access
the engine uses only the registers of its data, those of the slow way, and those that calls keep.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Pointer, array_at, int64, pointer_to, record_at, routine
from spe_unicorn.cores.caches import LINE_SHIFT, LINES, PAGES, UNBOUNDED
from spe_unicorn.host.engine.builds import code_numbers
from spe_unicorn.host.native.cover import counts_itself_from_now
from spe_unicorn.host.native.inline.checked import ASKED, CHECKED, put_checks
from spe_unicorn.host.native.inline.engine_code import cpu_by, is_known_check, registers_by
from spe_unicorn.host.native.inline.recent import SIZES, knows_recent, put_recent, recent_for
from spe_unicorn.host.native.inline.replacing import (
    DONE,
    NOT_YET,
    find_call,
    replace_checks,
    replaced,
    site_of,
    written_anew,
)
from spe_unicorn.host.native.inline.shared import INLINE, SITES, InlineRecord, near, number_at, put
from spe_unicorn.host.native.inline.written import STUB, put_branch, put_jump, put_wide
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.whole import offset_of

STORE: Final = 1 << 8
"""``State.access_hook`` is given the size of an access in bytes, and this bit if it stores."""
ACCESS_STUB: Final = 416
"""Bytes of the stub of an access, at most."""
_LINE: Final = offset_of("line")
_LINE_STORED: Final = offset_of("line_stored")
_CALLED: Final = 15
"""Bytes of a call of ``common``."""
_UNKNOWN: Final = 112
"""Where in the stub of a store ``unknown`` begins."""
_FORM: Final = code_numbers()
_LOAD_COMPARE, _LOAD_BYTES = _FORM.load_compare.number, len(_FORM.load_compare)
_STORE_COMPARE, _STORE_BYTES = _FORM.store_compare.number, len(_FORM.store_compare)
_ADD_PLACE, _SLOW_WAY = _FORM.add_place.number, _FORM.slow_way.number
_LOAD_WHAT, _LOAD_END = _FORM.load_what, _FORM.load_end.number
_STORE_WHAT, _STORE_END = _FORM.store_what, _FORM.store_end.number
_SIZE: Final = _FORM.size_lsb
_LARGEST: Final = 8
"""Bytes of the largest access that the engine makes at once."""
_NONE: Final = 0
_ACCESSES_REPLACED: Final = 2
"""The runs of a site whose accesses have been replaced. Then its call of the hook is replaced."""
_BLOCK_LSB: Final = 50
_BLOCK: Final = (1 << 13) - 1
"""Bits of a block's address and size in its site, above the address that its call returns to."""


@routine
def _compares(at: int) -> int:
    """Bytes of the comparison with the engine's TLB at an address; 0 if none stands there."""
    if number_at(at, _LOAD_BYTES) == _LOAD_COMPARE:
        return _LOAD_BYTES
    return _STORE_BYTES if number_at(at, _STORE_BYTES) == _STORE_COMPARE else 0


@routine
def slow_begin(at: int, end: int) -> int:
    """Begin of the slow way of the access whose comparison is at ``at``; 0 if there is none."""
    move = at + _compares(at)
    if move == at or move + 12 > end:
        return _NONE
    if number_at(move, 2) & 0xFFFE != 0x8B48 or number_at(move + 2, 1) & 0xF8 != 0xF0:
        return _NONE
    if number_at(move + 3, 1) != 0xE9 or number_at(move + 8, 4) != _ADD_PLACE:
        return _NONE
    slow = move + 8 + near(number_at(move + 4, 4))
    return slow if move + 12 <= slow < end else _NONE


@routine
def _data_moved(slow: int) -> int:
    """Last byte of ``mov edx, data`` in the slow way of a store; 0 if the data are there."""
    at = slow + 3
    if number_at(at, 1) & 0xF0 == 0x40:
        at += 1
    return at + 1 if number_at(at, 1) == 0x8B and number_at(at + 1, 1) & 0xF8 == 0xD0 else 0


@routine
def described(slow: int, store: int, end: int) -> tuple[int, int]:
    """Size of an access by its slow way, and where the block goes on; 0, 0 if unknown."""
    at = slow + 3
    if number_at(slow, 3) != _SLOW_WAY:
        return _NONE, _NONE
    moved = _data_moved(slow) if store else 0
    if moved != 0:
        at = moved + 1
    what, load = (_STORE_WHAT, _STORE_END) if store else (_LOAD_WHAT, _LOAD_END)
    if at + 12 > end or number_at(at, 1) != what or number_at(at + 5, 3) != load:
        return _NONE, _NONE
    return 1 << (number_at(at + 1, 4) >> _SIZE & 3), at + 12 + near(number_at(at + 8, 4))


@routine
def put_common(state: StateRecord, at: int, hook: int) -> int:
    """Write ``common``, which keeps all registers. Return its end.

    ::

            push  rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, r11
            mov   rdx, rsi          ; an address
            mov   rsi, rdi          ; for ``unknown`` where the engine's TLB should have it
            mov   rdi, State.model
            mov   ecx, [rsp + 88]   ; size, store
            mov   rax, hook
            call  rax
            test  rax, rax
            pop   r11, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
            ret
    """
    at = put(put(put(at, 0x5756525150, 5), 0x5341524151415041, 8), 0x5341, 2)
    at = put(put(at, 0xD68B48, 3), 0xF78B48, 3)
    at = put_wide(at, 0xBF48, state.model)
    at = put(at, 0x58244C8B, 4)
    at = put_wide(at, 0xB848, hook)
    at = put(put(at, 0xD0FF, 2), 0xC08548, 3)
    at = put(put(at, 0x5B41, 2), 0x584159415A415B41, 8)
    return put(put(at, 0x58595A5E5F, 5), 0xC3, 1)


@routine
def _put_call(at: int, what: int, common: int) -> int:
    """Write a call of ``common`` for an access. Return its end."""
    at = put(put(at, 0x68, 1), what, 4)
    at = put(put(at, 0xE8, 1), common - at - 5, 4)
    return put(at, 0x0824648D48, 5)


@routine
def _are_free(move: int, slow: int, store: int) -> bool:
    """Whether no input of an access is in RAX, RCX or RDX."""
    if number_at(move, 1) == 0x48 and number_at(move + 2, 1) & 7 <= 2:
        return False  # the address: mov rsi, rax
    if not store:
        return True
    moved = _data_moved(slow)
    if moved == 0:
        return False  # the data: they are in RDX
    return number_at(slow + 3, 1) & 0xF1 == 0x41 or number_at(moved, 1) & 7 > 2


@routine
def _put_line(
    inline: InlineRecord,
    state: StateRecord,
    at: int,
    move: int,
    slow: int,
    size: int,
    store: int,
) -> int:
    """Write the comparison of lines, from the load of RAX to ``je behind``. Return the end."""
    own = array_at(pointer_to(state.data_side), (UNBOUNDED,), np.int64)
    what = size | (STORE if store else 0)
    recent, behind, free = inline.recent, move + 12, _are_free(move, slow, store)
    if not free:
        at = put(at, 0x50, 1)
    line = _LINE_STORED if store and recent == 0 else _LINE
    at = put(put_wide(at, 0xB848, inline.state + line), 0xFE8B48, 3)
    at = put(put(at, 0x382B48, 3), 0xFF8148, 3)
    at = put(at, (1 << own[LINE_SHIFT]) - size, 4)
    other = at + 6 + 10 + 3 + 4 + 5 + int64(not free)
    at = put_branch(at, 0x870F, other)
    at = put_wide(at, 0xB848, state.data_side + 8 * PAGES)
    at = put(put(at, 0x00FF48, 3), 0x40FF48 | 8 * (LINES - PAGES) << 24, 4)
    if not free:
        at = put(at, 0x58, 1)
    at = put_jump(at, behind)
    if not free:
        at = put(at, 0x58, 1)
    if free and recent != 0:
        at = put(put(at, 0xE8, 1), recent_for(recent, what) - at - 5, 4)
    else:
        at = _put_call(at, what, inline.common)
    return put_branch(at, 0x840F, behind)


@routine
def put_access(
    inline: InlineRecord, state: StateRecord, move: int, slow: int, size: int, store: int
) -> None:
    """Write the stub of the access that loads RSI at ``move``. Have its jump go to the stub."""
    stub = inline.free
    at = put_branch(stub, 0x850F, stub + _UNKNOWN if store else slow)
    at = _put_line(inline, state, put(at, _ADD_PLACE, 4), move, slow, size, store)
    at = put_jump(put(at, number_at(move, 3), 3), slow)
    if store:
        at = _put_call(stub + _UNKNOWN, size, inline.common_store)
        at = put_jump(put_branch(at, 0x840F, stub + 6), slow)
    inline.free = at
    put_jump(move + 3, stub)


@routine
def _put_checked(
    inline: InlineRecord, state: StateRecord, move: int, slow: int, size: int, store: int
) -> None:
    """The same, with a stub that looks at shadows of RAM (``checked``), and then at the line."""
    row = record_at(pointer_to(state.checked), CHECKED)
    again = inline.free + ASKED
    at = known = put_jump(put(again, number_at(move, 3), 3), slow)
    unknown = slow
    if store:
        known = at + _CALLED + 6 + 5
        unknown = at
        at = put_branch(_put_call(at, size, inline.common_store), 0x840F, known + 6)
        at = put_jump(at, slow)
    at = put(put_branch(known, 0x850F, unknown), _ADD_PLACE, 4)
    at = put_checks(at, row, size, store, again)
    if state.data_side != 0:
        at = _put_line(inline, state, at, move, slow, size, store)
    inline.free = put_jump(at, again if state.data_side != 0 else move + 12)
    put_jump(move + 3, known)


@routine
def replace_accesses(inline: InlineRecord, state: StateRecord, at: int, end: int) -> None:
    """Write stubs for the accesses from ``at`` to ``end`` while there is room."""
    if state.data_side != 0:
        own = array_at(pointer_to(state.data_side), (UNBOUNDED,), np.int64)
        if 1 << own[LINE_SHIFT] < _LARGEST:
            return
    while at < end and inline.free + ACCESS_STUB <= inline.end:
        slow = slow_begin(at, end)
        if slow != 0:
            length = _compares(at)
            size, goes_on = described(slow, length == _STORE_BYTES, end)
            move = at + length
            if move + 12 < goes_on <= end:
                if state.checked != 0:
                    _put_checked(inline, state, move, slow, size, length == _STORE_BYTES)
                else:
                    put_access(inline, state, move, slow, size, length == _STORE_BYTES)
                at = move + 11
        at += 1


@routine
def _put_recents(inline: InlineRecord, state: StateRecord, memory: int) -> None:
    """Write ``recent`` for each kind of access."""
    inline.recent = inline.free
    for store in (0, STORE):
        for bits in range(SIZES):
            what = 1 << bits | store
            at = recent_for(inline.recent, what)
            inline.free = put_recent(at, state.data_side, memory, what, inline.common)


@routine
def _replace(
    inline: InlineRecord, state: StateRecord, memory: int, address: int, size: int, back: int
) -> bool:
    """Replace the accesses of a block, and the checks after them; whether its code is known."""
    inline.address = address
    inline.size = size
    known = find_call(inline, back) != 0 and inline.code_end != 0
    if not known or not is_known_check(inline.check, inline.engine, address):
        inline.refused += 1
        return False
    inline.patched += 1
    inline.cpu = cpu_by(inline.check, inline.engine)
    inline.registers = registers_by(inline.check, inline.engine)
    replace_checks(inline)
    if inline.common == 0:
        inline.common = inline.free
        inline.common_store = put_common(state, inline.common, state.access_hook)
        inline.free = put_common(state, inline.common_store, state.store_hook)
        inline.recent = 0
        if state.data_side != 0 and knows_recent(state.data_side, memory):
            _put_recents(inline, state, memory)
    replace_accesses(inline, state, inline.after, inline.code_end)
    return True


@routine
def _site(address: int, size: int, back: int) -> int:
    """What the table of sites holds of a block that has run once.

    Where the engine has dropped all code by itself, other code may call from there.
    """
    return ((address >> 2 ^ size) & _BLOCK) << _BLOCK_LSB | back << 2


@routine
def have_accesses_noted(
    state: StateRecord, memory: int, address: int, size: int, back: int
) -> bool:
    """The code of a block called the hook and will go on at ``back``: replace what is to be.

    ``memory`` is the address of a PLACE in which most accesses are, and that no other PE has in its
    caches; 0 for none. Whether that code was never seen before.
    """
    inline = record_at(pointer_to(state.inline), INLINE)
    sites = array_at(pointer_to(inline.sites), (SITES,), np.int64)
    n = site_of(back)
    site = sites[n]
    called_once = _site(address, size, back)
    if site & ~DONE == called_once and site & _ACCESSES_REPLACED != 0:
        return False
    if site != called_once:
        sites[n] = called_once
        return True
    if inline.free == 0:
        inline.place = back
    elif inline.free + STUB <= inline.end:
        sites[n] = called_once | (
            _ACCESSES_REPLACED if _replace(inline, state, memory, address, size, back) else DONE
        )
    return False


@routine
def counts_itself(state: StateRecord, engine: Pointer, address: int, size: int, back: int) -> int:
    """The hook has counted a block whose call returns to ``back``: replace the call if that is due.

    Return the address to which it is to return instead, 0 for none.
    """
    inline = record_at(pointer_to(state.inline), INLINE)
    if written_anew(state, inline, address, size, back):
        return 0
    if state.cover_keeps != 0:
        return 0
    sites = array_at(pointer_to(inline.sites), (SITES,), np.int64)
    n = site_of(back)
    if sites[n] != _site(address, size, back) | _ACCESSES_REPLACED:
        return 0
    to = replaced(state, inline, engine, address, size, back)
    if to == NOT_YET:
        return 0
    sites[n] |= DONE
    if to > 0:
        counts_itself_from_now(state, address)
    return max(to, 0)
