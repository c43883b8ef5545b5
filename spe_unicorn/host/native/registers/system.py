"""The hooks for MRS, MSR and SYS. The table of actions says what to do for an encoding."""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import arm64_const as regs

from spe_unicorn.arch.pe import EL1, EL2
from spe_unicorn.arch.registers.system import SPSR
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
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import (
    call_ask,
    call_register,
    call_sampling,
    current_el,
    flush_tlb,
    move_on,
    stop_engine,
)
from spe_unicorn.host.native.code import CP_REG, NamedRegister, forget_line
from spe_unicorn.host.native.levels import return_changes, spsr_written
from spe_unicorn.host.native.registers.gic import answer_gic
from spe_unicorn.host.native.registers.switches import switches, switches_stepping
from spe_unicorn.host.native.registers.timer import answer_timer, count_now
from spe_unicorn.host.native.registers.zeroing import zeroes
from spe_unicorn.host.native.rules import changes_return, count_write
from spe_unicorn.host.native.state.actions import KEYS, READ, SYSTEM, WRITE, Action, Answer
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.clock import CODE_MAINTENANCE, FLUSH_MAINTENANCE, TLB_MAINTENANCE
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import (
    begin_epoch,
    broadcast,
    register_written,
    tlb_flushed,
)
from spe_unicorn.host.native.state.request import CHECK_SYSTEM
from spe_unicorn.host.native.state.steer import ALL_COUNTERS, IN_HOST
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import CONTROLS_WRITTEN, forget_access, note_controls
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of
from spe_unicorn.host.native.translated import code_is_in_memory

_SCRATCH: Final = offset_of("scratch")
_PC: Final = int(PC)
_STOP_SYSTEM: Final = int(Stop.SYSTEM)
_STOP_ACCESS: Final = int(Stop.ACCESS)
_ANSWER_STOP, _ANSWER_NOTICE = int(Answer.STOP), int(Answer.NOTICE)
_RETURN = int(Action.RETURN)
_RECORDS = int(Action.RECORDS)
_ALIAS = int(Action.ALIAS)
_CP_REG: Final = int(regs.UC_ARM64_REG_CP_REG)
_EL12 = int(Action.EL12)
_GIC = int(Action.GIC)
_SAMPLING = int(Action.SAMPLING)
_SS: Final = int(SPSR.SS.mask)
_CODE = int(Action.CODE)
_LINE = int(Action.LINE)
_REGIME = int(Action.REGIME)
_ASK = int(Action.ASK)
_COUNT = int(Action.COUNT)
_TRANSLATION = int(Action.TRANSLATION)
_NOTICE = int(Action.NOTICE)
_STOP = int(Action.STOP)
_STEPPING = int(Action.STEPPING)
_TIMER = int(Action.TIMER)
_ZERO = int(Action.ZERO)


@routine
def _counter_allowed(state: StateRecord, engine: Pointer, user: Pointer, key: int) -> bool:
    """Whether the PE may read CNTPCT or CNTVCT at its level. If not, the engine traps the read."""
    el = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    return state.counters >> (el * 2 + (key & 1 ^ 1)) & 1 != 0


@routine
def _is_without_offset(state: StateRecord, engine: Pointer, user: Pointer, key: int) -> bool:
    """Whether it is CNTVCT that is read, and by an OS at EL2 or an application of its own."""
    if state.counters >> IN_HOST == 0 or key & 1 != 0:
        return False
    el = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    return state.counters >> (IN_HOST + el) & 1 != 0


@routine
def _engine_identifies(
    state: StateRecord, engine: Pointer, user: Pointer, r: NamedRegister
) -> bool:
    """Whether the engine is to handle a read of a constant: it traps it at EL0, answers at EL1."""
    el = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    return el == 0 or (el == 1 and r.crn == 0 and state.engine_identity >> (r.crm != 0) & 1 != 0)


@routine
def _at_its_level(state: StateRecord, engine: Pointer, user: Pointer, op1: int) -> bool:
    """Whether the PE is at an Exception level that has registers with this op1 at all."""
    el = current_el(state, address_of(engine), address_of(user) + _SCRATCH)
    return el == 3 or (el == 2 and op1 != 6) or (el == 1 and op1 == 0)


@routine
def _counted(
    state: StateRecord, engine: Pointer, user: Pointer, key: int, value: int, action: int
) -> None:
    """Count the write of a register whose writes are noticed. The engine may stop after it."""
    known = array_at(pointer_to(state.cells), (KEYS,), np.int64)
    if known[key] == value:
        return
    matters = (known[key] ^ value) & array_at(pointer_to(state.matters), (KEYS,), np.int64)[key]
    known[key] = value
    written = state.controls_written
    if not count_write(state, action, matters != 0):
        return
    if action != _RECORDS and written == 0 and switches(state, engine, user, key, value):
        state.controls_written = 0
        return
    state.control_key = key if written == 0 else 0
    state.control_value = value
    end_after_block(state)  # the access is the last operation of its block


@routine
def _write_named(
    state: StateRecord, engine: Pointer, user: Pointer, key: int, value: int, action: int
) -> None:
    """Write the register that ``State.alias`` names. The guest wrote it by another name.

    ``key`` and ``action`` are those of a write by its own name, by which the engine would empty its
    TLB.
    """
    row = record_at(pointer_to(state.alias), CP_REG)
    differs = row.value != value
    if differs:
        row.value = value
        call_register(state.reg_write, address_of(engine), _CP_REG, state.alias)
    if action in (_NOTICE, _REGIME, _RECORDS):
        _counted(state, engine, user, key, value, action)
    elif action != 0:
        register_written(state)
    if differs and action in (_TRANSLATION, _REGIME):
        if action == _TRANSLATION:
            begin_epoch(state)
        flush_tlb(state, address_of(engine))


@routine
def _write_but(state: StateRecord, engine: Pointer, r: NamedRegister, withheld: int) -> None:
    """Make an MSR, but for the bits ``withheld``, which the engine does not get."""
    row = record_at(pointer_to(state.alias), CP_REG)
    row.op1 = r.op1
    row.crn = r.crn
    row.crm = r.crm
    row.op2 = r.op2
    row.value = r.value & ~withheld
    call_register(state.reg_write, address_of(engine), _CP_REG, state.alias)


@routine
def _alias(engine: Pointer, user: Pointer, value: int, key: int, register: int, read: int) -> int:
    """An EL1 name that means a register of EL2 at EL2: 1 if done, 0 elsewhere, -1 to ask Python."""
    state = record_at(user, LAYOUT)
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    if current_el(state, uc, scratch) != EL2:
        return 0
    meant = int64(array_at(pointer_to(state.aliases), (KEYS,), np.uint16)[key])
    action = array_at(pointer_to(state.actions + WRITE * KEYS), (KEYS,), np.uint8)[meant]
    suspect = not read and action == _RETURN and changes_return(state, EL2, value)
    if suspect and (state.control_set == 0 or state.notice != 0):
        return -1
    row = record_at(pointer_to(state.alias), CP_REG)
    row.op1, row.crn = meant >> 11 & 7, meant >> 7 & 15
    row.crm, row.op2 = meant >> 3 & 15, meant & 7
    call_register(state.reg_read, uc, _CP_REG, state.alias)
    if read:
        state.scratch = row.value
        call_register(state.reg_write, uc, int64(register), scratch)
        return 1
    if row.value == value:
        return 1
    _write_named(state, engine, user, meant, value, action)
    if action == _RETURN:
        spsr_written(state, EL2, value, EL2)
    if suspect:
        return_changes(state, EL2, EL2)
    return 1


@routine
def _by_el12(
    engine: Pointer, user: Pointer, r: NamedRegister, register: int, action: int, read: int
) -> bool:
    """An access by an _EL12 name. Return False if Python has to answer it.

    ``action`` is that of a write by the name of EL1.
    """
    state = record_at(user, LAYOUT)
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    el = current_el(state, uc, scratch)
    if el != EL2 or state.scratch & _SS != 0 or state.checking != 0 or state.stop != 0:
        return False
    key = int64(r.op0) << 14 | int64(r.crn) << 7 | int64(r.crm) << 3 | int64(r.op2)
    value = r.value
    suspect = not read and action == _RETURN and changes_return(state, EL1, value)
    if suspect and (state.control_set == 0 or state.notice != 0):
        return False
    row = record_at(pointer_to(state.alias), CP_REG)
    row.op1 = 0
    row.crn = r.crn
    row.crm = r.crm
    row.op2 = r.op2
    call_register(state.reg_read, uc, _CP_REG, state.alias)
    if read:
        state.scratch = row.value
        call_register(state.reg_write, uc, int64(register), scratch)
    else:
        _write_named(state, engine, user, key, value, action)
        if action == _RETURN:
            spsr_written(state, EL1, value, EL2)
        if suspect:
            return_changes(state, EL1, EL2)
    move_on(state, uc, scratch)
    return True


@routine
def _by_sampling(
    state: StateRecord, engine: Pointer, user: Pointer, key: int, register: int
) -> bool:
    """Read PMBPTR_EL1, PMBSR_EL1 or PMSICR_EL1. Return False if Python has to answer.

    The samples before it may not be in memory yet.
    """
    if (
        state.sampling_at == 0
        or state.pending != 0
        or state.checking != 0
        or state.stop != 0
        or state.notice != 0
    ):
        return False
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    el = current_el(state, uc, scratch)
    if state.sampling_at >> el & 1 == 0 or state.scratch & _SS != 0:
        return False
    call_register(state.reg_read, uc, _PC, scratch)
    pc = state.scratch
    if (
        call_sampling(state.sampling_register, state.sampling_registers, address_of(user), key, pc)
        == 0
    ):
        return False
    call_register(state.reg_write, uc, int64(register), scratch)
    move_on(state, uc, scratch)
    return True


@routine
def _stop_before(state: StateRecord, engine: Pointer, user: Pointer) -> int:
    """Stop before an access that is watched. A write of the PC keeps the engine from it.

    Where the access ends a block in the engine, the PC moves on all the same.
    """
    here = address_of(user) + _SCRATCH
    call_register(state.reg_read, address_of(engine), _PC, here)
    state.stop = _STOP_ACCESS
    state.looked_at_pc = state.scratch + 1
    call_register(state.reg_write, address_of(engine), _PC, here)
    stop_engine(state, engine)
    return 1


@routine
def access(engine: Pointer, register: int, cp: Pointer, user: Pointer, kind: int) -> int:
    """Do what all three hooks share. Return 0 if the engine is to execute the access, else 1."""
    state = record_at(user, LAYOUT)
    r = record_at(cp, CP_REG)
    key = (
        int64(r.op0) << 14
        | int64(r.op1) << 11
        | int64(r.crn) << 7
        | int64(r.crm) << 3
        | int64(r.op2)
    )
    # first an observer that watches accesses to this register
    if state.checking & CHECK_SYSTEM != 0 and (
        array_at(pointer_to(state.looked_at + kind * KEYS), (KEYS,), np.uint8)[key] != 0
    ):
        return _stop_before(state, engine, user)
    # an EL1 name may mean a register of EL2: then the access is made there, or Python is asked
    action = array_at(pointer_to(state.actions + kind * KEYS), (KEYS,), np.uint8)[key]
    if action >= _ALIAS:
        done = _alias(engine, user, r.value, key, register, kind == READ)
        if done > 0:
            return 1
        action = _ASK if done < 0 else action - _ALIAS
    if action == 0:
        return 0
    if action == _ZERO:
        return zeroes(state, engine, user, int64(register))
    # maintenance and translation controls: the engine acts, and what follows from that is noted
    if action in (_TRANSLATION, _CODE, _LINE):
        count_write(state, _TRANSLATION, True)
        if kind == SYSTEM and action != _LINE:
            broadcast(state, TLB_MAINTENANCE if action == _TRANSLATION else CODE_MAINTENANCE)
        all_entries = kind == SYSTEM and r.crn == 8 and r.crm in (1, 3, 7) and r.op2 & 1 == 0
        if all_entries and _at_its_level(state, engine, user, r.op1):
            tlb_flushed(state)  # TLBI of all entries or of an ASID, not by address
            forget_access(state)
            if r.crm != 7:
                broadcast(state, FLUSH_MAINTENANCE)
        stale = action == _CODE or (
            action == _LINE and not forget_line(state, engine, user, int64(register))
        )
        if stale and not code_is_in_memory(state.translated):
            state.stale_code = 1
            end_after_block(state)
        return 0
    # writes of control registers: the engine keeps the value, and Python acts after the block if
    # the value is new
    if action == _RECORDS and state.collects == 0:
        count_write(state, action, True)
        return 0
    if action in (_NOTICE, _REGIME, _RECORDS):
        known = array_at(pointer_to(state.cells), (KEYS,), np.int64)
        withheld = array_at(pointer_to(state.withheld), (KEYS,), np.int64)[key] & r.value
        new = known[key] != r.value
        if (withheld == 0 and not new) or not _at_its_level(state, engine, user, r.op1):
            return 0
        if withheld != 0:
            _write_but(state, engine, r, withheld)
        if new:
            _counted(state, engine, user, key, r.value, action)
        return 1 if withheld != 0 else 0
    # a write of SPSR_ELx: it may make or end a return that the engine gets wrong
    if action == _RETURN:
        el = max(int64(r.op1) >> 1, 1)
        if state.restored_by_host != 0 and _at_its_level(state, engine, user, r.op1):
            spsr_written(state, el, r.value, state.scratch >> 2 & 3)
        if changes_return(state, el, r.value) and _at_its_level(state, engine, user, r.op1):
            register_written(state)
            if state.control_set != 0 and state.notice == 0:
                return_changes(state, el, state.scratch >> 2 & 3)
            else:
                note_controls(state, CONTROLS_WRITTEN)
                end_after_block(state)
        return 0
    # accelerators answer within the run; what they refuse stops the engine
    alone = False  # whether Python is told which write it is that leads to another set of controls
    if action == _GIC:
        to = int64(register) if kind == READ else -1
        if answer_gic(state, engine, user, key, r.value, to):
            return 1
        action = _STOP
    elif action == _SAMPLING:
        if _by_sampling(state, engine, user, key, register):
            return 1
        action = _STOP
    elif action == _STEPPING:
        if switches_stepping(state, engine, user, key, r.value):
            return 1
        action, alone = _ASK, state.controls_written == 0
    elif action == _TIMER:
        if answer_timer(state, engine, user, key, r.value, int64(register) if kind == READ else -1):
            return 1
        action = _ASK
    elif action >= _EL12:
        if _by_el12(engine, user, r, register, action - _EL12, kind == READ):
            return 1
        action = _STOP
    # Python answers: within the run if it is asked, and else at a stop before the operation
    here = address_of(user)
    call_register(state.reg_read, address_of(engine), _PC, here + _SCRATCH)
    if action in (_ASK, _STOP):
        state.kind = kind
        state.key = key
        state.rt = int64(register)
        if action != _STOP:
            answer: int = call_ask(state.ask)
            if answer == _ANSWER_NOTICE:
                state.control_key = key if alone else 0
                state.control_value = r.value
                end_after_block(state)
                return 1
            if answer != _ANSWER_STOP:
                return answer
        state.stop = _STOP_SYSTEM
        # writing the PC makes the engine leave the block without executing the access
        call_register(state.reg_write, address_of(engine), _PC, here + _SCRATCH)
        stop_engine(state, engine)
        return 1
    # reads whose value is known here: a counter of time, or what a cell holds
    value = array_at(pointer_to(state.cells), (KEYS,), np.int64)[key]
    if action == _COUNT:
        if state.counters & ALL_COUNTERS != ALL_COUNTERS and not _counter_allowed(
            state, engine, user, key
        ):
            return 0
        if _is_without_offset(state, engine, user, key):
            value = 0
        value = count_now(state, engine, user) - value
    elif _engine_identifies(state, engine, user, r):
        return 0
    # the engine has these registers, so the block goes on; a write of the PC here would spoil
    # the PC at a later stop
    state.scratch = value
    call_register(state.reg_write, address_of(engine), int64(register), here + _SCRATCH)
    return 1


@entry("uint32", "pointer", "uint32", "pointer", "pointer")
def on_mrs(engine: Pointer, register: int, cp: Pointer, user: Pointer) -> int:
    """The hook for MRS."""
    return access(engine, register, cp, user, READ)


@entry("uint32", "pointer", "uint32", "pointer", "pointer")
def on_msr(engine: Pointer, register: int, cp: Pointer, user: Pointer) -> int:
    """The hook for MSR."""
    return access(engine, register, cp, user, WRITE)


@entry("uint32", "pointer", "uint32", "pointer", "pointer")
def on_sys(engine: Pointer, register: int, cp: Pointer, user: Pointer) -> int:
    """The hook for SYS: cache, TLB and address translation instructions."""
    return access(engine, register, cp, user, SYSTEM)
