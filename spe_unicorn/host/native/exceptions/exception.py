"""Exceptions in compiled code: the frequent ones are entered without leaving the engine.

System calls and page faults are most of the exceptions of an operating system. The engine has found
out what happened and which Exception level takes it, so an entry writes a few registers. The rules
are those of ``arch.exceptions.entry.take_exception``, by which Python enters all other exceptions.
What depends on control registers is worked out in advance (``host.pe.levels``).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from unicorn import arm64_const as regs

from spe_unicorn.arch.exceptions.entry import ExceptionType
from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.memory.descriptors import Fault
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.system import SPSR, SPSR_EL1, SPSR_EL2, SPSR_EL3
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
from spe_unicorn.decode.words import WFI
from spe_unicorn.host.engine.engine import PC, PSTATE, SP, SP_EL
from spe_unicorn.host.native.calls import (
    FETCH,
    call_context,
    call_read,
    call_register,
    current_el,
)
from spe_unicorn.host.native.code import CP_REG, rows_of
from spe_unicorn.host.native.cover import left_block
from spe_unicorn.host.native.delivery import ends_wfi
from spe_unicorn.host.native.levels import (
    RESTORES_PM,
    at_level,
    flow_moves,
    return_changes,
    set_restoring,
    work_out_watch,
)
from spe_unicorn.host.native.rules import vector_address
from spe_unicorn.host.native.sampling.calls import exception_taken
from spe_unicorn.host.native.state.block_table import SPREAD
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import (
    charge_up_to,
    not_retired,
    note_exception,
    note_fault_address,
    note_syndrome,
    set_pm,
)
from spe_unicorn.host.native.state.request import OWN_HVC, OWN_SMC
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import branch_resolved, set_entered
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of
from spe_unicorn.host.native.state.wiring import ENTRY_PSTATE

TRAP, SVC, PREFETCH_ABORT, DATA_ABORT, HVC, SMC = 1, 2, 3, 4, 11, 13
"""The engine's numbers of the exceptions that are entered here."""
_IRQ_NUMBER: Final = 0
"""In the place of such a number, for an IRQ: the engine takes none."""

_PC = int(PC)
_PSTATE = int(PSTATE)
_SP = int(SP)
_SP_EL0 = int(SP_EL[0])
_CP_REG: Final = int(regs.UC_ARM64_REG_CP_REG)
_ELR: Final = int(regs.UC_ARM64_REG_ELR_EL0)
_ESR: Final = int(regs.UC_ARM64_REG_ESR_EL0)
_FAR: Final = int(regs.UC_ARM64_REG_FAR_EL0)
_VBAR: Final = int(regs.UC_ARM64_REG_VBAR_EL0)
_SCRATCH: Final = offset_of("scratch")
_STOP_PC: Final = offset_of("pc")
_ROW: Final = CP_REG.itemsize
_HIGHEST: Final = EL3

_IL: Final = int(SPSR.IL.mask)
_PM: Final = int(SPSR.PM.lsb)
_PM_MASK: Final = int(SPSR.PM.mask)
_PAGE: Final = ~0xFFF
_CLASS: Final = 26
_LENGTH: Final = 1 << 25
_S1PTW: Final = 1 << 7
_FSC: Final = 0x3F
_ALIGNMENT: Final = int(Fault.Alignment.value)
_TRANSFER: Final = 0x1FF << 16 | 0b11 << 14
"""Parts of a syndrome: its class, IL, and what only aborts of stage 2 can have."""
_SYNC, _IRQ = int(ExceptionType.SYNC), int(ExceptionType.IRQ)
_SUPERVISOR_CALL: Final = int(EC.SupervisorCall)
_HYPERVISOR_CALL: Final = int(EC.HypervisorCall)
_MONITOR_CALL: Final = int(EC.MonitorCall)
_SVE_ACCESS_TRAP: Final = int(EC.SVEAccessTrap)
_STOP_EXCEPTION: Final = int(Stop.EXCEPTION)
_WAIT_TRAP: Final = int(EC.WFxTrap)
_INSTRUCTION_ABORT: Final = int(EC.InstructionAbort)
_DATA_ABORT: Final = int(EC.DataAbort)
_SOFTWARE_STEP: Final = int(EC.SoftwareStep)
_ISV: Final = 1 << 24
"""Of a Software Step exception: the engine has executed the operation that was stepped."""


def saved_states() -> NDArray[np.void]:
    """The System registers that :func:`enter` and :func:`returns_alike` name to the engine."""
    return rows_of(SPSR_EL1.encoding, SPSR_EL2.encoding, SPSR_EL3.encoding)


@routine
def is_step(number: int, syndrome: int) -> bool:
    """Whether it is a Software Step exception to a higher level, of what the engine has stepped."""
    return number == TRAP and syndrome >> _CLASS == _SOFTWARE_STEP and syndrome & _ISV != 0


@routine
def _is_wait(number: int, syndrome: int) -> bool:
    """Whether the engine has trapped a WFI, or what it ends a run with in the place of one."""
    return number == TRAP and syndrome >> _CLASS == _WAIT_TRAP


@routine
def _holds_wfi(state: StateRecord, uc: int, pc: int) -> bool:
    """Whether there is a WFI at ``pc``, at the end of the block that began last."""
    if pc != state.block + 4 * (state.block_operations - 1):
        return False
    if call_read(state.vmem_read, uc, pc, FETCH, state.code, 4) != 0:
        return False
    return int64(array_at(pointer_to(state.code), (1,), np.uint32)[0]) == WFI


@routine
def _would_wait(state: StateRecord, uc: int, pc: int) -> bool:
    """Whether a WFI of EL1 at ``pc``, which the engine has trapped, would wait for an interrupt."""
    return state.deliver_irq >= 0 and not ends_wfi(state, EL1) and _holds_wfi(state, uc, pc)


@routine
def is_trapped_at_end(state: StateRecord, uc: int, until: int) -> bool:
    """Whether the engine, which was to run up to ``until``, has trapped what ends its run there.

    That is a WFI of its own. The exception looks like one of the operation before it, which has
    been executed.
    """
    if state.stop != _STOP_EXCEPTION or state.pc + 4 != until:
        return False
    found = array_at(pointer_to(state.exception), (5,), np.uint32)
    return _is_wait(state.interrupt, int64(found[0])) and not _holds_wfi(state, uc, state.pc)


@routine
def _is_kind_to_enter(
    state: StateRecord, uc: int, number: int, syndrome: int, stepped: bool
) -> bool:
    """Whether compiled code may enter an exception of this kind, at ``State.pc``."""
    kind, pc = syndrome >> _CLASS, state.pc
    if number == SVC:
        return kind == _SUPERVISOR_CALL
    if number == HVC:
        return kind == _HYPERVISOR_CALL and state.own_calls & OWN_HVC != 0
    if number == SMC:
        return kind == _MONITOR_CALL and state.own_calls & OWN_SMC != 0
    if number == TRAP:
        if kind == _WAIT_TRAP:
            return _would_wait(state, uc, pc)
        return stepped or (kind == _SVE_ACCESS_TRAP and state.sve != 0)
    if number == DATA_ABORT:
        if syndrome & _FSC == _ALIGNMENT:
            return False  # with FEAT_LSE2 it may be none
        return kind & -2 == _DATA_ABORT and syndrome & _S1PTW == 0
    if number == PREFETCH_ABORT:
        return kind & -2 == _INSTRUCTION_ABORT and syndrome & _S1PTW == 0 and pc & 3 == 0
    return False


@routine
def is_look_behind(state: StateRecord, number: int) -> bool:
    """Whether an exception is none: the engine looked at the page in front of the one it ends at.

    Where a run is to end before the first operation of a page, the engine makes a block of no
    operations there. It looks up the page in which such a block ends, that of the byte in front of
    it, and takes an Instruction Abort if nothing may be executed there. A guest's has the PC for
    its address.
    """
    if number != PREFETCH_ABORT:
        return False
    found = array_at(pointer_to(state.exception), (5,), np.uint32)
    if int64(found[0]) >> _CLASS & -2 != _INSTRUCTION_ABORT:
        return False
    return int64(found[2]) | int64(found[3]) << 32 != state.pc


@routine
def _is_busy(state: StateRecord) -> bool:
    """Whether Python has to see any exception, as something is on its way."""
    due = state.notice | state.pending | state.event_due | state.restored
    return state.entries == 0 or due != 0


@routine
def _may_enter(state: StateRecord, number: int, pstate: int, target: int, up: bool) -> bool:
    """Whether compiled code may take an exception, 0 for an IRQ, from PSTATE to ``target``.

    From EL1 to EL2 that is only HVC, an IRQ, or with ``up`` a step or the trap of a WFI; to EL3
    only SMC. Stage 2, other traps and External aborts are for Python.
    """
    el = pstate >> 2 & 3
    if target == EL3 and number != SMC:
        return False
    if el == EL1 and target == EL2 and number not in (HVC, _IRQ_NUMBER) and not up:
        return False
    if state.suspect >> target & 1 != 0 and state.control_set == 0:
        return False
    return state.entries >> 4 * el + target & 1 != 0 and pstate & _IL == 0


@routine
def set_pc(state: StateRecord, uc: int, scratch: int, pc: int) -> None:
    """Write the PC, and everything else as it was when ``State.context`` was saved.

    A write of only the PC has the engine take the start of its block for the PC at a later stop of
    the same run.
    """
    state.scratch = pc
    call_register(state.context_write, state.context, _PC, scratch)
    call_context(state.context_restore, uc, state.context)


@routine
def _set_pstate(state: StateRecord, uc: int, scratch: int, old: int, new: int) -> None:
    """Write PSTATE and switch stack pointers. The engine notices at the next System register.

    Its PSTATE has 32 bits.
    """
    call_register(state.reg_read, uc, _SP, scratch)
    call_register(state.reg_write, uc, _SP_EL0 + (old >> 2 & 3 if old & 1 else 0), scratch)
    state.scratch = new
    call_register(state.reg_write, uc, _PSTATE, scratch)
    call_register(state.reg_read, uc, _SP_EL0 + (new >> 2 & 3 if new & 1 else 0), scratch)
    call_register(state.reg_write, uc, _SP, scratch)


@routine
def _save_pstate(state: StateRecord, uc: int, target: int, pstate: int) -> None:
    """Write SPSR_ELx, which makes the engine look at PSTATE, too."""
    array_at(pointer_to(state.saved_states), (_HIGHEST,), CP_REG)[target - 1].value = pstate
    call_register(state.reg_write, uc, _CP_REG, state.saved_states + (target - 1) * _ROW)


@routine
def _change_pstate(state: StateRecord, uc: int, scratch: int, pstate: int, target: int) -> None:
    """Have PSTATE be what an exception taken to ``target`` makes of it, and save the old one.

    :func:`_arrive` writes PSTATE.PM.
    """
    entry = array_at(pointer_to(state.entry_pstate), (ENTRY_PSTATE,), np.int64)
    _set_pstate(state, uc, scratch, pstate, pstate & entry[2 * target] | entry[2 * target + 1])
    _save_pstate(state, uc, target, pstate)


@routine
def _arrive(state: StateRecord, target: int, pstate: int) -> None:
    """The PE is at the Exception level that has taken an exception: watch for what matters there.

    Its SPSR_ELx holds what PSTATE was. The engine executes the return by that rightly, but for what
    the host restores. An exception sets PSTATE.PM on a core that has it, and keeps no value of it.
    """
    entry = array_at(pointer_to(state.entry_pstate), (ENTRY_PSTATE,), np.int64)
    set_pm(state, entry[2 * target + 1] >> _PM & 1)
    if set_restoring(state, target, pstate):
        work_out_watch(state)
    if state.suspect >> target & 1 != 0:
        return_changes(state, target, target)
    else:
        at_level(state, target)
    flow_moves(state)


@routine
def enter(state: StateRecord, engine: Pointer, user: Pointer, number: int) -> bool:
    """Take the exception at ``State.pc`` that ``State.context`` tells of.

    False, and nothing has changed, if that is for Python.
    """
    if state.stop != 0 or _is_busy(state):
        return False
    found = array_at(pointer_to(state.exception), (5,), np.uint32)
    syndrome = int64(found[0])
    target = int64(found[4])
    pc = state.pc
    stepped = is_step(number, syndrome)
    if (number == PREFETCH_ABORT or stepped) and state.ending != 0:
        return False  # the core model is told where the branch before it went
    if number == DATA_ABORT and state.data_side != 0:
        return False  # the core model is told of the part of an access that did not fault
    if state.weigh != 0 and number not in (SVC, HVC, SMC) and not stepped:
        return False  # of a block that is left before its end Python knows how many members ran
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    if not _is_kind_to_enter(state, uc, number, syndrome, stepped):
        return False
    waits = _is_wait(number, syndrome)
    state.scratch = 0
    call_register(state.reg_read, uc, _PSTATE, scratch)
    pstate = state.scratch | state.pm << _PM
    el = pstate >> 2 & 3
    if waits and (el != EL1 or target != EL2):
        return False  # the engine does not know who takes those of EL0
    if not _may_enter(state, number, pstate, target, stepped or waits):
        return False
    call_register(state.reg_read, uc, _VBAR + target, scratch)
    vector = vector_address(state.scratch, el, target, pstate & 1, _SYNC)
    if vector == pc:
        return False
    set_pc(state, uc, scratch, vector)
    _change_pstate(state, uc, scratch, pstate, target)
    known = vector & _PAGE | target ^ state.epoch * SPREAD
    if state.vectors != known:
        if call_read(state.vmem_read, uc, vector, FETCH, state.code, 4) != 0:
            # the fetch at the vector will fault: Python looks where that leads
            set_pc(state, uc, scratch, pc)
            _save_pstate(state, uc, target, pstate)
            return False
        state.vectors = known
    call_register(state.reg_write, uc, _ELR + target, address_of(user) + _STOP_PC)
    if number == DATA_ABORT:
        # the engine sets these bits at EL2; they are for stage 2, whose aborts Python enters
        syndrome &= ~_TRANSFER
    attempted = number in (DATA_ABORT, TRAP) and not stepped
    if state.cover != 0:
        left_block(state, pc, attempted)
    if state.call_stacks != 0:
        called = number in (SVC, HVC, SMC)
        exception_taken(state, engine, address_of(user), pc, called, el if pstate & 1 else 0)
    if attempted:
        # the operation was attempted, and those after it in its block were not
        charge_up_to(state, pc)
        not_retired(state)
        branch_resolved(state)
    note_exception(state, target, _SYNC, state.granted - state.budget, pc, pstate)
    state.scratch = syndrome | _LENGTH
    call_register(state.reg_write, uc, _ESR + target, scratch)
    note_syndrome(state, state.scratch)
    if number in (PREFETCH_ABORT, DATA_ABORT):
        state.scratch = np.int64(found[2]) | np.int64(found[3]) << 32
        call_register(state.reg_write, uc, _FAR + target, scratch)
        note_fault_address(state, state.scratch)
    _arrive(state, target, pstate)
    set_entered(state, 1)
    return True


@entry("bool", "pointer", "pointer")
def enter_irq(engine: Pointer, user: Pointer) -> bool:
    """Take the IRQ before which the engine has stopped, ``user`` being the state.

    False, and nothing has changed, if that is for Python. If not, ``State.scratch`` is the PC.
    """
    state = record_at(user, LAYOUT)
    if (
        state.irq_targets == 0
        or state.checking != 0
        or state.samples_in_ring != 0
        or state.weigh != 0
        or _is_busy(state)
    ):
        return False
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    state.scratch = 0
    call_register(state.reg_read, uc, _PSTATE, scratch)
    pstate = state.scratch | state.pm << _PM
    el = pstate >> 2 & 3
    target = state.irq_targets >> 2 * el & 3
    if target == 0 or not _may_enter(state, _IRQ_NUMBER, pstate, target, False):
        return False
    call_register(state.reg_read, uc, _PC, address_of(user) + _STOP_PC)
    call_register(state.reg_read, uc, _VBAR + target, scratch)
    vector = vector_address(state.scratch, el, target, pstate & 1, _IRQ)
    _change_pstate(state, uc, scratch, pstate, target)
    call_register(state.reg_write, uc, _ELR + target, address_of(user) + _STOP_PC)
    state.scratch = vector
    call_register(state.reg_write, uc, _PC, scratch)
    if state.call_stacks != 0:
        exception_taken(state, engine, address_of(user), state.pc, 0, el if pstate & 1 else 0)
    branch_resolved(state)  # the block at the PC has not begun
    note_exception(state, target, _IRQ, state.granted - state.budget, state.pc, pstate)
    _arrive(state, target, pstate)
    set_entered(state, 1)
    return True


@routine
def returns_alike(state: StateRecord, engine: Pointer, user: Pointer) -> bool:
    """Whether the run can go on after the ERET at the end of the block that begins.

    If so, take over what ``State`` holds for the level that it returns to. The block itself has
    been looked at already.
    """
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    el = current_el(state, uc, scratch)
    state.level = el
    if state.alike == 0 or state.suspect >> el & 1 != 0:
        return False
    call_register(state.reg_read, uc, _CP_REG, state.saved_states + (el - 1) * _ROW)
    saved = array_at(pointer_to(state.saved_states), (_HIGHEST,), CP_REG)[el - 1].value
    to = saved >> 2 & 3
    if state.alike >> 4 * el + to & 1 == 0:
        return False
    at_level(state, to)
    state.restored = saved & state.restored_by_host
    if state.has_pm != 0 and saved >> _PM & 1 != state.pm:
        state.restored |= saved & _PM_MASK | RESTORES_PM
    return True
