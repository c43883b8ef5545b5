"""Replacing the engine's call of the block hook, when a block has run twice.

``engine_code`` knows the code that is expected, ``written`` makes the code that replaces it. If a
run counts other things than a replaced block does, the block calls the hook from its stub. After
the second such call the block is written anew, for what is counted now.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Pointer, array_at, entry, int64, pointer_to, record_at, routine
from spe_unicorn.host.engine.near_memory import REACH
from spe_unicorn.host.native.blocks_hook import marks_here
from spe_unicorn.host.native.cover import counts_itself_from_now
from spe_unicorn.host.native.flow import BRANCHES, MAY_BRANCH, NOWHERE, end_of
from spe_unicorn.host.native.inline.engine_code import (
    call_begin,
    call_length,
    called,
    calls_through_code,
    check_call,
    code_end,
    is_known_check,
)
from spe_unicorn.host.native.inline.lookup import LOOKUP, looks_up, replace_lookup
from spe_unicorn.host.native.inline.shared import INLINE, SITES, InlineRecord, counts, number_at
from spe_unicorn.host.native.inline.told import is_told, word_of
from spe_unicorn.host.native.inline.written import (
    KEPT,
    KEPT_WORDS,
    STUB,
    inline_length,
    put_check,
    put_counting,
    put_exit,
    put_inline,
    put_jump,
    put_nothing,
    put_stub,
)
from spe_unicorn.host.native.state.block_table import BLOCKS, ROW, slot_of
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.whole import LAYOUT

_RUNS: Final = 2
"""Runs of a block, as a site counts them, after which it is replaced."""
DONE: Final = 3
"""The runs of a site at which nothing is to be done any more."""
NOT_YET, SEEN = -1, -2
"""Of a block whose call is not replaced: it may be later, or a run may have to see it."""
STUBS: Final = 16 << 20
"""Bytes of memory for stubs."""


@routine
def site_of(back: int) -> int:
    """The place of a call that returns to ``back`` in the table of sites."""
    return (back >> 3 ^ back >> 19) & SITES - 1


@routine
def find_call(inline: InlineRecord, back: int) -> int:
    """Find the call of the hook that returns to ``back``, and the engine's check after it.

    Set ``check``, ``after`` and ``code_end``. Return the address at which the call begins, 0 if the
    code is not what is expected.
    """
    begin = call_begin(back, inline.engine, inline.state, inline.address, inline.size)
    check = check_call(back, inline.engine)
    if begin == 0 or check == 0:
        return 0
    inline.check = called(check)
    inline.after = check + call_length(check)
    inline.code_end = code_end(begin)
    return begin


@routine
def replace(inline: InlineRecord, back: int) -> int:
    """Replace the call of the hook that returns to ``back``.

    Return the address to which this call is to return now, 0 if nothing was replaced.
    """
    begin = find_call(inline, back)
    if begin == 0:
        return 0
    to = write(inline, begin)
    if to != 0 and is_known_check(inline.check, inline.engine, inline.address):
        replace_checks(inline)
    return to


@routine
def replace_checks(inline: InlineRecord) -> None:
    """Replace the calls of the check after accesses, up to the end of the block's code.

    So are those of the lookup of indirect branches.
    """
    at = inline.after
    while at < inline.code_end and inline.free + LOOKUP <= inline.end:
        first = number_at(at, 1)
        if first == 0x48 and inline.lookup != 0 and looks_up(at, inline.lookup):
            at = replace_lookup(inline, at)
        elif first == 0x48 or first == 0xBF:
            call = check_call(at, inline.engine)
            if call != 0 and calls_through_code(call, inline.code_end):
                after = call + call_length(call)
                if called(call) == inline.check:
                    put_check(at, inline.free, after)
                    inline.free = put_exit(inline, inline.free, after)
                    at = after - 1
        at += 1


@routine
def write(inline: InlineRecord, begin: int) -> int:
    """Have the block that begins at ``begin`` count itself.

    Return ``first`` of its stub, 0 if the stub is out of reach.
    """
    stub = inline.free
    if abs(stub - begin) >= REACH - STUBS:
        return 0
    end = put_stub(inline, stub, begin)
    length = inline_length(inline)
    room = inline.after - begin - length
    if length == 0 or room < 0:
        end = put_counting(inline, end)
        put_jump(begin, inline.count)
    else:
        put_nothing(put_inline(inline, begin), inline.after)
    inline.free = end
    return inline.first


@routine
def _describe(
    state: StateRecord, inline: InlineRecord, address: int, size: int, number: int
) -> bool:
    """Set what the block at ``address`` is to count. Return False if that is not known."""
    inline.address = address
    inline.size = size
    inline.number = number
    inline.ending = state.ending
    inline.mispredicted = state.mispredicted
    inline.row = inline.weight = inline.flow_next = 0
    inline.tells = int64(is_told(inline.told, address))
    if inline.tells != 0:
        inline.telling = word_of(inline.told, address)
    if state.flow_hook != 0:
        end = end_of(state, inline.engine, address + size)
        inline.flow_next = NOWHERE if end == BRANCHES else address + size
    if number == 0:
        return True
    slot = slot_of(address, size >> 2)
    if array_at(pointer_to(state.block_keys), (BLOCKS,), np.int64)[slot] != address ^ size >> 2:
        return False
    if number & 1:
        inline.weight = array_at(pointer_to(state.weights), (BLOCKS,), np.int64)[slot]
    if state.tally != 0:
        inline.row = state.tallies + slot * (ROW * 8)
    return True


@routine
def _written_anew(
    state: StateRecord, inline: InlineRecord, address: int, size: int, first: int
) -> None:
    """The stub with ``first`` has called the hook: write its block anew if that is due."""
    kept = array_at(pointer_to(first + KEPT), (KEPT_WORDS,), np.int64)
    number = counts(state.tally, state.weigh)
    if kept[3] == number:
        return
    if kept[4] != number:
        kept[4] = number
    elif inline.free + STUB <= inline.end and _describe(state, inline, address, size, number):
        inline.after = kept[1]
        inline.check = kept[2]
        write(inline, kept[0])
        inline.anew += 1


@routine
def written_anew(
    state: StateRecord, inline: InlineRecord, address: int, size: int, back: int
) -> bool:
    """Whether the hook was called by a stub. If so, its block is written anew if that is due."""
    if inline.begin <= back < inline.end:
        _written_anew(state, inline, address, size, back)
        return True
    return False


@routine
def replaced(
    state: StateRecord, inline: InlineRecord, engine: Pointer, address: int, size: int, back: int
) -> int:
    """Replace the call of the hook that returns to ``back``, if no hook has to see the block.

    Return the address to which the call is to return now, 0 if the code is not what is expected,
    NOT_YET if the block may be replaced later, SEEN if a run may have to see it.
    """
    if inline.free + STUB > inline.end or address & 3 != 0:
        return NOT_YET
    marks = marks_here(state, engine, address, size >> 2)
    if marks < 0:
        return NOT_YET  # it is not yet known what is in it
    if marks & inline.seen != 0:
        return SEEN
    if state.flow_hook != 0 and end_of(state, inline.engine, address + size) == MAY_BRANCH:
        return SEEN  # the next block has to ask whether it branched
    if not _describe(state, inline, address, size, counts(state.tally, state.weigh)):
        return NOT_YET
    return replace(inline, back)


@entry("int64", "pointer", "int64", "int64", "pointer", "int64")
def on_counted_block(engine: Pointer, address: int, size: int, user: Pointer, back: int) -> int:
    """The hook has counted a block by a call that returns to ``back``: replace it if that is due.

    Return the address to which the call is to return instead, 0 for none.
    """
    state = record_at(user, LAYOUT)
    inline = record_at(pointer_to(state.inline), INLINE)
    if written_anew(state, inline, address, size, back):
        return 0
    if state.cover_keeps != 0:
        return 0
    sites = array_at(pointer_to(inline.sites), (SITES,), np.int64)
    n = site_of(back)
    site = sites[n]
    if site >> 2 != back:
        sites[n] = back << 2
        return 0
    runs = site & 3
    if runs == DONE:
        return 0
    if runs + 1 < _RUNS:
        sites[n] = site + 1
        return 0
    if inline.free == 0:
        inline.place = back
        return 0
    to = replaced(state, inline, engine, address, size, back)
    if to == NOT_YET:
        return 0
    sites[n] = back << 2 | DONE
    if to == SEEN:
        return 0
    if to == 0:
        inline.refused += 1
    else:
        inline.patched += 1
        counts_itself_from_now(state, address)
    return to
