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
def grant(s: StateRecord, budget: int) -> None:
    """From here on ``budget`` operations are left; how many have been executed stays."""
    s.granted += budget - s.budget
    s.budget = budget


@routine
def charge(s: StateRecord, operations: int) -> None:
    """Count operations as executed; a negative number takes back some that were not."""
    s.budget -= operations


@routine
def charge_up_to(s: StateRecord, pc: int) -> None:
    """Take back what was counted of the block that began last after its operation at ``pc``."""
    done = ((pc - s.block & _IN_A_BLOCK) >> 2) + 1
    charge(s, min(done - s.block_operations, 0))


@routine
def executed_so_far(s: StateRecord, executed: int) -> None:
    """Have ``executed`` operations be what has been executed; those that are left stay."""
    s.granted = executed + s.budget


@routine
def not_retired(s: StateRecord) -> None:
    """Count the operation executed last as one that ended in an exception of its own."""
    s.unretired += 1


@routine
def goes_on_at(s: StateRecord, address: int) -> None:
    """Say where the next operation is if there is no branch."""
    s.flow_next = address


# Members of the population, where a cracker makes micro-operations


@routine
def grant_members(s: StateRecord, position: int, members: int) -> None:
    """After ``position`` members, have ``members`` be left before the chosen one."""
    s.members_granted = position + members
    s.members = members


@routine
def charge_members(s: StateRecord, members: int) -> None:
    """Count members as gone by; a negative number takes back some that were not."""
    s.members -= members


@routine
def members_so_far(s: StateRecord, position: int) -> None:
    """Have ``position`` members be what has gone by; those that are left stay."""
    s.members_granted = position + s.members


# Writes and maintenance


@routine
def begin_epoch(s: StateRecord) -> None:
    """From here on addresses may mean other code and data."""
    s.epoch += 1


@routine
def register_written(s: StateRecord) -> None:
    """Count a write of a register that the hooks notice."""
    s.writes += 1


@routine
def tlb_flushed(s: StateRecord) -> None:
    """Count an operation that empties the PE's whole TLB, or all of an address space."""
    s.flushes += 1


@routine
def broadcast(s: StateRecord, maintenance: int) -> None:
    """Note maintenance of which other PEs have to hear."""
    s.maintenance |= maintenance


@routine
def broadcast_line(s: StateRecord, line: int) -> bool:
    """Note the physical address of a line of code. Return False if there is no room for it."""
    if s.line_count >= LINES:
        return False
    array_at(pointer_to(s.code_lines), (LINES,), np.int64)[s.line_count] = line
    s.line_count += 1
    return True


@routine
def was_broadcast(s: StateRecord) -> None:
    """All of that maintenance has been told to the other PEs."""
    s.maintenance = s.line_count = 0


# The last exception


@routine
def note_exception(
    s: StateRecord, target: int, kind: int, after: int, pc: int, pstate: int
) -> None:
    """Note an exception taken to EL ``target`` after so many operations, at that PC and PSTATE.

    It has no syndrome, until :func:`note_syndrome` notes one.
    """
    s.taken_to, s.taken_kind, s.taken_after = target, kind, after
    s.taken_pc, s.taken_pstate = pc, pstate
    s.taken_has = 0


@routine
def note_syndrome(s: StateRecord, esr: int) -> None:
    """Note ESR_ELx after the exception that was noted last."""
    s.taken_esr = esr
    s.taken_has |= TAKEN_ESR


@routine
def note_fault_address(s: StateRecord, far: int) -> None:
    """Note FAR_ELx after the exception that was noted last."""
    s.taken_far = far
    s.taken_has |= TAKEN_FAR


@routine
def no_exception_yet(s: StateRecord) -> None:
    """The PE is reset: no exception has been taken since."""
    s.taken_to = 0


# A saved machine


def restore(s: StateRecord, executed: int, counts: Mapping[str, int]) -> None:
    """Put back what a saved machine has counted: operations executed, and other fields by name.

    None is left of what was granted.
    """
    for name, count in counts.items():
        setattr(s, name, count)
    grant(s, 0)
    executed_so_far(s, executed)
