"""Where the program flow last went, for the previous branch target of records (FEAT_SPE_PBT).

If a block does not begin where the block before it ended, a taken branch led to it, or an exception
or a return from one. These count as branches here: the architecture leaves that open. If the block
does begin there, the last word of the block before says whether a branch to it was taken.

The hook that counts a block calls this one after it (``State.flow_hook``), on cores with such
records. Blocks that count themselves do the same by their own code (``inline.written``): they know
what their last word can do, which :func:`end_of` tells.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    entry,
    int64,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.decode.effects import condition_holds
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.native.calls import FETCH, call_read, call_register
from spe_unicorn.host.native.levels import flow_moves
from spe_unicorn.host.native.state.block_table import CODE_WORDS, SPREAD
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import goes_on_at
from spe_unicorn.host.native.state.transit import is_told_twice
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

FLOW_VALID: Final = 1 << 2
"""In ``State.flow``: the branch was executed while profiling was enabled."""

_CONDITION_HOLDS: Final = routine(condition_holds)
PLAIN, MAY_BRANCH, BRANCHES = 0, 1, 2
"""What the operation before an address can do: no branch there, a branch there or on, or always a
branch."""
ENDS: Final = 1 << 14
"""Entries of the table of these, direct-mapped by address."""
NOWHERE: Final = -1
"""In ``State.flow_next``: wherever the next operation is, a branch led there."""
_KINDS: Final = 3
_SCRATCH: Final = offset_of("scratch")
_NZCV: Final = int(e.NZCV)
_X0 = int(e.X[0])
_X29 = int(e.X[29])
_X30 = int(e.X[30])
_FLAGS: Final = 32
_ZERO: Final = 31


@routine
def tests(word: int) -> int:
    """What a conditional branch to the operation after it looks at.

    The number of a register, _FLAGS for the condition flags; -1 for every other word.
    """
    if word & 0xFF00_0010 == 0x5400_0000 and word >> 5 & 0x7FFFF == 1:
        return _FLAGS
    if word & 0x7E00_0000 == 0x3400_0000 and word >> 5 & 0x7FFFF == 1:  # CBZ, CBNZ
        return word & 31
    if word & 0x7E00_0000 == 0x3600_0000 and word >> 5 & 0x3FFF == 1:  # TBZ, TBNZ
        return word & 31
    return -1


@routine
def kind_of_end(word: int) -> int:
    """What a word can do for the operation after it: PLAIN, MAY_BRANCH or BRANCHES."""
    if word & 0x7C00_0000 == 0x1400_0000 or word & 0xFE00_0000 == 0xD600_0000:
        return int64(BRANCHES)  # B and BL; BR, BLR, RET, ERET
    return int64(MAY_BRANCH if tests(word) >= 0 else PLAIN)


@routine
def took(word: int, value: int) -> int:
    """Whether ``word``, after which execution went on, is a branch that was taken.

    ``value`` is that of what it :func:`tests`, NZCV in bits 31 to 28.
    """
    kind = kind_of_end(word)
    if kind != MAY_BRANCH:
        return kind == BRANCHES
    if word >> 24 == 0x54:
        return _CONDITION_HOLDS(word & 15, value >> 28 & 15)
    if word & 0x7E00_0000 == 0x3400_0000:
        if word >> 31 == 0:
            value &= 0xFFFF_FFFF
        return (value != 0) == (word >> 24 & 1 != 0)
    return value >> (word >> 26 & 32 | word >> 19 & 31) & 1 == word >> 24 & 1


@routine
def end_of(state: StateRecord, engine: int, end: int) -> int:
    """What the operation before ``end`` can do. It is kept for as long as the epoch lasts."""
    ends = array_at(pointer_to(state.ends), (ENDS,), np.int64)
    n = end >> 2 & (ENDS - 1)
    known = ends[n] ^ state.epoch * SPREAD
    if known & ~_KINDS == end:
        return known & _KINDS
    if call_read(state.vmem_read, engine, end - 4, FETCH, state.code, 4) != 0:
        return int64(MAY_BRANCH)
    kind = kind_of_end(int64(array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)[0]))
    ends[n] = (end | kind) ^ state.epoch * SPREAD
    return kind


@routine
def _branched(state: StateRecord, engine: Pointer, user: Pointer, address: int) -> int:
    """Whether the operation before ``address``, executed last, is a branch that led here."""
    if call_read(state.vmem_read, address_of(engine), address - 4, FETCH, state.code, 4) != 0:
        return False
    word = int64(array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)[0])
    number = tests(word)
    state.scratch = 0
    if number >= 0 and number != _ZERO:
        register = _X0 + number
        if number == _FLAGS:
            register = _NZCV
        elif number == 29:
            register = _X29
        elif number == 30:
            register = _X30
        call_register(state.reg_read, address_of(engine), register, address_of(user) + _SCRATCH)
    return took(word, state.scratch)


@routine
def _goes_on(
    state: StateRecord, engine: Pointer, user: Pointer, here: int, size: int, el: int
) -> None:
    """``size`` bytes of operations begin at ``here``, at the Exception level ``el``."""
    uc = address_of(engine)
    led = here != state.flow_next
    if not led and end_of(state, uc, here) != PLAIN:
        led = _branched(state, engine, user, here) != 0
    if led:
        state.flow_target = here
        state.flow = el | state.flow_was << 2
    kind = end_of(state, uc, here + size)
    goes_on_at(state, NOWHERE if kind == BRANCHES else here + size)
    state.flow_asks = kind == MAY_BRANCH
    if kind == MAY_BRANCH:
        state.attend = -1


@entry("void", "pointer", "uint64", "pointer", "uint64", "uint64")
def flow_at_host(engine: Pointer, address: int, user: Pointer, el: int, enabled: int) -> None:
    """The host executes the operation at ``address``, and the engine has begun no block there.

    ``el`` is the Exception level, and ``enabled`` says whether profiling is enabled.
    """
    state = record_at(user, LAYOUT)
    _goes_on(state, engine, user, int64(address), 4, int64(el))
    state.flow_was = int64(enabled)


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_flow(engine: Pointer, address: int, size: int, user: Pointer) -> None:
    """The hook has counted a block, or stopped the engine before it."""
    state = record_at(user, LAYOUT)
    if is_told_twice(state) or state.stop != 0:
        return  # the engine leaves before this block
    _goes_on(state, engine, user, int64(address), int64(size), state.flow_el)
    state.flow_was = state.flow_enabled
    flow_moves(state)  # an ERET may end the block
