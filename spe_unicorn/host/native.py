"""The compiled hooks: count operations down, notice what needs Python, stop the engine there.

Every hook is a C function made by numba, so no compiler is needed where this runs. A hook never
decides anything about the architecture: it counts, it looks a number up in a table, and where that
does not settle the matter it leaves a :class:`Stop` and what is known of it in :class:`State` and
stops the engine. All decisions are then made between two runs of the engine, with the PE at rest.

The engine reports the start of a block before it runs, so a block is counted whole and given back
in part by Python when an exception ends it early.

The one exception to "stop and think" is the sampled operation whose record needs no more than a
few registers at the start of its block (see ``blocks``): the block hook notes them and lets the
block run, so that a sample costs one exit of the engine instead of three.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numba import carray, cfunc, from_dtype, njit, types
from unicorn import UcError
from unicorn import arm64_const as regs
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.operation import Extend
from spe_unicorn.arch.sysreg import Encoding
from spe_unicorn.host.engine import PC, PSTATE, Engine, address_of, lib
from spe_unicorn.host.native_block import compile_block_hook
from spe_unicorn.host.native_calls import (
    address_of as _address,
)
from spe_unicorn.host.native_calls import (
    call0 as _call0,
)
from spe_unicorn.host.native_calls import (
    call1 as _call1,
)
from spe_unicorn.host.native_calls import (
    call2 as _call2,
)
from spe_unicorn.host.native_calls import (
    call_read as _call_read,
)
from spe_unicorn.host.native_calls import (
    call_register as _call_register,
)
from spe_unicorn.host.native_calls import (
    call_translate as _call_translate,
)
from spe_unicorn.host.native_calls import (
    pointer_to as _pointer,
)
from spe_unicorn.host.native_code import CP_REG, forget_line, named_registers
from spe_unicorn.host.native_flow import FLOW_HOOK
from spe_unicorn.host.native_state import (
    ALL_COUNTERS,
    BLOCKS,
    CODE_MAINTENANCE,
    CODE_WORDS,
    FLUSH_MAINTENANCE,
    FOLD,
    KEYS,
    LAYOUT,
    LENGTH,
    LINES,
    MARK_RETURN,
    MARK_SYNC,
    MARKS_OF_OURS,
    NOTICE_RETURN,
    PLAN_ACCESS,
    PLAN_ALIGN,
    PLAN_BASE,
    PLAN_BASE_AT_END,
    PLAN_EXTEND,
    PLAN_FLAGS,
    PLAN_FLAGS_AT_END,
    PLAN_INDEX,
    PLAN_INDEX_AT_END,
    PLAN_PLACE,
    PLAN_PLACES,
    PLAN_PROBE,
    PLAN_RUN,
    PLAN_SHIFT,
    PLAN_WORDS,
    PLAN_WRITE,
    PLANS,
    READ,
    SAMPLE_PA,
    SAMPLE_WORDS,
    SAMPLES,
    SPREAD,
    SYSTEM,
    TLB_MAINTENANCE,
    UNBOUNDED,
    WRITE,
    Action,
    Answer,
    State,
    Stop,
    signed,
)

_USER: Final = types.CPointer(from_dtype(LAYOUT))
"""What hooks are given. Compiled code is cached by its signature: with the layout in it, what was
compiled for another layout is not taken."""


_SCRATCH: Final = State.scratch.offset
_STOP_PC: Final = State.pc.offset
_BASE: Final = State.base.offset
_INDEX: Final = State.index.offset
_FLAGS: Final = State.flags.offset
_PHYSICAL: Final = State.physical.offset
_NZCV: Final = int(regs.UC_ARM64_REG_NZCV)
_PC: Final = int(PC)
_PSTATE: Final = int(PSTATE)

_UXTW, _SXTW = int(Extend.UXTW), int(Extend.SXTW)
_MASK: Final = BLOCKS - 1
_STOP_BUDGET, _STOP_EXCEPTION = int(Stop.BUDGET), int(Stop.EXCEPTION)
_STOP_SYSTEM, _STOP_UNMAPPED, _STOP_NOTICED = (
    int(Stop.SYSTEM),
    int(Stop.UNMAPPED),
    int(Stop.NOTICED),
)
_STOP_UNSEEN, _STOP_INTERRUPT, _STOP_TRAP = int(Stop.UNSEEN), int(Stop.INTERRUPT), int(Stop.TRAP)
_WRITE_UNMAPPED: Final = int(uc_const.UC_MEM_WRITE_UNMAPPED)
_FETCH_UNMAPPED: Final = int(uc_const.UC_MEM_FETCH_UNMAPPED)
_WRITE_PROT: Final = int(uc_const.UC_MEM_WRITE_PROT)
_FETCH_PROT: Final = int(uc_const.UC_MEM_FETCH_PROT)
_STOP_WRONG_PATH: Final = int(Stop.WRONG_PATH)
_STOP_MISALIGNED: Final = int(Stop.MISALIGNED)
_ANSWER_STOP, _ANSWER_NOTICE = int(Answer.STOP), int(Answer.NOTICE)
_RETURN: Final = int(Action.RETURN)
_OURS: Final = int(MARKS_OF_OURS)
_CODE, _LINE, _REGIME, _ASK, _COUNT, _TRANSLATION, _NOTICE, _STOP = (
    int(Action.CODE),
    int(Action.LINE),
    int(Action.REGIME),
    int(Action.ASK),
    int(Action.COUNT),
    int(Action.TRANSLATION),
    int(Action.NOTICE),
    int(Action.STOP),
)


@njit  # type: ignore[untyped-decorator]
def _slot(s: Any, engine: Any, address: Any, operations: Any) -> Any:
    """Where the block at ``address`` stands in the block table, -1 if it is not there."""
    slot = (address >> 2 ^ address >> FOLD ^ operations << LENGTH) & _MASK
    keys = carray(_pointer(s.block_keys), (BLOCKS,), np.int64)
    if keys[slot] != address ^ operations:
        return -1
    epochs = carray(_pointer(s.block_epochs), (BLOCKS,), np.int64)
    if epochs[slot] != s.epoch:
        # the address may have another meaning by now, but hardly ever has
        if not _holds(s, engine, address, operations, slot):
            return -1
        epochs[slot] = s.epoch
    return slot


@njit  # type: ignore[untyped-decorator]
def _holds(s: Any, engine: Any, address: Any, operations: Any, slot: Any) -> Any:
    """Whether the code at ``address`` is that of the block in ``slot``."""
    if _call_read(s.vmem_read, _address(engine), address, s.code, 4 * operations) != 0:
        return False
    code = carray(_pointer(s.code), (CODE_WORDS,), np.uint32)
    plans = carray(_pointer(s.plans), (PLANS,), np.int64)
    weight = carray(_pointer(s.weights), (BLOCKS,), np.int64)[slot]
    place = carray(_pointer(s.block_plans), (BLOCKS,), np.int64)[slot] + PLAN_WORDS * weight
    same = True
    for n in range(operations):
        same &= plans[place + n] == np.int64(code[n])
    return same


@njit(inline="always")  # type: ignore[untyped-decorator]
def _deliverable(s: Any, engine: Any, user: Any) -> Any:
    """Whether a pending interrupt is to be taken at the PE's Exception level and masks."""
    _call_register(s.reg_read, _address(engine), _PSTATE, _address(user) + _SCRATCH)
    pstate = s.scratch
    bits = s.deliver >> (pstate >> 2 & 3) * 4
    return (
        bits & 0b0101 != 0
        or (bits & 0b0010 != 0 and pstate & 0x80 == 0)
        or (bits & 0b1000 != 0 and pstate & 0x40 == 0)
        or (s.deliver >> 16 + (pstate >> 2 & 3) & 1 != 0 and pstate & 0x100 == 0)
    )


@njit(inline="always")  # type: ignore[untyped-decorator]
def _stop(s: Any, engine: Any, why: Any, address: Any, operations: Any) -> None:
    """Stop in front of a block that has not been counted."""
    s.stop = why
    s.block = address
    s.block_operations = operations
    _call1(s.emu_stop, _address(engine))


@njit  # type: ignore[untyped-decorator]
def _goes_on(s: Any, engine: Any, user: Any, address: Any, operations: Any) -> Any:
    """Whether a block may run that is not known to be harmless; if not, the engine is stopped."""
    if s.deliver != 0 and s.notice == 0 and _deliverable(s, engine, user):
        _stop(s, engine, _STOP_INTERRUPT, address, 0)
        return False
    if s.watch == 0 and s.weigh == 0:
        return True
    slot = _slot(s, engine, address, operations)
    if slot < 0:
        _stop(s, engine, _STOP_UNSEEN, address, operations)
        return False
    marks = carray(_pointer(s.block_marks), (BLOCKS,), np.int64)[slot]
    if marks & s.watch & _OURS:
        _stop(s, engine, _STOP_TRAP, address, operations)
        return False
    if marks & MARK_SYNC and s.noted != 0:
        _stop(s, engine, _STOP_UNSEEN, address, operations)
        return False
    if marks & s.watch & MARK_RETURN:
        # run it, and have the hook stop in front of what the ERET leads to
        s.notice = NOTICE_RETURN
        s.granted -= s.budget - operations
        s.budget = operations
    if marks & s.relevant == 0:
        quick = carray(_pointer(s.quick), (BLOCKS,), np.int64)
        quick[slot] = address ^ operations ^ s.epoch * SPREAD
    return True


@njit(inline="always")  # type: ignore[untyped-decorator]
def _note_registers(s: Any, engine: Any, user: Any, plan: Any) -> None:
    """Note the registers of a plan that have the value that counts here and now."""
    here = _address(user)
    number = plan >> PLAN_BASE & 0xFFFF
    if number != 0 and plan & PLAN_BASE_AT_END == 0:
        _call_register(s.reg_read, _address(engine), number - 1, here + _BASE)
    number = plan >> PLAN_INDEX & 0xFFFF
    if number != 0 and plan & PLAN_INDEX_AT_END == 0:
        _call_register(s.reg_read, _address(engine), number - 1, here + _INDEX)
    if plan & PLAN_FLAGS:
        _call_register(s.reg_read, _address(engine), _NZCV, here + _FLAGS)


@njit  # type: ignore[untyped-decorator]
def _note_sample(s: Any, engine: Any, user: Any, following: Any) -> None:
    """The block of the sampled operation has run: note the sample, and go on to the next one."""
    here = _address(user)
    plan = s.plan
    member = s.pending - 1
    k = plan >> PLAN_PLACE & PLAN_PLACES
    s.pending = 0
    executed = s.granted - s.budget
    behind = s.block_operations - k - 1
    row = carray(_pointer(s.samples + s.noted * SAMPLE_WORDS * 8), (SAMPLE_WORDS,), np.int64)
    row[0] = s.instruction
    row[1] = s.block + 4 * k
    row[2] = executed - behind - 1 + s.skipped
    row[3] = following
    _call_register(s.reg_read, _address(engine), _PSTATE, here + _SCRATCH)
    bits = s.scratch >> 2 & 3
    if plan & PLAN_ACCESS:
        number = plan >> PLAN_BASE & 0xFFFF
        writeback = s.access >> 32
        if number == 0:
            address = s.block + 4 * k
        else:
            if plan & PLAN_BASE_AT_END:
                _call_register(s.reg_read, _address(engine), number - 1, here + _BASE)
                s.base -= writeback
            address = s.base
        address += (s.access << 32) >> 32
        number = plan >> PLAN_INDEX & 0xFFFF
        if number != 0:
            if plan & PLAN_INDEX_AT_END:
                _call_register(s.reg_read, _address(engine), number - 1, here + _INDEX)
            index = s.index
            extend = plan >> PLAN_EXTEND & 7
            if extend == _UXTW:
                index &= 0xFFFFFFFF
            elif extend == _SXTW:
                index = (index << 32) >> 32
            address += index << (plan >> PLAN_SHIFT & 7)
        address &= -(np.int64(1) << (plan >> PLAN_ALIGN & 15))
        row[4] = address
        kind = 2 if plan & PLAN_WRITE else 1
        if (
            _call_translate(s.vmem_translate, _address(engine), address, kind, here + _PHYSICAL)
            == 0
        ):
            row[5] = s.physical
            bits |= SAMPLE_PA
    if plan & PLAN_FLAGS_AT_END:
        _call_register(s.reg_read, _address(engine), _NZCV, here + _FLAGS)
    row[6] = s.flags
    row[7] = bits
    row[9] = s.flow_target
    row[10] = s.flow
    gap = carray(_pointer(s.gaps), (SAMPLES,), np.int64)[s.noted]
    s.noted += 1
    if s.weigh != 0:
        behind = carray(_pointer(s.weights), (BLOCKS,), np.int64)[s.slot] - member - 1
        row[8] = s.members_granted - s.members - behind
        s.members = gap - 1 - behind
        s.members_granted = row[8] + gap - 1
        return
    row[8] = executed - behind
    budget = gap - 1 - behind
    if budget > s.horizon - executed:
        # the end of the slice or of the run comes before the next one
        budget = max(s.horizon - executed, 0)
        s.gap_floor = 0
    s.budget = budget
    s.granted = executed + budget


@njit(inline="always")  # type: ignore[untyped-decorator]
def _samples(s: Any, engine: Any, user: Any, address: Any, slot: Any, member: Any) -> Any:
    """Whether a member of a block can be sampled by letting the block run; prepare for it if so."""
    marks = carray(_pointer(s.block_marks), (BLOCKS,), np.int64)[slot]
    if marks & s.watch & _OURS:
        return False
    place = carray(_pointer(s.block_plans), (BLOCKS,), np.int64)[slot] + PLAN_WORDS * member
    plans = carray(_pointer(s.plans), (PLANS,), np.int64)
    plan = plans[place]
    if plan & PLAN_RUN == 0:
        return False
    if plan & PLAN_PROBE:
        s.probe = address + 4 * (plan >> PLAN_PLACE & PLAN_PLACES)
    else:
        _note_registers(s, engine, user, plan)
    s.slot = slot
    s.plan = plan
    s.access = plans[place + 1]
    s.instruction = plans[place + 2]
    s.pending = member + 1
    return True


@njit  # type: ignore[untyped-decorator]
def _weigh_block(s: Any, engine: Any, user: Any, address: Any, operations: Any) -> None:
    """A block that is not known to be harmless, where the population is counted by weights."""
    if s.pending != 0:
        _note_sample(s, engine, user, address)
        if s.noted >= s.room:
            _stop(s, engine, _STOP_BUDGET, address, operations)
            return
    if s.wrong != 0:
        _stop(s, engine, _STOP_WRONG_PATH, address, operations)
        return
    if s.notice != 0:
        _stop(s, engine, _STOP_NOTICED, address, operations)
        return
    if s.deliver != 0 and _deliverable(s, engine, user):
        _stop(s, engine, _STOP_INTERRUPT, address, 0)
        return
    if address & s.pc_mask != 0:
        _stop(s, engine, _STOP_MISALIGNED, address, 0)
        return
    slot = _slot(s, engine, address, operations)
    if slot < 0:
        _stop(s, engine, _STOP_UNSEEN, address, operations)
        return
    weight = carray(_pointer(s.weights), (BLOCKS,), np.int64)[slot]
    ends = operations > s.budget
    if weight > s.members:
        near = weight - s.members > s.gap_floor or s.epoch != s.gap_epoch
        if near or (ends and s.exact != 0):
            _stop(s, engine, _STOP_BUDGET, address, operations)
            return
        if not _samples(s, engine, user, address, slot, s.members):
            _stop(s, engine, _STOP_BUDGET, address, operations)
            return
    elif ends:
        _stop(s, engine, _STOP_BUDGET, address, operations)
        return
    elif not _goes_on(s, engine, user, address, operations):
        return
    s.budget -= operations
    s.members -= weight
    s.block = address
    s.block_operations = operations


@cfunc(types.void(types.voidptr, _USER, types.int64, types.int64), cache=True)  # type: ignore[untyped-decorator]
def _on_special_block(engine: Any, user: Any, address: Any, operations: Any) -> None:
    """A block that exceeds the budget, or has to be looked at before it runs."""
    s = carray(user, (1,), LAYOUT)[0]
    aligned = address & s.pc_mask == 0
    if s.weigh != 0:
        _weigh_block(s, engine, user, address, operations)
        return
    if operations <= s.budget and aligned:
        if _goes_on(s, engine, user, address, operations):
            s.budget -= operations
            s.block = address
            s.block_operations = operations
        return
    if s.pending != 0:
        _note_sample(s, engine, user, address)
        if s.noted >= s.room:
            _stop(s, engine, _STOP_BUDGET, address, operations)
            return
        if operations <= s.budget and aligned:
            if s.special == 0 or _goes_on(s, engine, user, address, operations):
                s.budget -= operations
                s.block = address
                s.block_operations = operations
            return
    if s.unattended != 0:
        # an access had the block be the last one: in a run of the user's, nobody is to look
        s.notice = 0
        s.granted += UNBOUNDED - s.budget
        s.budget = UNBOUNDED - operations
        s.block = address
        s.block_operations = operations
        return
    if s.notice != 0:
        _stop(s, engine, _STOP_NOTICED, address, operations)
        return
    if s.deliver != 0 and _deliverable(s, engine, user):
        _stop(s, engine, _STOP_INTERRUPT, address, 0)
        return
    if not aligned:
        _stop(s, engine, _STOP_MISALIGNED, address, 0)
        return
    # the operation after the next `budget` ones lies in this block
    fits = s.exact == 0 or s.granted - s.budget + operations <= s.horizon
    if fits and operations - s.budget <= s.gap_floor and s.epoch == s.gap_epoch:
        slot = _slot(s, engine, address, operations)
        if slot >= 0 and _samples(s, engine, user, address, slot, s.budget):
            s.budget -= operations
            s.block = address
            s.block_operations = operations
            return
    _stop(s, engine, _STOP_BUDGET, address, operations)


@cfunc(types.void(types.voidptr, types.uint64, types.uint32, _USER), cache=True)  # type: ignore[untyped-decorator]
def _on_probe(engine: Any, address: Any, size: Any, user: Any) -> None:
    """In front of an operation that is hard to describe: note its registers if it is sampled."""
    s = carray(user, (1,), LAYOUT)[0]
    if s.probe == np.int64(address):
        s.probe = 0
        _note_registers(s, engine, user, s.plan)


@cfunc(types.void(types.voidptr, types.uint32, _USER), cache=True)  # type: ignore[untyped-decorator]
def _on_interrupt(engine: Any, number: Any, user: Any) -> None:
    """Keep what the engine knows of an exception, which it forgets afterwards, and stop."""
    s = carray(user, (1,), LAYOUT)[0]
    s.stop = _STOP_EXCEPTION
    s.interrupt = np.int64(number)
    _call_register(s.reg_read, _address(engine), _PC, _address(user) + _STOP_PC)
    _call2(s.context_save, _address(engine), s.context)
    _call1(s.emu_stop, _address(engine))


@cfunc(
    types.boolean(types.voidptr, types.int32, types.uint64, types.int32, types.int64, _USER),
    cache=True,
)  # type: ignore[untyped-decorator]
def _on_unmapped(engine: Any, kind: Any, address: Any, size: Any, value: Any, user: Any) -> bool:
    """Note an access to memory that is not there, or not for it; the engine stops before it."""
    s = carray(user, (1,), LAYOUT)[0]
    s.stop = _STOP_UNMAPPED
    if kind == _FETCH_PROT:
        s.access_type = _FETCH_UNMAPPED
    elif kind == _WRITE_PROT:
        s.access_type = _WRITE_UNMAPPED
    else:
        s.access_type = np.int64(kind)
    s.access_address = np.int64(address)
    s.access_size = np.int64(size)
    s.access_value = value
    return False


@njit(inline="always")  # type: ignore[untyped-decorator]
def _counter_allowed(s: Any, engine: Any, user: Any, key: Any) -> Any:
    """Whether the PE may read CNTPCT or CNTVCT where it is; the engine traps it if not."""
    _call_register(s.reg_read, _address(engine), _PSTATE, _address(user) + _SCRATCH)
    return s.counters >> ((s.scratch >> 2 & 3) * 2 + (key & 1 ^ 1)) & 1 != 0


@njit(inline="always")  # type: ignore[untyped-decorator]
def _engine_identifies(s: Any, engine: Any, user: Any, r: Any) -> Any:
    """Whether the engine is to answer for a constant here: at EL0, which it traps, and at EL1."""
    _call_register(s.reg_read, _address(engine), _PSTATE, _address(user) + _SCRATCH)
    el = s.scratch >> 2 & 3
    return el == 0 or (el == 1 and r.crn == 0 and s.engine_identity >> (r.crm != 0) & 1 != 0)


@njit(inline="always")  # type: ignore[untyped-decorator]
def _at_its_level(s: Any, engine: Any, user: Any, op1: Any) -> Any:
    """Whether the PE is at an Exception level that has registers with this op1 at all."""
    _call_register(s.reg_read, _address(engine), _PSTATE, _address(user) + _SCRATCH)
    el = s.scratch >> 2 & 3
    return el == 3 or (el == 2 and op1 != 6) or (el == 1 and op1 == 0)


def _system_hook(kind: int) -> Any:
    """The hook for MRS, MSR or SYS: 0 lets the engine execute it, 1 says that it is done."""
    table_offset = kind * KEYS

    def hook(engine: Any, register: Any, cp: Any, user: Any) -> int:
        s = carray(user, (1,), LAYOUT)[0]
        r = carray(cp, (1,), CP_REG)[0]
        key = (
            np.int64(r.op0) << 14
            | np.int64(r.op1) << 11
            | np.int64(r.crn) << 7
            | np.int64(r.crm) << 3
            | np.int64(r.op2)
        )
        action = carray(_pointer(s.actions + table_offset), (KEYS,), np.uint8)[key]
        if action == 0:
            return 0
        if action in (_TRANSLATION, _CODE, _LINE):
            s.epoch += 1
            s.writes += 1
            if kind == SYSTEM and action != _LINE:
                s.maintenance |= TLB_MAINTENANCE if action == _TRANSLATION else CODE_MAINTENANCE
            all_entries = kind == SYSTEM and r.crn == 8 and r.crm in (1, 3, 7) and r.op2 & 1 == 0
            if all_entries and _at_its_level(s, engine, user, r.op1):
                s.flushes += 1  # TLBI of all entries or of an ASID, not by address
                if r.crm != 7:
                    s.maintenance |= FLUSH_MAINTENANCE
            if action == _CODE or (
                action == _LINE and not forget_line(s, engine, user, np.int64(register))
            ):
                s.notice = 1
                s.stale_code = 1
                s.granted -= s.budget
                s.budget = 0
            return 0
        if action in (_NOTICE, _REGIME):
            known = carray(_pointer(s.cells), (KEYS,), np.int64)
            if known[key] == r.value or not _at_its_level(s, engine, user, r.op1):
                return 0
            matters = (known[key] ^ r.value) & carray(_pointer(s.matters), (KEYS,), np.int64)[key]
            known[key] = r.value
            s.writes += 1
            if matters == 0:
                return 0
            if action == _REGIME:
                s.epoch += 1
            # the access is the last operation of its block
            s.notice = 1
            s.steered = 1
            s.granted -= s.budget
            s.budget = 0
            return 0
        if action == _RETURN:
            el = max(np.int64(r.op1) >> 1, 1)
            legal = s.legal_returns >> (el - 1) * 16 + (r.value & 0xF) & 1
            suspect = legal == 0 or r.value & (1 << 4 | 1 << 20) != 0
            if (s.suspect >> el & 1 != 0) != suspect and _at_its_level(s, engine, user, r.op1):
                s.writes += 1
                s.notice = 1
                s.steered = 1
                s.granted -= s.budget
                s.budget = 0
            return 0
        here = _address(user)
        _call_register(s.reg_read, _address(engine), _PC, here + _SCRATCH)
        if action in (_ASK, _STOP):
            s.kind = kind
            s.key = key
            s.rt = np.int64(register)
            if action == _ASK:
                answer: int = _call0(s.ask)
                if answer == _ANSWER_NOTICE:
                    s.notice = 1
                    s.granted -= s.budget
                    s.budget = 0
                    return 1
                if answer != _ANSWER_STOP:
                    return answer
            s.stop = _STOP_SYSTEM
            # writing the PC makes the engine leave the block without executing the access
            _call_register(s.reg_write, _address(engine), _PC, here + _SCRATCH)
            _call1(s.emu_stop, _address(engine))
            return 1
        value = carray(_pointer(s.cells), (KEYS,), np.int64)[key]
        if action == _COUNT:
            if s.counters != ALL_COUNTERS and not _counter_allowed(s, engine, user, key):
                return 0
            _call_register(s.reg_read, _address(engine), _PC, here + _SCRATCH)
            rest = s.block_operations - ((s.scratch - s.block) >> 2)
            value = ((s.granted - s.budget - rest + s.skipped) >> 4) - value
        elif _engine_identifies(s, engine, user, r):
            return 0
        # the engine has these registers, so the block goes on; a write of the PC here would spoil
        # the PC at a later stop
        s.scratch = value
        _call_register(s.reg_write, _address(engine), np.int64(register), here + _SCRATCH)
        return 1

    return hook


_SYSTEM_SIGNATURE: Final = types.uint32(types.voidptr, types.uint32, types.voidptr, _USER)
_on_mrs: Final = cfunc(_SYSTEM_SIGNATURE, cache=True)(_system_hook(READ))
_on_msr: Final = cfunc(_SYSTEM_SIGNATURE, cache=True)(_system_hook(WRITE))
_on_sys: Final = cfunc(_SYSTEM_SIGNATURE, cache=True)(_system_hook(SYSTEM))


class NativeHooks:
    """The compiled hooks on one engine, and the tables that they read."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.state = State()
        self.actions = np.zeros((3, KEYS), np.uint8)
        self.cells = np.zeros(KEYS, np.int64)
        self.matters = np.full(KEYS, -1, np.int64)
        self.block_keys = np.full(BLOCKS, -1, np.int64)
        self.block_epochs = np.zeros(BLOCKS, np.int64)
        self.block_marks = np.zeros(BLOCKS, np.int64)
        self.block_plans = np.zeros(BLOCKS, np.int64)
        self.weights = np.zeros(BLOCKS, np.int64)
        self.plans = np.zeros(PLANS, np.int64)
        self.samples = np.zeros((SAMPLES, SAMPLE_WORDS), np.int64)
        self.gaps = np.zeros(SAMPLES, np.int64)
        self.quick = np.full(BLOCKS, -1, np.int64)
        self.code = np.zeros(CODE_WORDS, np.uint32)
        self.context = engine.uc.context_save()
        state = self.state
        for function in (
            *("emu_stop", "reg_read", "reg_write", "context_save"),
            *("vmem_translate", "vmem_read"),
        ):
            setattr(state, function, address_of(f"uc_{function}"))
        state.control = address_of("uc_ctl")
        self.named = named_registers()
        self.lines = np.zeros(LINES, np.int64)
        state.context = self.context.context.value
        for table in (
            "actions",
            "cells",
            "matters",
            "block_keys",
            "block_epochs",
            "block_marks",
            "block_plans",
            "weights",
            "plans",
            "code",
            "samples",
            "gaps",
            "quick",
            "named",
            "lines",
        ):
            setattr(state, table, getattr(self, table).ctypes.data)
        self._hooks: list[ctypes.c_size_t] = []
        self.follows_flow = False
        """Whether the last branch is known."""
        self.trapped: frozenset[int] = frozenset()
        """What blocks have :data:`~native_state.MARK_TRAP` for (``arch.fine_grained_traps``)."""

    def install(
        self,
        gaps: Iterable[tuple[int, int]] = (),
        read_only: Iterable[tuple[int, int]] = (),
        secure: Iterable[tuple[int, int]] = (),
        *,
        weighed: bool = False,
    ) -> None:
        """Add the hooks to the engine, whose translated code must be none or be flushed.

        ``weighed``: the population that is sampled can be micro-operations.
        ``gaps`` are the physical address ranges, first to last, where there is no memory and
        accesses are ours to answer, ``read_only`` those where stores are if the engine has no right
        to them, ``secure`` those where the same goes for loads and fetches. They are needed
        exactly: a hook over memory that is there makes every store to it ten times slower.
        """
        instruction = uc_const.UC_HOOK_INSN
        self.add(uc_const.UC_HOOK_BLOCK, compile_block_hook(_on_special_block.address, weighed))
        if self.follows_flow:
            self.add(uc_const.UC_HOOK_BLOCK, FLOW_HOOK)
        self.stop_at_exceptions()
        for gap in gaps:
            self.add(uc_const.UC_HOOK_MEM_UNMAPPED, _on_unmapped.address, bounds=gap)
        refused = uc_const.UC_HOOK_MEM_READ_PROT | uc_const.UC_HOOK_MEM_FETCH_PROT
        for kinds, ranges in ((uc_const.UC_HOOK_MEM_WRITE_PROT, read_only), (refused, secure)):
            for bounds in ranges:
                self.add(kinds, _on_unmapped.address, bounds=bounds)
        self.add(instruction, _on_mrs.address, regs.UC_ARM64_INS_MRS)
        self.add(instruction, _on_msr.address, regs.UC_ARM64_INS_MSR)
        self.add(instruction, _on_sys.address, regs.UC_ARM64_INS_SYS)

    def add(
        self,
        kind: int,
        hook: int,
        *arguments: int,
        bounds: tuple[int, int] = (1, 0),
        user: int | None = None,
    ) -> ctypes.c_size_t:
        """Add a hook: its kind, its address, and what the engine wants to know besides.

        ``bounds`` are the first and last address that it is for, by default all. It is given the
        address ``user``, by default that of the state. Returns the engine's handle.
        """
        handle = ctypes.c_size_t()
        status = lib.uc_hook_add(
            self.engine.handle,
            ctypes.byref(handle),
            kind,
            ctypes.c_void_p(hook),
            ctypes.c_void_p(ctypes.addressof(self.state) if user is None else user),
            ctypes.c_uint64(bounds[0]),
            ctypes.c_uint64(bounds[1]),
            *(ctypes.c_int32(a) for a in arguments),
        )
        if status != uc_const.UC_ERR_OK:
            raise UcError(status)
        self._hooks.append(handle)
        return handle

    def follow_flow(self) -> None:
        """Keep the last branch known from now on."""
        if not self.follows_flow:
            self.follows_flow = True
            if self._hooks:
                self.add(uc_const.UC_HOOK_BLOCK, FLOW_HOOK)
                self.engine.uc.ctl_flush_tb()

    def mark_traps(self, trapped: frozenset[int]) -> None:
        """Have blocks marked that hold what fine-grained traps trap: those seen before, too."""
        if trapped != self.trapped:
            self.trapped = trapped
            self.block_keys.fill(-1)
            self.quick.fill(-1)

    def stop_at_exceptions(self) -> None:
        """Have exceptions stop the engine, behind all other hooks for them."""
        self._exceptions = self.add(uc_const.UC_HOOK_INTR, _on_interrupt.address)

    def ignore_exceptions(self) -> None:
        """Leave exceptions to the engine and to other hooks."""
        self.delete(self._exceptions)

    def delete(self, handle: ctypes.c_size_t) -> None:
        """Take a hook off the engine; translations that call it must be flushed."""
        self._hooks.remove(handle)
        lib.uc_hook_del(self.engine.handle, handle)

    def probe(self, address: int) -> None:
        """Have the registers of the operation at ``address`` noted there when it is sampled."""
        self.add(uc_const.UC_HOOK_CODE, _on_probe.address, bounds=(address, address))
        self.engine.forget_code(address, address + 4)

    def remove(self) -> None:
        """Take the hooks off the engine, and the translations that call them."""
        for handle in self._hooks:
            lib.uc_hook_del(self.engine.handle, handle)
        self._hooks.clear()
        self.engine.uc.ctl_flush_tb()

    def ask_by(self, answer: Callable[[], int]) -> None:
        """The function behind :attr:`Action.ASK`; it must not raise."""
        self._ask = ctypes.CFUNCTYPE(ctypes.c_int32)(answer)
        self.state.ask = ctypes.cast(self._ask, ctypes.c_void_p).value or 0

    def act(self, action: Action, encoding: Encoding, *kinds: int, cell: int = 0) -> None:
        """Choose what the hooks do with an encoding, for each of READ, WRITE and SYSTEM named."""
        for kind in kinds:
            self.actions[kind, encoding.key] = action
        self.set_cell(encoding, cell)

    def set_cell(self, encoding: Encoding, value: int) -> None:
        """What :attr:`Action.CELL` reads, or the offset that :attr:`Action.COUNT` subtracts."""
        self.cells[encoding.key] = signed(value)
