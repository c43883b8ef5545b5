"""The UART in compiled code: a guest's look whether there is room, and the character it sends.

For each character a guest reads UARTFR and writes UARTDR. What a read gives, and whether a
character only has to be sent, is in the cells of the device (``devices.pl011``). A line feed is
left to Python, so a line is handed on when it is complete. Drivers that are told when there is room
also read UARTIMSC, and write to it what it holds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import Pointer, Words, address_of, array_at, int64, pointer_to, routine
from spe_unicorn.devices.pl011 import (
    CELLS,
    CHARACTERS,
    FLAGS,
    MASK,
    MASK_BITS,
    MOST_CHARACTERS,
    SENDS,
    Offset,
)
from spe_unicorn.host.engine.engine import PC, PSTATE, X
from spe_unicorn.host.native.calls import FETCH, call_read, call_register
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.leaving import leave_block_after
from spe_unicorn.host.native.state.whole import offset_of

_SCRATCH: Final = offset_of("scratch")
_PC = int(PC)
_PSTATE = int(PSTATE)
_X0 = int(X[0])
_SS: Final = int(SPSR.SS.mask)
_READ: Final = int(uc_const.UC_MEM_READ_UNMAPPED)
_WRITE: Final = int(uc_const.UC_MEM_WRITE_UNMAPPED)
_DR, _FR, _IMSC = int(Offset.DR), int(Offset.FR), int(Offset.IMSC)
_LINE_FEED: Final = 0x0A
_FORM: Final = 0x3FC0_0000
_STORE, _LOAD = 0x3900_0000, 0x3940_0000
"""STR and LDR of a general register, with an unsigned offset, at their place in a word."""
_NO_REGISTER: Final = -1
_NONE: Final = -1


@routine
def register_of(word: int, load: int) -> int:
    """The general register of an LDR, or else STR, of at most 32 bits with an unsigned offset.

    -1 for other words, and for X29, X30 and XZR, whose numbers in the engine are not in a row.
    """
    if word & _FORM != (_LOAD if load else _STORE) or word >> 30 == 3 or word & 31 > 28:
        return _NO_REGISTER
    return word & 31


@routine
def _cell_of(state: StateRecord, cells: Words, load: bool) -> int:
    """The cell with which an access to the UART can be answered; -1 if it is Python's."""
    offset = state.access_address - state.uart_at
    if load:
        cell = FLAGS if offset == _FR else MASK if offset == _IMSC else _NONE
        return cell if cell >= 0 and cells[cell] >= 0 else _NONE
    if state.access_type != _WRITE:
        return _NONE
    if offset == _DR:
        return SENDS if cells[SENDS] != 0 else _NONE
    # a write of UARTIMSC may have the device look for input
    return MASK if offset == _IMSC and cells[MASK] >= 0 and cells[FLAGS] >= 0 else _NONE


@routine
def answer_uart(state: StateRecord, engine: Pointer, user: Pointer) -> bool:
    """Answer the access before which the engine has stopped, if it is to the UART and plain.

    False, and nothing has changed, if that is for Python. If not, ``State.scratch`` is the PC of
    the next operation.
    """
    if (
        state.uart_at == 0
        or (state.pending | state.notice | state.wrong | state.checking) != 0
        or (state.rose | state.event_due) != 0
    ):
        return False
    cells = array_at(pointer_to(state.uart), (CELLS,), np.int64)
    load = state.access_type == _READ
    cell = _cell_of(state, cells, load)
    if cell < 0:
        return False
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    call_register(state.reg_read, uc, _PC, scratch)
    pc = state.scratch
    if call_read(state.vmem_read, uc, pc, FETCH, state.code, 4) != 0:
        return False
    word = int64(array_at(pointer_to(state.code), (1,), np.uint32)[0])
    register = register_of(word, load)
    state.scratch = 0
    call_register(state.reg_read, uc, _PSTATE, scratch)
    if register == _NO_REGISTER or state.scratch & _SS != 0:
        return False
    accessed = (1 << (8 << (word >> 30))) - 1
    if load:
        if not leave_block_after(state, pc):
            return False
        state.scratch = cells[cell] & accessed
        call_register(state.reg_write, uc, _X0 + register, scratch)
    else:
        call_register(state.reg_read, uc, _X0 + register, scratch)
        written = state.scratch & accessed
        if cell == MASK:
            if written & MASK_BITS != cells[MASK] or not leave_block_after(state, pc):
                return False
        elif not _sent(state, cells, written & 0xFF, pc):
            return False
    state.scratch = pc + 4
    return True


@routine
def _sent(state: StateRecord, cells: Words, character: int, pc: int) -> bool:
    """Send a character by the store at ``pc``. False, with nothing done, if that is for Python."""
    if character == _LINE_FEED or state.uart_sent == MOST_CHARACTERS:
        return False
    if not leave_block_after(state, pc):
        return False
    cells[CHARACTERS + state.uart_sent] = character
    state.uart_sent += 1
    return True
