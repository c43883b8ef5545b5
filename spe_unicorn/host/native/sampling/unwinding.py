"""Calls by call frame information, in compiled code: for each block, where its callers are.

A block holds no call, so the calls that led to its start are those that led to each operation in
it. What call frame information says of an address is in a table that Python fills: where an address
is not in it yet, Python is told which one, and samples that operation itself.
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
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.native.calls import call_read, call_register
from spe_unicorn.host.native.sampling.frames import (
    COUNT,
    DEPTH,
    FIRST,
    LINK,
    READ,
    ROW_WORDS,
    place_of_row,
    records_from,
)
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.whole import LAYOUT

RULES: Final = 1 << 15
"""Rows of the table of rules, by address; half of them may be in use."""
POOL: Final = 1 << 14
"""Words of the pool of saved registers."""
REGISTERS: Final = 32
"""X0 to X30 and SP, by DWARF's numbers."""
SPAN: Final = 32
"""The most doublewords that are read at once."""
UNKNOWN, ENDS, LEAVES, SAVES, RECORDS = range(5)
"""Of an address: not in the table; without a caller; with the return address in X30, or saved;
without call frame information, so that frame records are followed."""
_SP: Final = 31
_RETURN: Final = 30
_FRAME: Final = 29
_HIGH: Final = 1 << 55
_LOW_BITS: Final = (1 << 48) - 1


class Unwinding:
    """What is known of one PE's code, and room to work in."""

    rules: int
    """The address of the table of rules, by address."""
    pool: int
    """The address of the pool: pairs of a register's number and an offset in bytes."""
    numbers: int
    """The address of a table of the engine's numbers of the registers."""
    values: int
    """The address of a table of what the registers hold in the frame at hand."""
    known: int
    """Which of these are known, a bit each."""
    memory: int
    """The address of room for ``SPAN`` doublewords."""
    missing: int
    """The address whose rule is not in the table; 0 if it was there."""


class Rule:
    """What call frame information says of one address."""

    kind: int
    pc: int
    register: int
    """The canonical frame address is this register and ``offset``."""
    offset: int
    first: int
    """Where its saved registers begin in the pool."""
    count: int
    low: int
    """The lowest offset from the canonical frame address at which one is saved."""
    words: int
    """How many doublewords hold them all; 0 if they are to be read one by one."""


UNWINDING: Final = layout(Unwinding)
RULE: Final = layout(Rule)
_RULE_BYTES: Final = RULE.itemsize


@routine
def _find(own: Unwinding, pc: int) -> int:
    """Where the rule of an address is, or could be put."""
    slot = (pc >> 2 ^ pc >> 17) & (RULES - 1)
    while True:
        place = own.rules + slot * _RULE_BYTES
        rule = record_at(pointer_to(place), RULE)
        if rule.kind == UNKNOWN or rule.pc == pc:
            return place
        slot = slot + 1 & (RULES - 1)


@entry("int64", "pointer", "int64")
def place_of_rule(own: Pointer, pc: int) -> int:
    """For Python: :func:`_find`."""
    return _find(record_at(own, UNWINDING), pc)


@routine
def _value(state: StateRecord, engine: Pointer, own: Unwinding, number: int) -> int:
    """What a register holds in the frame at hand."""
    values = array_at(pointer_to(own.values), (REGISTERS,), np.int64)
    bit = int64(1) << number
    if own.known & bit == 0:
        own.known |= bit
        numbers = array_at(pointer_to(own.numbers), (REGISTERS,), np.int64)
        there = own.values + 8 * number
        call_register(state.reg_read, address_of(engine), numbers[number], there)
    return values[number]


@routine
def _restore(state: StateRecord, engine: Pointer, own: Unwinding, rule: Rule, frame: int) -> bool:
    """Whether the caller's saved registers could be read; they are those of the frame at hand."""
    values = array_at(pointer_to(own.values), (REGISTERS,), np.int64)
    pool = array_at(pointer_to(own.pool), (POOL,), np.int64)
    memory = array_at(pointer_to(own.memory), (SPAN,), np.int64)
    uc = address_of(engine)
    if rule.words != 0:
        size = 8 * rule.words
        if call_read(state.vmem_read, uc, frame + rule.low, READ, own.memory, size) != 0:
            return False
    for n in range(rule.count):
        number, offset = pool[rule.first + 2 * n], pool[rule.first + 2 * n + 1]
        at = offset - rule.low >> 3
        if rule.words == 0:
            at = int64(0)
            if call_read(state.vmem_read, uc, frame + offset, READ, own.memory, 8) != 0:
                return False
        values[number] = memory[at]
        own.known |= int64(1) << number
    return True


@routine
def _is_below(address: int, other: int) -> bool:
    """Whether an address is below another one, both without a sign."""
    if address ^ other < 0:
        return other < 0
    return address < other


@routine
def note_unwound(state: StateRecord, engine: Pointer, n: int, pc: int) -> bool:
    """Note what led to ``pc``, where the engine stands, for sample ``n`` from the next one on.

    Not if a rule is not in the table: ``missing`` then tells which. Calls end where there is no
    caller, where memory cannot be read, and where a caller's frame does not lie above, as the
    stack grows down.
    """
    own = record_at(pointer_to(state.unwinding), UNWINDING)
    row = array_at(pointer_to(place_of_row(state, n)), (ROW_WORDS,), np.int64)
    values = array_at(pointer_to(own.values), (REGISTERS,), np.int64)
    own.known = 0
    row[LINK] = 0
    found = int64(0)
    while found < DEPTH:
        rule = record_at(pointer_to(_find(own, pc)), RULE)
        if rule.kind == UNKNOWN:
            own.missing = pc
            return False
        if rule.kind == RECORDS:
            if found == 0:
                row[LINK] = _value(state, engine, own, _RETURN)
            found = records_from(state, engine, n, found, _value(state, engine, own, _FRAME))
            break
        # a function that has called another has saved its return address
        if rule.kind == ENDS or (found != 0 and rule.kind == LEAVES):
            break
        frame = _value(state, engine, own, rule.register) + rule.offset
        if _is_below(frame, _value(state, engine, own, _SP)):
            break
        if not _restore(state, engine, own, rule, frame):
            break
        values[_SP] = frame
        back = _value(state, engine, own, _RETURN)
        if back & _HIGH:
            back |= ~_LOW_BITS
        else:
            back &= _LOW_BITS
        if back == 0:
            break
        values[_RETURN] = back
        row[FIRST + found] = back
        found += 1
        pc = back - 4
    row[COUNT] = found
    return True


@routine
def note_the_same(state: StateRecord, n: int) -> None:
    """Note for sample ``n`` what led to the one before it, which is in the same block."""
    row = array_at(pointer_to(place_of_row(state, n)), (ROW_WORDS,), np.int64)
    other = array_at(pointer_to(place_of_row(state, n - 1)), (ROW_WORDS,), np.int64)
    for word in range(FIRST + other[COUNT]):
        row[word] = other[word]


@entry("bool", "pointer", "pointer", "int64")
def unwound_here(engine: Pointer, user: Pointer, pc: int) -> bool:
    """For Python: :func:`note_unwound` of the next sample."""
    return note_unwound(record_at(user, LAYOUT), engine, 0, pc)
