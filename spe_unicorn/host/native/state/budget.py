"""How many operations a run has left, and how it ends after a block."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import grant
from spe_unicorn.host.native.state.transit import branch_resolved

UNBOUNDED: Final = 1 << 60
"""A budget that no run exhausts."""
BUDGET_SPENT: Final = 1
"""``State.notice`` where the engine stops after the block for another reason than an ERET."""
NOTICE_RETURN: Final = 2
"""``State.notice`` while a block runs that ends with an ERET."""


@routine
def end_after_block(state: StateRecord) -> None:
    """Have the engine stop after the block that runs."""
    state.notice = BUDGET_SPENT
    grant(state, 0)


@routine
def end_here(state: StateRecord) -> None:
    """Have the run end after what has been executed so far."""
    state.samples_itself = 0
    grant(state, 0)


@routine
def begin_anew_after_block(state: StateRecord) -> None:
    """Have the next block begin anew (:func:`begin_anew`), or the engine stop before it.

    For a hook in whose midst the PC was written. After that the engine no longer says, at a stop in
    the same run, at which operation of a block it is, until it leaves a hook for blocks.
    """
    if state.notice != 0:
        return  # the engine stops in any case
    again = state.budget << 1 | 1
    end_after_block(state)
    if state.begins_anew != 0:
        state.again = again


@routine
def begin_anew(state: StateRecord) -> None:
    """The next block is here: what it would have been stopped for is over.

    The core model has seen it, and will see it again when it begins anew: the branch at its end
    has not been executed. So will the hook for the last branch (``flow.on_flow``).
    """
    state.notice = 0
    grant(state, state.again >> 1)
    state.again = 0
    state.flow_twice = 1
    branch_resolved(state)
