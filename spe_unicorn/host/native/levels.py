"""What the hooks look out for at each Exception level, for Python and compiled code.

``host.pe.levels`` says what traps where, and between which Exception levels a run can go on. What
is looked out for follows from that and from what SPSR_ELx holds. So it changes within a run: with
the Exception level, with a write of SPSR_ELx, and with a known set of controls (``switches``).
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.host.native.marks import MARK_ERET, MARK_FENCE, MARK_RETURN
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import LEVEL_BITS, LEVEL_MARKS
from spe_unicorn.host.native.state.transit import work_out_special

LEVELS: Final = 4
_DOWN: Final = sum(1 << 4 * el + to for el in range(LEVELS) for to in range(el + 1))
"""Pairs of Exception levels that a return leads from and to."""
_SUSPECT_MARKS: Final = MARK_ERET | MARK_RETURN
RESTORES_PM: Final = 1 << 62
"""In ``State.restored``, beside bits of SPSR_ELx: PSTATE.PM is to become SPSR_ELx.PM."""


@routine
def set_levels(state: StateRecord, level_marks: int, possible_entries: int) -> None:
    """Say what traps at each Exception level, and which exceptions compiled code can enter."""
    state.level_marks, state.possible_entries = level_marks, possible_entries


@routine
def set_suspect(state: StateRecord, el: int, suspect: int) -> None:
    """Say whether the host has to look at an ERET at ``el``."""
    state.suspect = state.suspect & ~(1 << el) | (1 << el if suspect else 0)


@routine
def set_restoring(state: StateRecord, el: int, spsr: int) -> bool:
    """See whether the host completes a return from ``el`` with this SPSR_ELx, by SSBS and DIT.

    Return whether that has changed.
    """
    restoring = state.restoring & ~(1 << el)
    if spsr & state.restored_by_host != 0:
        restoring |= 1 << el
    changes: bool = restoring != state.restoring
    state.restoring = restoring
    return changes


@routine
def work_out_watch(state: StateRecord) -> None:
    """Work out ``watch_at``, ``alike`` and ``entries``."""
    pairs = state.class_pairs
    watch_at = 0
    for el in range(LEVELS):
        marks = _marks(state, el)
        for to in range(el):
            if pairs >> 4 * el + to & 1 == 0 or _marks(state, to) != marks:
                watch_at |= MARK_RETURN << LEVEL_BITS * el
        if state.followed | state.has_pm | state.flow_hook != 0:
            watch_at |= MARK_RETURN << LEVEL_BITS * el
        watch_at |= marks << LEVEL_BITS * el
    state.watch_at = watch_at
    state.alike = 0 if state.followed != 0 else pairs & _DOWN
    state.entries = (
        0 if state.followed != 0 or state.observed != 0 else pairs & state.possible_entries
    )


@routine
def restore_watch(state: StateRecord, watch_at: int, alike: int) -> None:
    """Have what :func:`work_out_watch` once worked out from the same hold again."""
    state.watch_at, state.alike = watch_at, alike


@routine
def begin_watch(state: StateRecord, watch: int, entries: int, notes_fences: int) -> None:
    """Begin a run in which that is looked out for, until the Exception level changes."""
    state.watch = watch
    state.entries = entries
    state.notes_fences = notes_fences


@routine
def _marks(state: StateRecord, el: int) -> int:
    """The marks of blocks that the engine must not execute by itself at an Exception level."""
    marks: int = state.level_marks >> LEVEL_BITS * el & LEVEL_MARKS
    if state.restoring >> el & 1 != 0:
        marks |= MARK_RETURN
    return marks | _SUSPECT_MARKS if state.suspect >> el & 1 != 0 else marks


@routine
def at_level(state: StateRecord, el: int) -> None:
    """The PE is at another Exception level, or something else matters at its own."""
    state.watch = state.watch_at >> el * LEVEL_BITS & LEVEL_MARKS
    state.flow_then = el
    work_out_special(state)


@routine
def begin_flow(state: StateRecord, el: int) -> None:
    """Begin a run at an Exception level that follows branches."""
    state.flow_then = el
    flow_moves(state)


@routine
def flow_moves(state: StateRecord) -> None:
    """The next block begins at the Exception level at which the PE is now."""
    state.flow_el = state.flow_then
    state.flow_now = state.flow_el | state.flow_enabled << 2


@routine
def spsr_written(state: StateRecord, el: int, spsr: int, here: int) -> None:
    """SPSR_ELx has a new value; the PE is at ``here``."""
    if set_restoring(state, el, spsr) and state.followed == 0:
        work_out_watch(state)
        at_level(state, here)


@routine
def return_changes(state: StateRecord, el: int, here: int) -> None:
    """A new SPSR_ELx makes or ends a return that the engine gets wrong; the PE is at ``here``."""
    set_suspect(state, el, state.suspect >> el & 1 == 0)
    work_out_watch(state)
    at_level(state, here)


@routine
def stop_at_next_fence(state: StateRecord, executed: int) -> None:
    """Have Python look at a load, made after ``executed`` operations, at the next fence.

    The engine stops before that context synchronization event, or after the one that ends the block
    which runs.
    """
    state.notes_fences = 0
    state.watch |= MARK_FENCE
    if state.fence > executed:
        state.again = 0
        if state.notice == 0:
            end_after_block(state)
