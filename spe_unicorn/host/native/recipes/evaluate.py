"""Recipes in compiled code: what a sampled operation will find, before its block runs."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from unicorn import arm64_const as regs
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.registers.system import SCTLR_EL1, SCTLR_EL2, SCTLR_EL3
from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    int64,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.decode.effects import condition_holds
from spe_unicorn.host.native.calls import (
    call_read,
    call_register,
    current_el,
    physical_of,
)
from spe_unicorn.host.native.code import CP_REG, rows_of
from spe_unicorn.host.native.recipes.steps import (
    MOST_STEPS,
    RECIPE_BASE,
    RECIPE_FLAGS,
    RECIPE_INDEX,
    RECIPE_STEPS,
    STEP_WORDS,
    Kind,
)
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.sample_row import Pending
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

_REGISTER = int(Kind.REGISTER)
_CONSTANT = int(Kind.CONSTANT)
_PC = int(Kind.PC)
_ADD = int(Kind.ADD)
_MULTIPLY = int(Kind.MULTIPLY)
_AND = int(Kind.AND)
_OR = int(Kind.OR)
_XOR = int(Kind.XOR)
_LEFT = int(Kind.LEFT)
_RIGHT = int(Kind.RIGHT)
_ARITHMETIC = int(Kind.ARITHMETIC)
_SUM_FLAGS, _LOGICAL_FLAGS = int(Kind.SUM_FLAGS), int(Kind.LOGICAL_FLAGS)
_SELECT = int(Kind.SELECT)
_LOAD = int(Kind.LOAD)
_APART = int(Kind.APART)
_CP_REG: Final = int(regs.UC_ARM64_REG_CP_REG)
_READ: Final = int(uc_const.UC_PROT_READ)
_SCRATCH: Final = offset_of("scratch")
_PHYSICAL: Final = offset_of("physical")
_PAGE_BITS: Final = 12
_IN_PAGE: Final = (1 << _PAGE_BITS) - 1
"""The smallest granule: the offset in a page of it is the same in physical memory."""
_ROW: Final = CP_REG.itemsize
_EE, _E0E = 25, 24
"""Bits of SCTLR_ELx: data accesses are big-endian, there or at EL0."""

routine(condition_holds)


def control_registers() -> NDArray[np.void]:
    """SCTLR_EL1, SCTLR_EL2 and SCTLR_EL3 as the engine's interface names registers."""
    return rows_of(SCTLR_EL1.encoding, SCTLR_EL2.encoding, SCTLR_EL3.encoding)


@routine
def sum_flags(a: int, b: int, carry: int, bits: int) -> int:
    """PSTATE.NZCV after AddWithCarry() of ``bits`` bits, in bits 31 to 28."""
    total = a + b + carry
    top = bits - 1
    n = total >> top & 1
    z = 1 if total << 64 - bits == 0 else 0
    c = (a & b | (a | b) & ~total) >> top & 1
    v = ((a ^ total) & (b ^ total)) >> top & 1
    return n << 31 | z << 30 | c << 29 | v << 28


@routine
def _control(state: StateRecord, engine: Pointer, el: int) -> int:
    """SCTLR_ELx of EL1 to EL3."""
    place = state.system_controls + (el - 1) * _ROW
    call_register(state.reg_read, address_of(engine), _CP_REG, place)
    return array_at(pointer_to(place), (_ROW // 8,), np.int64)[_ROW // 8 - 1]


@routine
def _big_endian(state: StateRecord, engine: Pointer, user: Pointer) -> int:
    """Whether data accesses at the PE's Exception level may be big-endian."""
    el = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    if el != 0:
        return _control(state, engine, el) >> _EE & 1
    return (_control(state, engine, 1) | _control(state, engine, 2)) >> _E0E & 1


@routine
def _apart(engine: Pointer, user: Pointer, a: int, b: int, sizes: int, same: int) -> bool:
    """Whether bytes at ``a`` and ``b`` are different memory; with ``same`` also if ``a`` is ``b``.

    ``sizes`` is as in :attr:`Kind.APART`. Two pages may be one in physical memory.
    """
    if same != 0 and a == b:
        return True
    loaded, stored = sizes & 0xFF, sizes >> 8 & 0xFF
    distance = b - a & _IN_PAGE
    if distance >= loaded and distance + stored <= _IN_PAGE + 1:
        return True
    if (a & _IN_PAGE) + loaded > _IN_PAGE + 1 or (b & _IN_PAGE) + stored > _IN_PAGE + 1:
        return False
    state = record_at(user, LAYOUT)
    uc, place = address_of(engine), address_of(user) + _PHYSICAL
    first = physical_of(state, uc, a, _READ, place)
    second = physical_of(state, uc, b, _READ, place)
    return first >= 0 and second >= 0 and first >> _PAGE_BITS != second >> _PAGE_BITS


@routine
def _evaluate(
    state: StateRecord, engine: Pointer, user: Pointer, block: int, at: int, count: int
) -> bool:
    """Evaluate the ``count`` steps at ``at``. Return False if a step says that nothing is known."""
    steps = array_at(pointer_to(at), (MOST_STEPS, STEP_WORDS), np.int64)
    values = array_at(pointer_to(state.values), (MOST_STEPS,), np.int64)
    for n in range(count):
        word = steps[n, 0]
        number = steps[n, 1]
        kind = word & 0xFF
        a = values[word >> 8 & 0xFF]
        b = values[word >> 16 & 0xFF]
        value = int64(0)
        # what the block begins with
        if kind == _REGISTER:
            values[n] = 0
            call_register(state.reg_read, address_of(engine), number, state.values + 8 * n)
            value = values[n]
        elif kind == _CONSTANT:
            value = number
        elif kind == _PC:
            value = block + number
        # integer arithmetic of earlier values
        elif kind == _ADD:
            value = a + b
        elif kind == _MULTIPLY:
            value = a * b
        elif kind == _AND:
            value = a & b
        elif kind == _OR:
            value = a | b
        elif kind == _XOR:
            value = a ^ b
        elif kind == _LEFT:
            value = a << (b & 63)
        elif kind == _RIGHT:
            value = a if b & 63 == 0 else a >> (b & 63) & (int64(1) << 64 - (b & 63)) - 1
        elif kind == _ARITHMETIC:
            value = a >> (b & 63)
        # the condition flags, and what depends on them
        elif kind == _SUM_FLAGS:
            value = sum_flags(a, b, word >> 32 & 1, number)
        elif kind == _LOGICAL_FLAGS:
            value = sum_flags(a, int64(0), int64(0), number)
        elif kind == _SELECT:
            flags = values[word >> 24 & 0xFF] >> 28 & 15
            value = a if condition_holds(word >> 32 & 15, flags) else b
        # memory: a load before the block runs, and whether stores of the block leave it as it is
        elif kind == _LOAD:
            values[n] = 0
            if _big_endian(state, engine, user):
                return False
            there = state.values + 8 * n
            if call_read(state.vmem_read, address_of(engine), a, _READ, there, number) != 0:
                return False
            value = values[n]
        elif kind == _APART:
            if not _apart(engine, user, a, b, number, word >> 32 & 1):
                return False
            value = a
        values[n] = value
    return True


@routine
def foresee(
    engine: Pointer, user: Pointer, block: int, plans: int, recipe: int, row: Pending
) -> bool:
    """Note in ``row`` what an operation of the block at ``block`` will find.

    ``recipe`` is a plan's word.

    ``plans`` is where the plans of the block begin. False if that takes memory which cannot be read
    beforehand; then nothing is noted.
    """
    state = record_at(user, LAYOUT)
    count = recipe >> RECIPE_STEPS & 0xFF
    at = plans + 8 * (recipe & (1 << RECIPE_STEPS) - 1)
    if not _evaluate(state, engine, user, block, at, count):
        return False
    values = array_at(pointer_to(state.values), (MOST_STEPS,), np.int64)
    place = recipe >> RECIPE_BASE & 0xFF
    if place != 0:
        row.base = values[place - 1]
    place = recipe >> RECIPE_INDEX & 0xFF
    if place != 0:
        row.index = values[place - 1]
    place = recipe >> RECIPE_FLAGS & 0xFF
    if place != 0:
        row.flags = values[place - 1]
    return True
