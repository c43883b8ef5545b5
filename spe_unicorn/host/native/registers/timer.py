"""The timers of a PE in compiled code: what operating systems and hypervisors read and write.

They are answered by the functions of ``devices.timer_cells`` by which Python answers them. A write
may raise or lower the timer's interrupt line at once. One after which a timer drives its line
before the run is to end has the run end after the block.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.registers.timer import CNTPCT_EL0, CNTV_CTL_EL0, CNTV_TVAL_EL0, CNTVCT_EL0
from spe_unicorn.compiled import Pointer, Words, address_of, array_at, pointer_to, routine
from spe_unicorn.devices import gicv3, timer_cells
from spe_unicorn.devices.timer_cells import (
    COMPARE,
    CONTROL,
    EL2_PHYSICAL,
    PHYSICAL,
    SECURE_PHYSICAL,
    VIRTUAL,
    WORDS,
    first_change,
    minus,
    offset_of,
    output,
    own_offset,
    read_control,
    read_value,
    write_compare,
    write_control,
    write_value,
)
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import call_register, current_el
from spe_unicorn.host.native.registers.gic import drive_private
from spe_unicorn.host.native.rules import first_cycle, ticks
from spe_unicorn.host.native.state.actions import KEYS
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import TIMERS_IN_HOST, TIMERS_LEVEL, set_due
from spe_unicorn.host.native.state.whole import offset_of as place_in_state

for _rule in (
    timer_cells.is_below,
    timer_cells.is_met,
    timer_cells.next_change,
    minus,
    offset_of,
    own_offset,
    output,
    first_change,
    read_control,
    read_value,
    write_control,
    write_compare,
    write_value,
):
    routine(_rule)

NAMES: Final = 7
"""Names by which registers of timers go: CNTP, CNTV, both with _EL02, CNTHP, CNTHV, CNTPS."""
_OF_EL1: Final = 2
"""Names below mean timers of EL2 to a host."""

_SCRATCH: Final = place_in_state("scratch")
_PC: Final = int(PC)
_PHYSICAL_COUNT, _VIRTUAL_COUNT = CNTPCT_EL0.encoding.key, CNTVCT_EL0.encoding.key
_VALUE, _CONTROL = CNTV_TVAL_EL0.encoding.op2, CNTV_CTL_EL0.encoding.op2
_INTIDS: Final = sum(
    intid << 5 * n
    for n, intid in enumerate(
        (
            gicv3.PHYSICAL_TIMER,
            gicv3.VIRTUAL_TIMER,
            gicv3.EL2_PHYSICAL_TIMER,
            gicv3.EL2_VIRTUAL_TIMER,
            gicv3.SECURE_PHYSICAL_TIMER,
        )
    )
)
"""The interrupts of the timers, by their numbers: 5 bits each."""


@routine
def name_of(key: int) -> int:
    """The number of a register's name among :data:`NAMES`, by ``Encoding.key``."""
    op1, virtual = key >> 11 & 7, key >> 3 & 1
    if op1 == 3:
        return virtual
    if op1 == 5:
        return 2 + virtual
    return 4 + virtual if op1 == 4 else 6


@routine
def timer_of(name: int) -> int:
    """The number of the timer that a name means, but for names of EL1 to a host."""
    if name >= 4:
        return EL2_PHYSICAL + name - 4 if name < 6 else SECURE_PHYSICAL
    return VIRTUAL if name & 1 else PHYSICAL


@routine
def count_now(state: StateRecord, engine: Pointer, user: Pointer) -> int:
    """The system counter at the operation whose hook runs."""
    call_register(state.reg_read, address_of(engine), _PC, address_of(user) + _SCRATCH)
    rest = state.block_operations - ((state.scratch - state.block) >> 2)
    cycles = state.granted - state.budget - rest + state.skipped
    return ticks(cycles, state.ticks_of, state.cycles_of)


@routine
def answer_timer(
    state: StateRecord, engine: Pointer, user: Pointer, key: int, value: int, register: int
) -> bool:
    """Answer an MSR of ``value``, or an MRS if ``register`` is not -1, which gets the value.

    Return False, with nothing done, if Python has to answer it.
    """
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    el = current_el(state, uc, scratch)
    here = state.timers_at >> TIMERS_LEVEL * el
    name = name_of(key)
    if here >> name & 1 == 0:
        return False
    n = timer_of(name)
    if name < _OF_EL1 and here & TIMERS_IN_HOST != 0:
        n += EL2_PHYSICAL
    cells = array_at(pointer_to(state.cells), (KEYS,), np.int64)
    virtual, physical = cells[_VIRTUAL_COUNT], cells[_PHYSICAL_COUNT]
    w = array_at(pointer_to(state.timers), (WORDS,), np.int64)
    now = count_now(state, engine, user)
    view = minus(now, offset_of(n, virtual, physical))
    own_view = minus(now, own_offset(n, el, virtual, physical))
    if register >= 0:
        state.scratch = _read(w, n, key & 7, view, own_view)
        call_register(state.reg_write, uc, register, scratch)
        return True
    if not _written(state, w, n, key & 7, value, view, own_view):
        return False
    first = first_change(w, now, virtual, physical)
    set_due(state, first_cycle(first, state.ticks_of, state.cycles_of))
    if state.due - state.skipped < state.limit:
        end_after_block(state)
    return True


@routine
def _read(w: Words, n: int, which: int, view: int, own_view: int) -> int:
    """What an MRS returns; ``which`` is op2 of the register."""
    if which == _CONTROL:
        return read_control(w, n, view)
    if which == _VALUE:
        return read_value(w, n, own_view)
    compare: int = w[COMPARE + n]
    return compare


@routine
def _written(
    state: StateRecord, w: Words, n: int, which: int, value: int, view: int, own_view: int
) -> bool:
    """Make an MSR, and drive the timer's line. False, with nothing done, if Python has to."""
    control, compare, before = w[CONTROL + n], w[COMPARE + n], output(w, n, view)
    if which == _CONTROL:
        write_control(w, n, value)
    elif which == _VALUE:
        write_value(w, n, value, own_view)
    else:
        write_compare(w, n, value)
    after = output(w, n, view)
    if before == after or drive_private(state, _INTIDS >> 5 * n & 31, after):
        return True
    w[CONTROL + n] = control
    w[COMPARE + n] = compare
    return False
