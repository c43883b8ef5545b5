"""The code that the layer writes: blocks that count themselves, and their stubs.

A block that counts itself, with the centre of the hot fields of the state in RCX::

    mov   rcx, centre
    cmp   dword [rcx + attend], number
    jne   entry                     ; the hook has to be asked, or something else is to be counted
    sub   qword [rcx + budget], operations
    js    back                      ; the block does not fit into the budget
    mov   qword [rcx + block], address
    mov   dword [rcx + block_operations], operations
    add   dword [rcx + tallied], events     ; for each lane that the block moves

If this code finds no room, or members are weighed, or ways of branches are counted, the block has a
jump to ``count`` instead. That is in the stub, which lies within reach of the engine's code::

    members_back:                   ; where members are weighed
            add   qword [rcx + members], weight
    back:   add   qword [rcx + budget], operations
    entry:  call  hook(engine, address, size, state)
    first:  call  check(engine, 0)  ; the engine's own, as it stood after the call of the hook
            jmp   after             ; after the replaced bytes
            (the words at KEPT)
    count:  mov   rcx, centre
            cmp   dword [rcx + attend], number
            jne   entry
            ...                     ; the branch before the block, with a core model
            sub   qword [rcx + budget], operations
            js    back
            sub   qword [rcx + members], weight
            js    members_back
            mov   qword [rcx + block], address
            mov   dword [rcx + block_operations], operations
            add   dword [rcx + tallied], events
            ...                     ; the ways of branches, if they are counted
            ...                     ; the last branch, if it is kept
            ...                     ; the branch at its end, with a core model
            ...                     ; a call of ``on_told``, of blocks that tell
            jmp   after

After a load or a store::

            cmp   dword [rbp + ASKED], 0
            js    exit

    exit:   call  check(engine, 0)  ; with the return address of the engine's own call

All registers that this code uses are free where a function is called. A block that counts itself
leaves out the check of whether the engine has been asked to leave: whoever asks sets
``State.attend`` to -1
(:func:`~spe_unicorn.host.native.calls.stop_engine`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Words, array_at, pointer_to, routine
from spe_unicorn.cores.predictor import BRANCH
from spe_unicorn.host.native.inline.engine_code import ASKED
from spe_unicorn.host.native.inline.shared import InlineRecord, near, put
from spe_unicorn.host.native.state.block_table import LANES, ROW
from spe_unicorn.host.native.state.whole import offset_of

STUB: Final = 512
"""Bytes of the largest stub, and more."""
EXIT: Final = 35
"""Bytes of ``exit``."""
KEPT: Final = 29
"""Bytes from ``first`` to the words that a stub keeps."""
KEPT_WORDS: Final = 5
"""The words: where the block begins, where it goes on, the engine's check, what the block counts
(``counts``), and what the run counted when the block called the hook last."""
CENTRE: Final = offset_of("block")
"""What RCX points to in the state, so that the hot fields are within a signed byte of it."""


def _distance(field: str) -> int:
    return offset_of(field) - CENTRE & 0xFF


_BUDGET, _BLOCK, _OPERATIONS, _ATTEND, _MEMBERS, _TALLIED, _JUMPS, _FALLS_TO, _ENDING = map(
    _distance,
    (
        "budget",
        "block",
        "block_operations",
        "attend",
        "members",
        "tallied0",
        "jumps",
        "falls_to",
        "ending",
    ),
)
_FLOW_NEXT, _FLOW_TARGET, _FLOW_NOW, _FLOW = (
    offset_of(field) - CENTRE for field in ("flow_next", "flow_target", "flow_now", "flow")
)
_BRANCH_WORDS: Final = BRANCH.itemsize // 8
_MISPREDICTED_BYTES: Final = 3 + 6 + 4 + 8 + 10 + 10 + 3 + 10 + 2 + 10
"""The code in ``_put_resolving`` where there are wrong paths."""
_LARGEST_BYTE: Final = 0x7F
_LANE_BYTES: Final = 4
ADD, SUBTRACT = 0x41, 0x69
_NOTHING: Final = (
    0,
    0x90,
    0x9066,
    0x001F0F,
    0x401F0F,
    0x441F0F,
    0x441F0F66,
    0x801F0F,
    0x841F0F,
)
"""Instructions that do nothing, by their length."""
_LONGEST_NOTHING: Final = len(_NOTHING) - 1
"""Bytes of the longest of them."""
_MOST_NOTHING: Final = 2 * _LONGEST_NOTHING


@routine
def put_wide(at: int, code: int, value: int) -> int:
    """Write ``code``, two bytes that load a register, and the 64 bits to load. Return the end."""
    return put(put(at, code, 2), value, 8)


@routine
def put_jump(at: int, to: int) -> int:
    """Write a jump. Return its end."""
    return put(put(at, 0xE9, 1), to - at - 5, 4)


@routine
def put_nothing(at: int, end: int) -> int:
    """Write instructions that do nothing up to ``end``. Return ``end``.

    One or two instructions that do nothing are faster than a jump, a jump than many of them.
    """
    room = end - at
    if room > _MOST_NOTHING:
        return put(put(at, 0xE9, 1), room - 5, 4) + room - 5
    while room > 0:
        length = min(room, _LONGEST_NOTHING)
        at = put(at, _NOTHING[length], length)
        room -= length
    return at


@routine
def put_branch(at: int, code: int, to: int) -> int:
    """Write a jump with a condition. Return its end."""
    return put(put(at, code, 2), to - at - 6, 4)


@routine
def _put_count(at: int, kind: int, field: int, by: int) -> int:
    """Write an addition to a hot field (kind ADD) or a subtraction from it (SUBTRACT)."""
    if by <= _LARGEST_BYTE:
        return put(put(at, 0x8348 | kind << 16 | field << 24, 4), by, 1)
    return put(put(at, 0x8148 | kind << 16 | field << 24, 4), by, 4)


@routine
def _put_compared(at: int, number: int) -> int:
    """Write the comparison of ``attend`` with a number."""
    if number <= _LARGEST_BYTE:
        return put(at, 0x7983 | _ATTEND << 16 | number << 24, 4)
    return put(put(at, 0x7981 | _ATTEND << 16, 3), number, 4)


@routine
def _put_block(at: int, address: int, operations: int) -> int:
    """Write the stores that note which block runs."""
    if address == near(address):
        at = put(put(at, 0x41C748 | _BLOCK << 24, 4), address, 4)
    elif address >> 32 == 0:
        at = put(put(at, 0xBE, 1), address, 4)
        at = put(at, 0x718948 | _BLOCK << 24, 4)
    else:
        at = put_wide(at, 0xBE48, address)
        at = put(at, 0x718948 | _BLOCK << 24, 4)
    return put(put(at, 0x41C7 | _OPERATIONS << 16, 3), operations, 4)


@routine
def _lane(row: Words, n: int) -> int:
    """How much a block's row adds to a lane."""
    return row[n >> 1] >> 32 * (n & 1) & 0xFFFF_FFFF


@routine
def _put_lanes(inline: InlineRecord, at: int) -> int:
    """Write the additions of the events in a block's row, if it has one."""
    if inline.row == 0:
        return at
    row = array_at(pointer_to(inline.row), (ROW,), np.int64)
    for n in range(LANES):
        lane = _lane(row, n)
        if lane > _LARGEST_BYTE:
            at = put(put(at, 0x4181 | _TALLIED + _LANE_BYTES * n << 16, 3), lane, 4)
        elif lane > 0:
            at = put(put(at, 0x4183 | _TALLIED + _LANE_BYTES * n << 16, 3), lane, 1)
    return at


@routine
def _lanes_length(inline: InlineRecord) -> int:
    """Bytes of the code that :func:`_put_lanes` writes."""
    if inline.row == 0:
        return 0
    row = array_at(pointer_to(inline.row), (ROW,), np.int64)
    length = 0
    for n in range(LANES):
        lane = _lane(row, n)
        if lane > 0:
            length += 7 if lane > _LARGEST_BYTE else 4
    return length


@routine
def _put_ways(at: int, address: int, following: int) -> int:
    """Write the code that counts which way the branch before the block went.

    It also notes what follows a branch at the end of the block, 0 for none.

    ::

            mov   rax, [rcx + falls_to]
            test  rax, rax
            je    over
            mov   rsi, address
            cmp   rax, rsi
            je    over
            inc   qword [rcx + jumps]
      over: mov   qword [rcx + falls_to], following
    """
    at = put(at, 0x418B48 | _FALLS_TO << 24, 4)
    at = put(at, 0xC08548, 3)
    at = put(at, 0x1374, 2)
    at = put_wide(at, 0xBE48, address)
    at = put(at, 0xF03948, 3)
    at = put(at, 0x0474, 2)
    at = put(at, 0x41FF48 | _JUMPS << 24, 4)
    if following == 0:
        return put(put(at, 0x41C748 | _FALLS_TO << 24, 4), 0, 4)
    at = put_wide(at, 0xBE48, following)
    return put(at, 0x718948 | _FALLS_TO << 24, 4)


@routine
def _put_far(at: int, code: int, field: int) -> int:
    """Write ``code``, three bytes that move a field by a wide distance from RCX. Return the end."""
    return put(put(at, code, 3), field, 4)


@routine
def _put_flow(inline: InlineRecord, at: int) -> int:
    """Write the code that keeps where the last branch went, as ``flow.on_flow`` does.

    ::

            mov   rsi, address
            cmp   rsi, [rcx + flow_next]
            je    over
            mov   [rcx + flow_target], rsi
            mov   rax, [rcx + flow_now]
            mov   [rcx + flow], rax
      over: mov   rax, flow_next of the block
            mov   [rcx + flow_next], rax
    """
    at = put_wide(at, 0xBE48, inline.address)
    at = _put_far(at, 0xB13B48, _FLOW_NEXT)
    at = put(at, 0x1574, 2)
    at = _put_far(at, 0xB18948, _FLOW_TARGET)
    at = _put_far(at, 0x818B48, _FLOW_NOW)
    at = _put_far(at, 0x818948, _FLOW)
    at = put_wide(at, 0xB848, inline.flow_next)
    return _put_far(at, 0x818948, _FLOW_NEXT)


@routine
def _put_mispredicted(inline: InlineRecord, at: int) -> int:
    """Write the code that tells the core model of a misprediction, of whatever RAX says.

    ::

            mov   rsi, [rcx + ending]
            mov   qword [rcx + ending], 0
            mov   rdi, State.model
            mov   rdx, address
            mov   rcx, rax
            mov   rax, State.mispredicted
            call  rax
            mov   rcx, centre
    """
    at = put(at, 0x718B48 | _ENDING << 24, 4)
    at = _put_no_ending(at)
    at = put_wide(at, 0xBF48, inline.model)
    at = put_wide(at, 0xBA48, inline.address)
    at = put(at, 0xC18948, 3)
    at = put_wide(at, 0xB848, inline.mispredicted)
    return put_wide(put(at, 0xD0FF, 2), 0xB948, inline.state + CENTRE)


@routine
def _put_resolving(inline: InlineRecord, at: int) -> int:
    """Write the code that has the branch predictor learn where the branch before the block went.

    The core model is told only where it has wrong paths, and of a misprediction.

    ::

            mov   rsi, [rcx + ending]
            test  rsi, rsi
            je    over
            mov   rdi, predictor
            mov   rdx, address
            mov   rax, cores.predictor.resolve_at
            call  rax
            mov   rcx, centre
            test  rax, rax
            je    over
            ...                     ; `_put_mispredicted`
      over:
    """
    at = put(at, 0x718B48 | _ENDING << 24, 4)
    at = put(at, 0xF68548, 3)
    over = at + 6 + 3 * 10 + 2 + 10
    if inline.mispredicted != 0:
        over += _MISPREDICTED_BYTES
    at = put_branch(at, 0x840F, over)
    at = put_wide(at, 0xBF48, inline.predictor)
    at = put_wide(at, 0xBA48, inline.address)
    at = put_wide(at, 0xB848, inline.resolve_at)
    at = put_wide(put(at, 0xD0FF, 2), 0xB948, inline.state + CENTRE)
    if inline.mispredicted != 0:
        at = put_branch(put(at, 0xC08548, 3), 0x840F, over)
        at = _put_mispredicted(inline, at)
    return at


@routine
def _put_no_ending(at: int) -> int:
    """Write the store that notes that no branch ends the block. Return its end."""
    return put(put(at, 0x41C748 | _ENDING << 24, 4), 0, 4)


@routine
def _put_ending(at: int, branch: int) -> int:
    """Write the code that notes the BRANCH at the address ``branch``, which ends the block.

    It is 0 for none.

    ::

            lea   rax, [branch]
            mov   [rcx + ending], rax
    """
    if branch == 0:
        return _put_no_ending(at)
    at = put(put(at, 0x058D48, 3), branch - at - 7, 4)
    return put(at, 0x418948 | _ENDING << 24, 4)


@routine
def _put_telling(inline: InlineRecord, at: int) -> int:
    """Write the call of ``on_told``. It keeps no register. Return its end."""
    at = put_wide(at, 0xBF48, inline.told_user)
    at = put_wide(put_wide(at, 0xBE48, inline.address), 0xBA48, inline.telling)
    return put(put_wide(at, 0xB848, inline.on_told), 0xD0FF, 2)


@routine
def inline_length(inline: InlineRecord) -> int:
    """Bytes of the code in place of the call; 0 if ``count`` in the stub has to count."""
    if inline.number & 3 != 0 or inline.number > _LARGEST_BYTE:
        return 0
    if inline.model != 0 or inline.flow_next != 0 or inline.tells != 0:
        return 0
    length = 10 + 4 + 6 + 6 + 7 + _lanes_length(inline)
    length += 5 if inline.size >> 2 <= _LARGEST_BYTE else 8
    if inline.address == near(inline.address):
        return length + 8
    return length + (9 if inline.address >> 32 == 0 else 14)


@routine
def _put_operations(inline: InlineRecord, at: int) -> int:
    """Write what counts the operations of a block, or leaves for its stub. Return its end.

    With a core model the branch before the block is resolved first: a wrong path comes before it.
    """
    at = put_wide(at, 0xB948, inline.state + CENTRE)
    at = _put_compared(at, inline.number)
    at = put_branch(at, 0x850F, inline.entry)
    if inline.model != 0:
        at = _put_resolving(inline, at)
    at = _put_count(at, SUBTRACT, _BUDGET, inline.size >> 2)
    return put_branch(at, 0x880F, inline.back)


@routine
def put_inline(inline: InlineRecord, at: int) -> int:
    """Write the code of :func:`inline_length` bytes in place of the call. Return its end."""
    at = _put_operations(inline, at)
    return _put_lanes(inline, _put_block(at, inline.address, inline.size >> 2))


@routine
def put_stub(inline: InlineRecord, at: int, begin: int) -> int:
    """Write the stub of a block that begins at ``begin``, without ``count``. Return its end."""
    if inline.number & 1:
        inline.members_back = at
        at = _put_count(at, ADD, _MEMBERS, inline.weight)
    inline.back = at
    at = _put_count(at, ADD, _BUDGET, inline.size >> 2)
    if inline.model != 0:
        at = _put_no_ending(at)  # the branch before the block has been resolved
    inline.entry = at
    at = put_wide(at, 0xBF48, inline.engine)
    at = put_wide(at, 0xBE48, inline.address)
    at = put(put(at, 0xBA, 1), inline.size, 4)
    at = put_wide(at, 0xB948, inline.state)
    at = put_wide(at, 0xB848, inline.hook)
    at = put(at, 0xD0FF, 2)
    inline.first = at
    at = put_wide(at, 0xBF48, inline.engine)
    at = put(at, 0xF633, 2)
    at = put_wide(at, 0xB848, inline.check)
    at = put(at, 0xD0FF, 2)
    at = put_jump(at, inline.after)
    at = put(put(at, begin, 8), inline.after, 8)
    at = put(put(at, inline.check, 8), inline.number, 8)
    return put(at, inline.number, 8)


@routine
def put_counting(inline: InlineRecord, at: int) -> int:
    """Write ``count`` at ``at``, after the BRANCH that ends the block. Return its end."""
    branch = 0
    if inline.ending != 0:
        branch = at
        for word in array_at(pointer_to(inline.ending), (_BRANCH_WORDS,), np.int64):
            at = put(at, word, 8)
    inline.count = at
    at = _put_operations(inline, at)
    if inline.number & 1:
        at = _put_count(at, SUBTRACT, _MEMBERS, inline.weight)
        at = put_branch(at, 0x880F, inline.members_back)
    at = _put_block(at, inline.address, inline.size >> 2)
    at = _put_lanes(inline, at)
    if inline.number & 2:
        row = array_at(pointer_to(inline.row), (ROW,), np.int64)
        at = _put_ways(at, inline.address, inline.address + inline.size & row[ROW - 1])
    if inline.flow_next != 0:
        at = _put_flow(inline, at)
    if inline.model != 0:
        at = _put_ending(at, branch)
    if inline.tells != 0:
        at = _put_telling(inline, at)
    return put_jump(at, inline.after)


@routine
def put_exit(inline: InlineRecord, at: int, after: int) -> int:
    """Write ``exit``, which calls the check and returns to ``after``. Return its end.

    Where it leaves, the engine looks up by that address which operation was executed last.
    """
    at = put_wide(at, 0xBF48, inline.engine)
    at = put(at, 0xF633, 2)
    at = put_wide(at, 0xB848, after)
    at = put(at, 0x50, 1)
    at = put_wide(at, 0xB848, inline.check)
    return put(at, 0xE0FF, 2)


@routine
def put_check(at: int, exit_: int, after: int) -> int:
    """Write the comparison that leads to ``exit``, and fill up to ``after`` with no-operations."""
    at = put(at, 0x7D83 | (ASKED & 0xFF) << 16, 4)
    at = put_branch(at, 0x880F, exit_)
    return put_nothing(at, after)
