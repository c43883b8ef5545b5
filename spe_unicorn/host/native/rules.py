"""The one text of rules that Python and compiled code both need.

Some are functions of the pure rooms. The others say what a write of a System register changes
beside the register. The compiled hook calls them for an MSR of the engine's. Python calls them
where it makes the write in the engine's place (an EL1 name at EL2, an _EL12 name).
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.fine_grained_traps import trap_id
from spe_unicorn.arch.access.tlb import place_of
from spe_unicorn.arch.counter import first_cycle, ticks
from spe_unicorn.arch.exceptions.entry import vector_address
from spe_unicorn.compiled import routine
from spe_unicorn.decode.effects import address_of as access_address
from spe_unicorn.decode.effects import extended
from spe_unicorn.decode.words import is_dsb_nxs
from spe_unicorn.host.native.exceptions.returns import is_suspect
from spe_unicorn.host.native.state.actions import Action
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import begin_epoch, register_written
from spe_unicorn.host.native.state.transit import (
    CONTROLS_WRITTEN,
    RECORD_CONTROLS_WRITTEN,
    note_controls,
)

__all__ = [
    "access_address",
    "changes_return",
    "count_write",
    "first_cycle",
    "is_dsb_nxs",
    "place_of",
    "ticks",
    "trap_id",
    "vector_address",
]

for _rule in (
    *(access_address, extended, is_dsb_nxs, place_of),
    *(first_cycle, ticks, trap_id, vector_address),
):
    routine(_rule)

_ENGINE = int(Action.ENGINE)
_TRANSLATION = int(Action.TRANSLATION)
_REGIME = int(Action.REGIME)
_RECORDS: Final = int(Action.RECORDS)


@routine
def count_write(state: StateRecord, action: int, matters: bool) -> bool:
    """Count a write of a register with an action. Return True if the engine must stop after it.

    ``matters`` says that a bit which the host looks at has changed.
    """
    if action == _ENGINE:
        return False
    register_written(state)
    if action == _TRANSLATION:
        begin_epoch(state)
        return False
    if not matters or (action == _RECORDS and state.collects == 0):
        return False
    if action == _REGIME:
        begin_epoch(state)
    note_controls(state, RECORD_CONTROLS_WRITTEN if action == _RECORDS else CONTROLS_WRITTEN)
    return True


@routine
def changes_return(state: StateRecord, el: int, spsr: int) -> bool:
    """Whether a new SPSR_ELx makes or ends a return from ``el`` that the engine gets wrong."""
    known: bool = state.suspect >> el & 1 != 0
    return known != is_suspect(state.legal_returns, el, spsr)
