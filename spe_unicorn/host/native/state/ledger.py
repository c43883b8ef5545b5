"""Who counts: each function here is one kind of entry in what is counted.

The hooks call them while the engine runs, Python while it stands. Nothing else stores to the fields
whose writer is the ledger, but for the machine code that counts a block in place of :func:`charge`
(``hot_path``, ``inline.written``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine
from spe_unicorn.host.native.state.clock import TAKEN_ESR, TAKEN_FAR
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.wiring import LINES

_IN_A_BLOCK: Final = (1 << 32) - 1
"""What is left of the distance between two addresses of a block."""

# Operations


@routine
def grant(state: StateRecord, budget: int) -> None:
    """From here on ``budget`` operations are left; how many have been executed stays."""
    state.granted += budget - state.budget
    state.budget = budget


@routine
def charge(state: StateRecord, operations: int) -> None:
    """Count operations as executed; a negative number takes back some that were not."""
    state.budget -= operations


@routine
def charge_up_to(state: StateRecord, pc: int) -> None:
    """Take back what was counted of the block that began last after its operation at ``pc``."""
    done = ((pc - state.block & _IN_A_BLOCK) >> 2) + 1
    charge(state, min(done - state.block_operations, 0))


@routine
def executed_so_far(state: StateRecord, executed: int) -> None:
    """Have ``executed`` operations be what has been executed; those that are left stay."""
    state.granted = executed + state.budget


@routine
def not_retired(state: StateRecord) -> None:
    """Count the operation executed last as one that ended in an exception of its own."""
    state.unretired += 1


@routine
def goes_on_at(state: StateRecord, address: int) -> None:
    """Say where the next operation is if there is no branch."""
    state.flow_next = address


# Members of the population, where a cracker makes micro-operations


@routine
def grant_members(state: StateRecord, position: int, members: int) -> None:
    """After ``position`` members, have ``members`` be left before the chosen one."""
    state.members_granted = position + members
    state.members = members


@routine
def charge_members(state: StateRecord, members: int) -> None:
    """Count members as gone by; a negative number takes back some that were not."""
    state.members -= members


@routine
def members_so_far(state: StateRecord, position: int) -> None:
    """Have ``position`` members be what has gone by; those that are left stay."""
    state.members_granted = position + state.members


# Writes and maintenance


@routine
def begin_epoch(state: StateRecord) -> None:
    """From here on addresses may mean other code and data."""
    state.epoch += 1


@routine
def register_written(state: StateRecord) -> None:
    """Count a write of a register that the hooks notice."""
    state.writes += 1


@routine
def tlb_flushed(state: StateRecord) -> None:
    """Count an operation that empties the PE's whole TLB, or all of an address space."""
    state.flushes += 1


@routine
def broadcast(state: StateRecord, maintenance: int) -> None:
    """Note maintenance of which other PEs have to hear."""
    state.maintenance |= maintenance


@routine
def broadcast_line(state: StateRecord, line: int) -> bool:
    """Note the physical address of a line of code. Return False if there is no room for it."""
    if state.line_count >= LINES:
        return False
    array_at(pointer_to(state.code_lines), (LINES,), np.int64)[state.line_count] = line
    state.line_count += 1
    return True


@routine
def was_broadcast(state: StateRecord) -> None:
    """All of that maintenance has been told to the other PEs."""
    state.maintenance = state.line_count = 0


# PSTATE


@routine
def set_pm(state: StateRecord, pm: int) -> None:
    """Write PSTATE.PM."""
    state.pm = pm


# The last exception


@routine
def note_exception(
    state: StateRecord, target: int, kind: int, after: int, pc: int, pstate: int
) -> None:
    """Note an exception taken to EL ``target`` after ``after`` operations, at that PC and PSTATE.

    It has no syndrome, until :func:`note_syndrome` notes one.
    """
    state.taken_to = target
    state.taken_kind = kind
    state.taken_after = after
    state.taken_pc, state.taken_pstate = pc, pstate
    state.taken_has = 0


@routine
def note_syndrome(state: StateRecord, esr: int) -> None:
    """Note ESR_ELx after the exception that was noted last."""
    state.taken_esr = esr
    state.taken_has |= TAKEN_ESR


@routine
def note_fault_address(state: StateRecord, far: int) -> None:
    """Note FAR_ELx after the exception that was noted last."""
    state.taken_far = far
    state.taken_has |= TAKEN_FAR


@routine
def no_exception_yet(state: StateRecord) -> None:
    """The PE is reset: no exception has been taken since."""
    state.taken_to = 0


# A saved machine


def restore(state: StateRecord, executed: int, counts: Mapping[str, int]) -> None:
    """Put back what a saved machine has counted: operations executed, and other fields by name.

    None is left of what was granted.
    """
    for name, count in counts.items():
        setattr(state, name, count)
    grant(state, 0)
    executed_so_far(state, executed)
