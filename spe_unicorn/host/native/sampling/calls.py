"""Calls and returns as they are executed: the stacks of calls of all PEs, in compiled code.

A stack has a frame for each call that has not returned, and one for each exception that has been
taken and not been returned from. Stack pointers tell stacks apart: a return that finds its address
and its stack pointer on top of another stack is a switch to that, and one that finds them nowhere,
and no frame that it may have jumped to either, begins a new stack.

The block hook calls :func:`on_calls` before each block that does not count itself. A block that
ends in a call or a return always calls it, and so does the block after it: there its branch has
been executed, and SP is what the branch found.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import arm64_const as regs

from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    entry,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.engine.engine import SP, SP_EL
from spe_unicorn.host.native.calls import FETCH, TRANSLATED, call_read, call_register
from spe_unicorn.host.native.cover import UNKNOWN, on_cover_block
from spe_unicorn.host.native.state.block_table import CODE_WORDS
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

STACKS: Final = 1 << 10
"""Stacks that are known at once. One more than that gives way to another."""
FRAMES: Final = 1 << 10
"""Frames that a stack keeps: of deeper recursion the innermost."""
FORKS: Final = 1 << 9
"""System calls of which the calls that led there are kept, for processes that begin in one: tables
behind those of the stacks, direct-mapped by address and stack pointer."""
FORK_FRAMES: Final = 1 << 7
"""Frames that are kept of those, the innermost."""
KINDS: Final = 1 << 16
"""Blocks of which it is remembered what they end in, direct-mapped."""
NEITHER, CALL, JUMP, RETURN, EXCEPTION_RETURN = range(5)
"""What a block ends in. A jump is a branch to an address in a register: it may return, too."""
NO_STACK: Final = -1
NO_SPACE: Final = -1
_SP: Final = int(SP)
_SP_EL0: Final = int(SP_EL[0])
_TTBR0: Final = int(regs.UC_ARM64_REG_TTBR0_EL1)
_TTBR1: Final = int(regs.UC_ARM64_REG_TTBR1_EL1)
_TABLE: Final = (1 << 48) - 1
"""Of a TTBR: without the ASID, of which a process can get another."""
_SCRATCH: Final = offset_of("scratch")


class Calls:
    """What is known of one PE."""

    kind: int
    """What the block that began last ends in, while its branch has not been followed."""
    block: int
    """Where that block begins."""
    operations: int
    current: int
    """The number of the stack on which the PE is."""
    stacks: int
    """The table of stacks, of all PEs: rows of STACK. One more row counts stacks, as ``count``, and
    switches, as ``used``. FORKS rows follow."""
    frames: int
    """The table of their frames."""
    kinds: int
    """The table of what blocks end in: rows of KIND."""


class Stack:
    """A stack of calls."""

    count: int
    """How many frames it has."""
    lost: int
    """How many of them, the outermost, are not kept."""
    used: int
    """When a PE left it last, in switches. 0 if its software is taken to have ended."""
    taken: int
    """How many PEs are on it: 0 or 1."""
    low: int
    """While no PE is on it: SP in its innermost call."""
    high: int
    """And in the outermost one since the last exception."""
    space: int
    """While no PE is on it: ``space`` of its last exception, NO_SPACE without one."""


class Frame:
    """A call, or an exception, that has not been returned from."""

    back: int
    """The address after the operation that called, or that an exception came in place of."""
    sp: int
    """SP at the call. For an exception, that of the software that was interrupted."""
    to: int
    """For an exception, the address to which it returns."""
    space: int
    """For an exception, the translation table by which ``sp`` is looked up."""
    exception: int
    """1 for an exception, 0 for a call."""


class Kind:
    """What a block ends in."""

    key: int
    """Its address XOR its operations."""
    epoch: int
    kind: int


CALLS: Final = layout(Calls)
STACK: Final = layout(Stack)
FRAME: Final = layout(Frame)
KIND: Final = layout(Kind)
_STACK_BYTES, _FRAME_BYTES, _KIND_BYTES = STACK.itemsize, FRAME.itemsize, KIND.itemsize


@routine
def kind_of(word: int) -> int:
    """What a block whose last operation is ``word`` ends in."""
    if word & 0xFC00_0000 == 0x9400_0000:  # BL
        return CALL
    if word & 0xFE00_0000 != 0xD600_0000:
        return NEITHER
    way = word >> 21 & 7  # with a bit above it, the same with pointer authentication
    if way == 0:
        return JUMP
    if way == 1:
        return CALL
    if way == 2:
        return RETURN
    return EXCEPTION_RETURN if way == 4 else NEITHER


@routine
def _stack(calls: Calls, n: int) -> Stack:
    return record_at(pointer_to(calls.stacks + n * _STACK_BYTES), STACK)


@routine
def _frame(calls: Calls, n: int, place: int) -> Frame:
    """The frame at ``place`` of a stack, 0 for the outermost; it is one that is kept."""
    at = n * FRAMES + (place & FRAMES - 1)
    return record_at(pointer_to(calls.frames + at * _FRAME_BYTES), FRAME)


@routine
def _push(calls: Calls, back: int, sp: int) -> Frame:
    """Add a frame to the stack at hand, of a call unless told otherwise."""
    stack = _stack(calls, calls.current)
    frame = _frame(calls, calls.current, stack.count)
    frame.back, frame.sp = back, sp
    frame.to = frame.space = frame.exception = int64(0)
    stack.count += 1
    if stack.count - stack.lost > FRAMES:
        stack.lost += 1
    return frame


@routine
def _cut(calls: Calls, count: int) -> None:
    """Take frames off the stack at hand until ``count`` are left."""
    stack = _stack(calls, calls.current)
    stack.count = count
    if count <= stack.lost:
        stack.count = stack.lost = 0


@routine
def _leave(calls: Calls) -> None:
    """The PE leaves the stack at hand: note when, and between which addresses it lies."""
    stack = _stack(calls, calls.current)
    time = _stack(calls, STACKS)
    time.used += 1
    stack.used = time.used
    stack.taken = 0
    stack.low = stack.high = 0
    stack.space = int64(NO_SPACE)
    n = stack.count - 1
    while n >= stack.lost:
        frame = _frame(calls, calls.current, n)
        if frame.exception != 0:
            stack.space = frame.space
            break
        if stack.low == 0:
            stack.low = frame.sp
        stack.high = frame.sp
        n -= 1


@routine
def _go_to(calls: Calls, n: int) -> None:
    """The PE goes on on another stack."""
    _leave(calls)
    calls.current = n
    _stack(calls, n).taken = 1


@routine
def _begin(calls: Calls) -> None:
    """The PE goes on on a stack without calls: a new one, or the one that was left longest ago."""
    if _stack(calls, calls.current).count == 0:
        return
    known = _stack(calls, STACKS)
    found = int64(known.count)
    if found < STACKS:
        known.count += 1
    else:
        used = int64(1) << 62
        for n in range(STACKS):
            stack = _stack(calls, n)
            if stack.taken == 0 and stack.used < used:
                found, used = int64(n), stack.used
    _go_to(calls, found)
    _cut(calls, 0)


@routine
def _begun_in(calls: Calls, space: int) -> None:
    """Software has begun in a translation table of its own: what waited in that table has ended.

    Its stacks are the first to give way. Only then are they forgotten, should they wait after all.
    """
    for n in range(_stack(calls, STACKS).count):
        stack = _stack(calls, n)
        if stack.taken == 0 and stack.space == space:
            stack.used = 0


@routine
def _is_return(frame: Frame, address: int, sp: int) -> bool:
    """Whether a branch to ``address`` returns from a call."""
    return frame.exception == 0 and frame.back == address and frame.sp == sp


@routine
def _waiting_for(calls: Calls, address: int, sp: int, space: int, exception: int) -> int:
    """The stack, on which no PE is, whose last frame has these values; NO_STACK if none has."""
    for n in range(_stack(calls, STACKS).count):
        stack = _stack(calls, n)
        if stack.taken == 0 and stack.count > 0 and (exception != 0 or stack.low == sp):
            frame = _frame(calls, n, stack.count - 1)
            to = frame.to if exception != 0 else frame.back
            same = frame.exception == exception and to == address and frame.sp == sp
            if same and (exception == 0 or frame.space == space):
                return n
    return NO_STACK


@routine
def _around(calls: Calls, sp: int) -> int:
    """The stack, on which no PE is, between whose calls SP lies; NO_STACK if there is none."""
    for n in range(_stack(calls, STACKS).count):
        stack = _stack(calls, n)
        if stack.taken == 0 and stack.count > 0 and stack.low <= sp <= stack.high:
            return n
    return NO_STACK


@routine
def _left_by_jump(calls: Calls, sp: int) -> int:
    """How many frames of the stack at hand a jump leaves that sets SP; -1 if it is another stack.

    Calls of functions whose SP was at or below ``sp`` are over. If the innermost exception has been
    left, too, its frames are.
    """
    stack = _stack(calls, calls.current)
    n = stack.count
    left = int64(-1)
    while n > stack.lost:
        frame = _frame(calls, calls.current, n - 1)
        if frame.exception != 0:
            left = int64(-1)
        elif frame.sp <= sp:
            left = n - 1
        else:
            return left  # the caller of what goes on lies above
        n -= 1
    # only the outermost call may begin where SP is
    outermost = _frame(calls, calls.current, stack.lost)
    whole = stack.count > stack.lost and outermost.exception == 0 and outermost.sp == sp
    return left if whole else -1


@routine
def _fork_of(address: int, sp: int) -> int:
    """The row of FORKS for a system call that returns to ``address``."""
    return STACKS + 1 + ((address >> 2 ^ sp >> 4) & FORKS - 1)


@routine
def _copy(calls: Calls, source: int, to: int, count: int, most: int) -> None:
    """Make the stack ``to`` one of the ``count`` outermost frames of another, ``most`` at most."""
    old, new = _stack(calls, source), _stack(calls, to)
    new.count, new.lost = count, max(old.lost, count - most)
    for n in range(new.lost, count):
        here, there = _frame(calls, source, n), _frame(calls, to, n)
        there.back, there.sp, there.to = here.back, here.sp, here.to
        there.space, there.exception = here.space, here.exception


@routine
def _take_up_fork(calls: Calls, address: int, sp: int, space: int) -> None:
    """An exception return leads to ``address``, where no software is known to wait.

    If a system call returns there, with this stack pointer, its process has been forked: memory and
    registers of the new one are copies, and so are its calls.
    """
    fork = _fork_of(address, sp)
    count = _stack(calls, fork).count
    if count > 0:
        frame = _frame(calls, fork, count - 1)
        if frame.to == address and frame.sp == sp:
            if frame.space != space:
                _begun_in(calls, space)
            _copy(calls, fork, calls.current, count, FRAMES)
            _cut(calls, count - 1)


@routine
def _returned(calls: Calls, address: int, sp: int) -> None:
    """A return has been executed that did not find its call on top of the stack at hand."""
    stack = _stack(calls, calls.current)
    # calls that never returned, such as one of the next operation
    n = stack.count - 1
    while n >= stack.lost:
        frame = _frame(calls, calls.current, n)
        if frame.exception != 0:
            break
        if _is_return(frame, address, sp):
            _cut(calls, n)
            return
        n -= 1
    other = _waiting_for(calls, address, sp, 0, 0)
    if other != NO_STACK:
        _go_to(calls, other)
        _cut(calls, _stack(calls, other).count - 1)
        return
    if stack.count == 0 or _frame(calls, calls.current, stack.count - 1).exception != 0:
        return  # from a function whose call was not seen
    if _frame(calls, calls.current, stack.count - 1).sp == sp:
        _cut(calls, stack.count - 1)  # to another place than the call's
        return
    left = _left_by_jump(calls, sp)
    if left >= 0:
        _cut(calls, left)
        return
    other = _around(calls, sp)
    if other == NO_STACK:
        _begin(calls)
        return
    _go_to(calls, other)
    # where nothing of it goes on, its task has ended and another one has got its memory
    _cut(calls, max(_left_by_jump(calls, sp), 0))


@routine
def _jumped(calls: Calls, address: int, sp: int) -> None:
    """A branch to an address in a register has been executed, which may be a return."""
    stack = _stack(calls, calls.current)
    if stack.count > 0:
        frame = _frame(calls, calls.current, stack.count - 1)
        if _is_return(frame, address, sp):
            _cut(calls, stack.count - 1)
        elif frame.exception == 0 and sp > frame.sp:
            _returned(calls, address, sp)


@routine
def _last_exception(calls: Calls) -> int:
    """The place of the innermost exception of the stack at hand, -1 if there is none."""
    stack = _stack(calls, calls.current)
    n = stack.count - 1
    while n >= stack.lost:
        if _frame(calls, calls.current, n).exception != 0:
            return n
        n -= 1
    return int64(-1)


@routine
def _left_exception(calls: Calls, address: int, sp: int, space: int) -> None:
    """An exception return has been executed."""
    n = _last_exception(calls)
    if n >= 0:
        frame = _frame(calls, calls.current, n)
        if frame.sp == sp and frame.space == space:
            _cut(calls, n)
            return
        _cut(calls, n + 1)
    other = _waiting_for(calls, address, sp, space, 1)
    if other != NO_STACK:
        _go_to(calls, other)
        _cut(calls, _stack(calls, other).count - 1)
        return
    if n >= 0:
        # another program, if the table is another one
        if _frame(calls, calls.current, n).space != space:
            _begun_in(calls, space)
        _begin(calls)
    else:
        _cut(calls, 0)
    _take_up_fork(calls, address, sp, space)


@routine
def _read(state: StateRecord, engine: Pointer, user: int, register: int) -> int:
    """The value of a register."""
    kept = state.scratch
    call_register(state.reg_read, address_of(engine), register, user + _SCRATCH)
    value = state.scratch
    state.scratch = kept
    return value


@routine
def _space(state: StateRecord, engine: Pointer, user: int, sp: int) -> int:
    """The translation table by which a stack pointer is looked up.

    In the half that all processes share, it is that of TTBR1_EL1: a thread of an operating system
    has the TTBR0_EL1 of any process that was there before it.
    """
    register = _TTBR1 if sp >> 55 & 1 != 0 else _TTBR0
    return _read(state, engine, user, register) & _TABLE


@routine
def _follow(
    state: StateRecord, engine: Pointer, user: int, kind: int, after: int, address: int, sp: int
) -> None:
    """A branch has been executed that led to ``address``, with a stack pointer.

    ``after`` is the address after it.
    """
    calls = record_at(pointer_to(state.call_stacks), CALLS)
    if kind == CALL:
        _push(calls, after, sp)
    elif kind == EXCEPTION_RETURN:
        _left_exception(calls, address, sp, _space(state, engine, user, sp))
    elif kind == JUMP:
        _jumped(calls, address, sp)
    else:
        stack = _stack(calls, calls.current)
        if stack.count > 0 and _is_return(
            _frame(calls, calls.current, stack.count - 1), address, sp
        ):
            _cut(calls, stack.count - 1)
        else:
            _returned(calls, address, sp)


@routine
def _arrive(
    state: StateRecord, engine: Pointer, user: int, address: int, stack_pointer: int
) -> None:
    """The operation at ``address`` follows what was executed last.

    ``stack_pointer`` is the register that is its SP.
    """
    calls = record_at(pointer_to(state.call_stacks), CALLS)
    kind = calls.kind
    if kind == NEITHER:
        return
    calls.kind = NEITHER
    end = calls.block + 4 * calls.operations
    if state.covering == 0 or calls.block < address < end:
        return  # it did not run, or not to its end
    sp = _read(state, engine, user, stack_pointer)
    _follow(state, engine, user, kind, end, address, sp)


@routine
def forget_branch(state: StateRecord) -> None:
    """The block that began last does not run, or not to its end."""
    record_at(pointer_to(state.call_stacks), CALLS).kind = NEITHER


@routine
def _kind_at(state: StateRecord, engine: Pointer, kinds: int, address: int, operations: int) -> int:
    """What a block ends in."""
    place = (address >> 2 ^ operations << 9) & KINDS - 1
    row = record_at(pointer_to(kinds + place * _KIND_BYTES), KIND)
    if row.key != address ^ operations or row.epoch != state.epoch:
        last = address + 4 * (operations - 1)
        if call_read(state.vmem_read, address_of(engine), last, FETCH, state.code, 4) != 0:
            return NEITHER
        word = int64(array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)[0])
        row.key, row.epoch, row.kind = address ^ operations, state.epoch, kind_of(word)
    return row.kind


@entry("void", "pointer", "int64", "int64", "pointer")
def on_calls(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """The hook is called for a block of ``size`` bytes, which may run or not."""
    state = record_at(user, LAYOUT)
    _arrive(state, engine, address_of(user), address, _SP)
    if state.cover != 0:
        on_cover_block(state, engine, address, size, address_of(user))
    else:
        state.covering = state.cover_row = state.cover_keeps = 0
    if size < 4:
        return
    calls = record_at(pointer_to(state.call_stacks), CALLS)
    calls.kind = _kind_at(state, engine, calls.kinds, address, size >> 2)
    if calls.kind != NEITHER:
        calls.block, calls.operations = address, size >> 2
        # the next block calls the hook, too; coverage has nothing to learn there by itself
        state.cover_keeps = 1
        if state.cover_row == 0:
            state.cover_row = UNKNOWN


@entry("void", "pointer", "pointer", "pointer", "pointer")
def on_code_of_calls(engine: Pointer, block: Pointer, before: Pointer, user: Pointer) -> None:
    """The engine has translated a block: forget what it ended in before."""
    state = record_at(user, LAYOUT)
    new = record_at(block, TRANSLATED)
    operations = new.sizes >> 18 & 0x3FFF
    kinds = record_at(pointer_to(state.call_stacks), CALLS).kinds
    place = (new.pc >> 2 ^ operations << 9) & KINDS - 1
    record_at(pointer_to(kinds + place * _KIND_BYTES), KIND).epoch = -1


@routine
def exception_taken(
    state: StateRecord, engine: Pointer, user: int, pc: int, called: int, level: int
) -> None:
    """The PE has taken an exception that returns to ``pc``.

    ``called`` says that this is the address after an SVC, HVC or SMC. ``level`` is the number of
    the stack pointer that the interrupted software had, 0 to 3.
    """
    calls = record_at(pointer_to(state.call_stacks), CALLS)
    if calls.block <= pc < calls.block + 4 * calls.operations:
        calls.kind = NEITHER
    # SP is the handler's by now
    _arrive(state, engine, user, pc, _SP_EL0 + level)
    interrupted = _read(state, engine, user, _SP_EL0 + level)
    frame = _push(calls, pc if called != 0 else pc + 4, interrupted)
    frame.to, frame.exception = pc, int64(1)
    frame.space = _space(state, engine, user, interrupted)
    if called != 0 and level == 0:
        count = _stack(calls, calls.current).count
        _copy(calls, calls.current, _fork_of(pc, interrupted), count, FORK_FRAMES)


class Word:
    """A number in memory."""

    value: int


WORD: Final = layout(Word)


@routine
def note_calls(state: StateRecord, place: int, most: int) -> int:
    """Write the return addresses of the stack at hand at ``place``, the innermost first.

    Return how many there are, at most ``most``.
    """
    calls = record_at(pointer_to(state.call_stacks), CALLS)
    stack = _stack(calls, calls.current)
    count = min(stack.count - stack.lost, most)
    for n in range(count):
        record_at(pointer_to(place + 8 * n), WORD).value = _frame(
            calls, calls.current, stack.count - 1 - n
        ).back
    return count


@entry("void", "pointer", "pointer", "int64", "int64", "int64", "int64")
def followed(
    engine: Pointer, user: Pointer, kind: int, after: int, address: int, whole: int
) -> None:
    """A run or a step has ended, and the PE stands at ``address``.

    If ``whole``, the branch of ``kind`` before the address ``after`` was executed last; of a run,
    with ``kind`` -1, that is the branch of the block that began last.
    """
    state = record_at(user, LAYOUT)
    calls = record_at(pointer_to(state.call_stacks), CALLS)
    if kind < 0:
        kind = calls.kind
        after = calls.block + 4 * calls.operations
    calls.kind = NEITHER
    if whole != 0 and kind != NEITHER:
        sp = _read(state, engine, address_of(user), _SP)
        _follow(state, engine, address_of(user), kind, after, address, sp)


@entry("void", "pointer", "pointer", "int64", "int64", "int64")
def took_exception(engine: Pointer, user: Pointer, pc: int, called: int, level: int) -> None:
    """For Python: :func:`exception_taken`."""
    exception_taken(record_at(user, LAYOUT), engine, address_of(user), pc, called, level)


@entry("void", "pointer")
def begin_calls(user: Pointer) -> None:
    """The PE has been reset, or restored: it is on a stack without calls."""
    state = record_at(user, LAYOUT)
    calls = record_at(pointer_to(state.call_stacks), CALLS)
    calls.kind = NEITHER
    _begin(calls)
