"""Runs of the engine in a row, in compiled code: over stops that need nothing of Python."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import Pointer, address_of, entry, int64, record_at, routine
from spe_unicorn.decode.words import WFI
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import (
    FETCH,
    call_read,
    call_register,
    call_start,
    call_surviving,
)
from spe_unicorn.host.native.cover import left_block
from spe_unicorn.host.native.exceptions.exception import enter_irq
from spe_unicorn.host.native.registers.uart import answer_uart
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import answered
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

_SCRATCH: Final = offset_of("scratch")
_PC: Final = int(PC)
_WORD: Final = 0xFFFF_FFFF
_NONE, _INTERRUPT, _UNMAPPED = int(Stop.NONE), int(Stop.INTERRUPT), int(Stop.UNMAPPED)
_MOST: Final = 1 << 6
"""Stops after which Python has its turn, so that Ctrl-C and limits are looked at."""
_MOST_WFIS: Final = 1 << 10
"""The most of these and of WFIs together. A WFI costs far less than what Python does in between."""


@entry("int32", "pointer", "pointer", "pointer", "pointer", "uint64", "uint64", "int64")
def run_through(
    engine: Pointer,
    user: Pointer,
    start: Pointer,
    buffer: Pointer,
    begin: int,
    until: int,
    wfis: int,
) -> int:
    """Run the engine from ``begin`` on. Answer each stop that compiled code can, and go on.

    These are IRQs, accesses to the UART, and with ``wfis`` WFIs that do not wait, as an IRQ or FIQ
    is pending. ``user`` is the state. ``start`` and ``buffer`` are as
    for ``Engine.run_by``. Return the engine's error number. The run ends at a stop that is for
    Python.
    """
    state = record_at(user, LAYOUT)
    status = _start(engine, start, buffer, begin, until)
    answers = 0
    for _ in range(_MOST_WFIS):
        if state.stop == _NONE:
            if wfis == 0 or status != 0 or not _goes_past_wfi(state, engine, user, until):
                break
            if state.cover != 0:
                left_block(state, state.scratch, 0)
        elif answers == _MOST:
            break
        elif state.stop == _INTERRUPT:
            if status != 0 or not enter_irq(engine, user):
                break
            answers += 1
        elif state.stop == _UNMAPPED:
            if not answer_uart(state, engine, user):
                break
            answers += 1
            if state.cover != 0:
                left_block(state, state.scratch - 4, 1)
        else:
            break
        answered(state)
        status = _start(engine, start, buffer, state.scratch, until)
    return status


@routine
def _start(engine: Pointer, start: Pointer, buffer: Pointer, begin: int, until: int) -> int:
    """One run of the engine."""
    if address_of(buffer) == 0:
        return call_start(address_of(start), address_of(engine), begin, until, 0, 0)
    return call_surviving(
        address_of(start), address_of(buffer), address_of(engine), begin, until, 0, 0
    )


@routine
def is_in_wfi(state: StateRecord, uc: int, scratch: int) -> bool:
    """Whether the engine, which no hook has stopped, stands after a WFI at the end of its block."""
    if state.notice != 0 or state.rose != 0:
        return False
    call_register(state.reg_read, uc, _PC, scratch)
    pc = state.scratch
    if pc != state.block + 4 * state.block_operations:
        return False
    if call_read(state.vmem_read, uc, pc - 4, FETCH, scratch, 4) != 0:
        return False
    return state.scratch & _WORD == WFI


@routine
def _goes_past_wfi(state: StateRecord, engine: Pointer, user: Pointer, until: int) -> bool:
    """Whether the engine stands after a WFI that did not wait, and only has to be started again.

    An interrupt is pending, masked or not, so the WFI has not been trapped either. If so,
    ``State.scratch`` is the PC.
    """
    if state.lines == 0 or state.budget <= 0:
        return False
    due = state.pending | state.wrong | state.event_due | state.restored | state.looked_at_pc
    if due | state.controls_written | state.stale_code | state.checking != 0:
        return False
    if not is_in_wfi(state, address_of(engine), address_of(user) + _SCRATCH):
        return False
    state.scratch = state.block + 4 * state.block_operations
    return state.scratch != int64(until)
