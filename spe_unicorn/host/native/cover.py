"""Coverage in compiled code: which operations were executed, and which way branches went.

A row of the table tells of a block, how many of its operations have been executed at most, and
which ways the conditional branch at its end has gone. A second kind of row, with 0 operations,
tells of the address at which blocks begin.

The block hook calls :func:`on_cover` before each block that does not count itself. A block may come
to count itself once there is nothing more to be learned at it: it has been executed to its end, and
each way of its branch was seen, or will be seen where it leads to. For the latter, the blocks at
that address go on calling the hook until the way has been seen. So a branch that always goes the
same way costs nothing, unless what the other way leads to is executed all the same.

Where stacks are checked, a block that lowers SP always calls the hook, which then looks whether
the block takes SP from within a stack to below it.

After a block of which there is more to be learned the next one calls the hook, too
(``State.attend``). ``State.block`` names the block that ran before, whether that counted itself or
not.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.operation import FELL, TAKEN
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
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.host.native.calls import FETCH, TRANSLATED, call_read, call_register
from spe_unicorn.host.native.state.block_table import CODE_WORDS
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

ROWS: Final = 1 << 20
"""Rows of the table. One more counts the rows that are used, as ``CoverRow.reached``."""
MOST: Final = ROWS // 4 * 3
"""The most rows that are used. After that nothing is learned of new blocks."""
CONDITIONAL: Final = 4
"""Of ``CoverRow.ways``, beside FELL and TAKEN: the block ends in a conditional branch."""
_AWAITS_FALL, _AWAITS_TAKEN = 8, 16
"""The blocks to which the way leads call the hook until it has been seen."""
_COUNTS_ITSELF: Final = 32
"""Of an address: a block there may count itself."""
_OVERWRITTEN: Final = 64
"""The block's last operation has been overwritten: the row tells of what was there before."""
_USED: Final = 128
_BOTH: Final = FELL | TAKEN
UNKNOWN: Final = -1
"""``State.covering`` where the block that was executed last is not the one in ``State.block``."""


class CoverRow:
    """What is known of a block, or of an address."""

    address: int
    """Where the block begins."""
    operations: int
    """How many operations it has; 0: this is the row of the address."""
    reached: int
    """How many of them have been executed at most."""
    ways: int
    """The ways that the branch at its end has gone, and the other bits above."""
    target: int
    """Where a branch at its end leads if it is taken; 0 if that is no direct branch."""
    word: int
    """The last operation of the block."""
    place: int
    """The number, from 1, of the row of its address; 0 while the block's code was not read."""
    waiting: int
    """Of an address: how many ways that lead here are to be seen here."""
    lowest: int
    """How far below its value at the block's begin SP gets in the block, in bytes: 0 or less.
    Known while stacks are checked."""


COVER_ROW: Final = layout(CoverRow)
_ROW_BYTES: Final = COVER_ROW.itemsize


class StackRow:
    """A stack that is checked: SP goes below it from within."""

    low: int
    """Its lowest address."""
    high: int
    """Its end, where SP is while it is empty; 0 where there is nothing to check, or no more."""
    block: int
    """The block that overflowed it first, once one has: where it begins."""
    operations: int
    """How many operations that block has; 0 while none has overflowed."""
    sp: int
    """SP at the begin of that block."""


STACK_ROW: Final = layout(StackRow)
_STACK_BYTES: Final = STACK_ROW.itemsize
STACKS: Final = 8
"""Rows of the table of stacks."""
OTHER: Final = 1 << 40
"""What :func:`sp_step` returns for an operation that gives SP another value."""
_SP: Final = int(SP)
_SCRATCH: Final = offset_of("scratch")


@routine
def _sp_step_of_immediate(word: int) -> int:
    """:func:`sp_step` of an ADD or SUB of an immediate that writes SP."""
    if word & 0x8000_03E0 != 0x8000_03E0:
        return OTHER
    amount = int64(word >> 10 & 0xFFF)
    if word & 0x40_0000 != 0:
        amount <<= 12
    return -amount if word & 0x4000_0000 != 0 else amount


@routine
def sp_step(word: int) -> int:
    """How many bytes an operation adds to SP; 0 if it does not write SP, :data:`OTHER` otherwise.

    These are ADD and SUB of an immediate, and loads and stores with writeback.
    """
    if word & 0x3F80_001F == 0x1100_001F:
        return _sp_step_of_immediate(word)
    if word & 0x3FE0_001F == 0x0B20_001F or (
        word & 0x1F80_001F == 0x1200_001F and word & 0x6000_0000 != 0x6000_0000
    ):
        return OTHER  # ADD and SUB of a register; AND, ORR, EOR of an immediate
    if word & 0x3E0 != 0x3E0:
        return 0
    if word & 0x3A80_0000 == 0x2880_0000:  # a pair, before or after
        size = word >> 30 & 3
        scale = 2 + size if word & 0x400_0000 != 0 else 2 + (size >> 1)
        return ((int64(word >> 15 & 0x7F) << 57) >> 57) << scale
    if word & 0x3B20_0400 == 0x3800_0400:  # one register, before or after
        return (int64(word >> 12 & 0x1FF) << 55) >> 55
    return 0


@routine
def branch_distance(word: int) -> int:
    """Bytes from a conditional branch to where it leads; 0 for other words, and to itself."""
    if word & 0xFF00_0000 == 0x5400_0000:
        if word & 0xE == 0xE:
            return 0  # AL and NV: it is always taken
        return (int64(word >> 5 & 0x7FFFF) << 45) >> 43
    if word & 0x7E00_0000 == 0x3400_0000:  # CBZ, CBNZ
        return (int64(word >> 5 & 0x7FFFF) << 45) >> 43
    if word & 0x7E00_0000 == 0x3600_0000:  # TBZ, TBNZ
        return (int64(word >> 5 & 0x3FFF) << 50) >> 48
    return 0


@routine
def _row(state: StateRecord, n: int) -> CoverRow:
    return record_at(pointer_to(state.cover + n * _ROW_BYTES), COVER_ROW)


@routine
def _find(state: StateRecord, address: int, operations: int, make: int) -> int:
    """The number of the row of a block or of an address, -1 if there is none.

    With ``make`` it is made, if there is room.
    """
    n = (address >> 2 ^ operations << 13) & ROWS - 1
    for _ in range(ROWS):
        row = _row(state, n)
        if row.ways & _USED == 0:
            used = _row(state, ROWS)
            if make == 0 or used.reached >= MOST:
                return -1
            used.reached += 1
            row.address = address
            row.operations = operations
            row.ways = _USED
            return n
        current = row.ways & _OVERWRITTEN == 0
        if current and row.address == address and row.operations == operations:
            return n
        n = n + 1 & ROWS - 1
    return -1


@routine
def _end_of(row: CoverRow) -> int:
    """The address after a block."""
    return row.address + 4 * row.operations


@routine
def _note_end(state: StateRecord, row: CoverRow, following: int) -> None:
    """A block has been executed to its end; after it comes the operation at ``following``."""
    row.reached = row.operations
    if row.ways & CONDITIONAL == 0:
        return
    ways = 0
    if following == _end_of(row):
        ways = FELL
    if following == row.target:
        ways |= TAKEN
    ways &= ~row.ways
    if ways == 0:
        return
    row.ways |= ways
    if (ways & FELL and row.ways & _AWAITS_FALL) or (ways & TAKEN and row.ways & _AWAITS_TAKEN):
        n = _find(state, following, 0, 0)
        if n >= 0:
            _row(state, n).waiting -= 1


@routine
def _awaits(state: StateRecord, row: CoverRow, way: int, bit: int, to: int) -> bool:
    """Have a way of a block's branch seen where it leads to. False if it cannot be seen there."""
    if row.ways & (way | bit):
        return True
    n = _find(state, to, 0, 1)
    if n < 0 or _row(state, n).ways & _COUNTS_ITSELF:
        return False
    _row(state, n).waiting += 1
    row.ways |= bit
    return True


@routine
def _is_known(state: StateRecord, row: CoverRow) -> bool:
    """Whether there is nothing more to be learned at a block."""
    if row.place == 0 or row.reached < row.operations:
        return False
    if row.ways & CONDITIONAL == 0 or row.ways & _BOTH == _BOTH:
        return True
    if row.ways & _BOTH == 0:
        return False
    falls = _awaits(state, row, FELL, _AWAITS_FALL, _end_of(row))
    return falls and _awaits(state, row, TAKEN, _AWAITS_TAKEN, row.target)


@routine
def _was_left(row: CoverRow, address: int) -> bool:
    """Whether a block, after which ``address`` comes, was left there and is to go on there.

    That is so where something else than the engine has executed the operation before it.
    """
    if address <= row.address or address >= _end_of(row) or address == row.target:
        return False
    return row.word & 0xFE00_0000 != 0xD600_0000  # BR, BLR, RET, ERET may lead there


@routine
def _arrive(state: StateRecord, address: int) -> None:
    """The operation at ``address`` follows what was executed last."""
    covering = state.covering
    state.covering = 0
    if covering > 0:
        row = _row(state, covering - 1)
        if _was_left(row, address):
            row.reached = max(row.reached, address - row.address >> 2)
        else:
            _note_end(state, row, address)
    elif covering == 0 and state.block_operations != 0:
        here = _find(state, address, 0, 0)
        if here >= 0 and _row(state, here).waiting > 0:
            n = _find(state, state.block, state.block_operations, 0)
            if n >= 0:
                _note_end(state, _row(state, n), address)


@routine
def left_block(state: StateRecord, pc: int, attempted: int) -> None:
    """Compiled code has taken an exception at ``pc``, in the block that began last or after it.

    ``attempted``: the operation there counts as executed, and those after it were not.
    """
    if attempted == 0:
        _arrive(state, pc)
    elif state.covering > 0:
        row = _row(state, state.covering - 1)
        done = (pc - row.address >> 2) + 1
        row.reached = max(row.reached, min(done, row.operations))
    state.covering = UNKNOWN
    state.attend = -1


@routine
def counts_itself_from_now(state: StateRecord, address: int) -> None:
    """A block at ``address`` has come to count itself."""
    if state.cover != 0:
        n = _find(state, address, 0, 1)
        if n >= 0:
            _row(state, n).ways |= _COUNTS_ITSELF


@routine
def _last_word(state: StateRecord, engine: Pointer, address: int, operations: int) -> int:
    """The last operation of a block; -1 if it cannot be read."""
    last = address + 4 * (operations - 1)
    if call_read(state.vmem_read, address_of(engine), last, FETCH, state.code, 4) != 0:
        return -1
    return int64(array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)[0])


@routine
def _lowest(state: StateRecord, engine: Pointer, row: CoverRow) -> int:
    """:attr:`CoverRow.lowest` of a block, as far as its operations tell."""
    operations = min(row.operations, CODE_WORDS)
    size = 4 * operations
    if call_read(state.vmem_read, address_of(engine), row.address, FETCH, state.code, size) != 0:
        return 0
    words = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    lowest = at = int64(0)
    for n in range(operations):
        step = sp_step(int64(words[n]))
        if step == OTHER:
            break
        at += step
        lowest = min(lowest, at)
    return lowest


@routine
def _check_stacks(state: StateRecord, engine: Pointer, row: CoverRow, scratch: int) -> None:
    """A block that lowers SP is about to run: note the stack that it overflows, if it does."""
    call_register(state.reg_read, address_of(engine), _SP, scratch)
    sp = state.scratch
    for n in range(STACKS):
        stack = record_at(pointer_to(state.stacks + n * _STACK_BYTES), STACK_ROW)
        if stack.low <= sp <= stack.high and sp + row.lowest < stack.low:
            stack.high = 0
            stack.block = row.address
            stack.operations = row.operations
            stack.sp = sp


@routine
def _learn(state: StateRecord, engine: Pointer, row: CoverRow) -> None:
    """Find out what a block ends in."""
    word = _last_word(state, engine, row.address, row.operations)
    place = _find(state, row.address, 0, 1)
    if word < 0 or place < 0:
        return
    row.word = word
    row.place = place + 1
    distance = branch_distance(word)
    if distance != 0:
        row.ways |= CONDITIONAL
    elif word & 0x7C00_0000 == 0x1400_0000:  # B, BL
        distance = (int64(word & 0x3FF_FFFF) << 38) >> 36
    if distance != 0:
        row.target = _end_of(row) - 4 + distance
    if state.stacks != 0:
        row.lowest = _lowest(state, engine, row)


@routine
def on_cover_block(state: StateRecord, engine: Pointer, address: int, size: int, user: int) -> None:
    """The hook is called for a block of ``size`` bytes, which may run or not.

    Set ``cover_row`` to the number of its row, from 1, if there is more to be learned at it, and
    ``cover_keeps`` if it must go on calling the hook. The state lies at ``user``.
    """
    _arrive(state, address)
    state.cover_row, state.cover_keeps = 0, 1
    if size < 4:
        return
    n = _find(state, address, size >> 2, 1)
    if n < 0:
        return
    row = _row(state, n)
    if row.place == 0:
        _learn(state, engine, row)
    if row.lowest < 0:
        _check_stacks(state, engine, row, user + _SCRATCH)
    if not _is_known(state, row):
        state.cover_row = n + 1
    elif row.lowest == 0 and _row(state, row.place - 1).waiting <= 0:
        state.cover_keeps = 0


@entry("void", "pointer", "int64", "int64", "pointer")
def on_cover(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """For the block hook, where only coverage is wanted: :func:`on_cover_block`."""
    on_cover_block(record_at(user, LAYOUT), engine, address, size, address_of(user))


@entry("void", "pointer", "int64")
def note_answered(user: Pointer, pc: int) -> None:
    """In the midst of a run Python has executed the operation at ``pc`` for the engine."""
    left_block(record_at(user, LAYOUT), pc, 1)


@entry("bool", "pointer", "int64", "int64", "int64", "int64")
def note_run(user: Pointer, block: int, operations: int, done: int, following: int) -> bool:
    """A run has ended in a block, ``done`` of whose operations were executed.

    The next operation is at ``following``. False if the table does not have the block.
    """
    state = record_at(user, LAYOUT)
    n = _find(state, block, operations, 0)
    if n < 0:
        return False
    row = _row(state, n)
    row.reached = max(row.reached, done)
    if done == operations:
        _note_end(state, row, following)
    return True


@entry("void", "pointer", "pointer", "pointer", "pointer")
def on_covered_code(engine: Pointer, block: Pointer, before: Pointer, user: Pointer) -> None:
    """The engine has translated a block: if it ends in another operation, begin a row for it."""
    state = record_at(user, LAYOUT)
    new = record_at(block, TRANSLATED)
    operations = new.sizes >> 18 & 0x3FFF
    n = _find(state, new.pc, operations, 0)
    if operations == 0 or n < 0 or _row(state, n).place == 0:
        return
    row = _row(state, n)
    word = _last_word(state, engine, new.pc, operations)
    if word >= 0 and word != row.word:
        row.ways |= _OVERWRITTEN
