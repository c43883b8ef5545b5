"""Writes of control registers whose outcome is known: compiled code applies it and goes on.

Hypervisors switch between a few sets of controls at each exit of a guest. Python works out what a
set means (``host.pe.controls``), and notes which write led from one set to another
(``host.pe.control_sets``). The same write in the same set does not stop the engine. The row of the
set that it leads to replaces what the hooks look at.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import arm64_const as regs

from spe_unicorn.arch.pe import EL2
from spe_unicorn.compiled import (
    Pointer,
    Words,
    address_of,
    array_at,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.native.calls import call_register, current_el
from spe_unicorn.host.native.code import CP_REG
from spe_unicorn.host.native.delivery import FIQ_LINE, IRQ_LINE, deliver_alone
from spe_unicorn.host.native.exceptions.returns import is_suspect
from spe_unicorn.host.native.levels import LEVELS, at_level, set_levels, set_suspect, work_out_watch
from spe_unicorn.host.native.state.block_table import SPREAD
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import select_set, set_controls, set_trapping
from spe_unicorn.host.native.state.whole import offset_of
from spe_unicorn.host.native.state.wiring import ENTRY_PSTATE

SETS: Final = 64
"""Rows of the table of sets. Number 0 means that no set holds."""
COPIED: Final = (
    "level_marks",
    "possible_entries",
    "counters",
    "timers_at",
    "engine_identity",
    "trapping",
    "deliver_irq",
    "irq_alone",
    "deliver_fiq",
    "deliver_virq",
    "legal_returns",
    "zeroes_at",
    "tlbi_at",
)
"""Fields of the state that a row has."""


class ControlSet:
    """A row of the table of sets: the fields of :data:`COPIED`, and five more."""

    level_marks: int
    possible_entries: int
    counters: int
    timers_at: int
    engine_identity: int
    trapping: int
    deliver_irq: int
    irq_alone: int
    deliver_fiq: int
    deliver_virq: int
    legal_returns: int
    zeroes_at: int
    tlbi_at: int
    relevant: int
    """The marks that a run with these controls looks out for."""
    returning: int
    """A bit for each Exception level that has an SPSR_ELx."""
    mdscr: int
    """What MDSCR_EL1 holds."""
    engine_mdscr: int
    """What the engine's MDSCR_EL1 holds."""
    entry_pstate: Words
    """The table ``entry_pstate``."""


_OTHERS: Final = ("relevant", "returning", "mdscr", "engine_mdscr")
SET: Final = layout(
    ControlSet,
    np.dtype(
        [
            *((name, np.int64) for name in (*COPIED, *_OTHERS)),
            ("entry_pstate", np.int64, (ENTRY_PSTATE,)),
        ]
    ),
)
SWITCHES: Final = 1 << 10
"""Rows of the table of writes."""


class Switch:
    """A row of the table of writes."""

    before: int
    """The set that held."""
    el: int
    """The Exception level."""
    key: int
    """``Encoding.key`` of the register."""
    value: int
    """What was written to it."""
    after: int
    """The set to which this led."""


SWITCH: Final = layout(Switch)

_SET_BYTES: Final = SET.itemsize
_SWITCH_BYTES: Final = SWITCH.itemsize
_CP_REG: Final = int(regs.UC_ARM64_REG_CP_REG)
_ROW: Final = CP_REG.itemsize
_SCRATCH: Final = offset_of("scratch")
_BOTH_LINES: Final = IRQ_LINE | FIQ_LINE


@routine
def place_of(before: int, el: int, key: int, value: int) -> int:
    """The place of a write in the table of writes."""
    return ((value ^ key << 3 ^ before << 40 ^ el << 50) * SPREAD >> 40) & SWITCHES - 1


@routine
def switches(state: StateRecord, engine: Pointer, user: Pointer, key: int, value: int) -> bool:
    """If a write of a control register leads to a known set of controls, have that set hold.

    The engine makes the write, or has made it. Return False if the set is not known. Then nothing
    has changed.
    """
    if (
        state.control_set == 0
        or state.notice != 0
        or state.deliver_irq < 0
        or state.lines == _BOTH_LINES
    ):
        return False
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    el = current_el(state, uc, scratch)
    place = state.control_switches + place_of(state.control_set, el, key, value) * _SWITCH_BYTES
    write = record_at(pointer_to(place), SWITCH)
    if write.before != state.control_set or write.el != el:
        return False
    if write.key != key or write.value != value:
        return False
    known = record_at(pointer_to(state.control_sets + write.after * _SET_BYTES), SET)
    if known.relevant & ~state.relevant != 0:
        return False
    set_levels(state, known.level_marks, known.possible_entries)
    set_trapping(state, known.trapping)
    deliver_alone(state, known.deliver_irq, known.irq_alone, known.deliver_fiq, known.deliver_virq)
    select_set(state, write.after, 0)  # what ICC_* names mean there is asked for at the next run
    entry = array_at(pointer_to(state.entry_pstate), (ENTRY_PSTATE,), np.int64)
    for n in range(ENTRY_PSTATE):
        entry[n] = known.entry_pstate[n]
    returns_differ = state.legal_returns != known.legal_returns
    set_controls(
        state,
        known.counters,
        known.timers_at,
        known.engine_identity,
        known.legal_returns,
        known.zeroes_at,
        known.tlbi_at,
    )
    if returns_differ:
        _update_returns(state, uc, known.returning)
    work_out_watch(state)
    at_level(state, el)
    return True


@routine
def switches_stepping(
    state: StateRecord, engine: Pointer, user: Pointer, key: int, value: int
) -> bool:
    """Make a write of MDSCR_EL1 at EL2 that changes nothing, or leads to a known set of controls.

    The engine has looked for traps of the access. EL2 does not step itself with any set. Return
    False if Python has to make the write.
    """
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    if state.control_set == 0 or (state.notice | state.controls_written) != 0:
        return False
    if current_el(state, uc, scratch) != EL2:
        return False
    sets = state.control_sets
    before = record_at(pointer_to(sets + state.control_set * _SET_BYTES), SET)
    if before.mdscr == value:
        return True
    if not switches(state, engine, user, key, value):
        return False
    after = record_at(pointer_to(sets + state.control_set * _SET_BYTES), SET)
    row = array_at(pointer_to(state.stepping), (1,), CP_REG)[0]
    row.value = after.engine_mdscr
    call_register(state.reg_write, uc, _CP_REG, state.stepping)
    return True


@routine
def _update_returns(state: StateRecord, uc: int, returning: int) -> None:
    """What makes a return illegal has changed: look at each SPSR_ELx."""
    saved = array_at(pointer_to(state.saved_states), (LEVELS - 1,), CP_REG)
    for el in range(1, LEVELS):
        if returning >> el & 1 != 0:
            call_register(state.reg_read, uc, _CP_REG, state.saved_states + (el - 1) * _ROW)
            suspect = is_suspect(state.legal_returns, el, saved[el - 1].value)
            set_suspect(state, el, suspect)
