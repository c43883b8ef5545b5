"""What is counted. A saved machine keeps it."""

from __future__ import annotations

import ctypes
from typing import Final

from spe_unicorn.host.native.state.field import Field, Writer

_HOOKS = Writer.HOOKS
_LEDGER = Writer.LEDGER
_PYTHON = Writer.PYTHON
TLB_MAINTENANCE, CODE_MAINTENANCE, FLUSH_MAINTENANCE = 1, 2, 4
"""Bits of ``State.maintenance``."""
TAKEN_ESR, TAKEN_FAR = 1, 2
"""Bits of ``State.taken_has``."""


class Clock(ctypes.Structure):
    """What is counted, and what else a saved machine needs to go on. Counts are in operations.

    The functions of ``state.ledger`` write nearly all of it.
    """

    FIELDS: Final = (
        Field(
            "granted",
            _LEDGER,
            "Operations granted since the machine began: `granted - budget` have been executed, up"
            " to the end of the block that began last.",
        ),
        Field(
            "members_granted",
            _LEDGER,
            "Where a cracker makes micro-operations: the members of the population granted since"
            " the machine began, of which `members_granted - members` have been counted.",
        ),
        Field("skipped", _PYTHON, "Cycles that the PE has slept."),
        Field("unretired", _LEDGER, "Operations executed that ended in an exception of their own."),
        Field("epoch", _LEDGER, "Counts changes of what addresses of code and data mean."),
        Field(
            "writes",
            _LEDGER,
            "Counts writes of the registers that the hooks notice. A value that Python keeps of"
            " such a register holds while this number stays.",
        ),
        Field(
            "flushes",
            _LEDGER,
            "Counts operations that empty a PE's whole TLB, or all of it of an address space.",
        ),
        Field(
            "maintenance",
            _LEDGER,
            "Maintenance of which other PEs have to hear: TLB_MAINTENANCE, CODE_MAINTENANCE,"
            " FLUSH_MAINTENANCE.",
        ),
        Field(
            "line_count", _LEDGER, "Single lines of instruction caches in the table `code_lines`."
        ),
        Field("flow", _HOOKS, "Exception level after the last taken branch, with FLOW_VALID."),
        Field("flow_target", _HOOKS, "Where the last taken branch went."),
        Field("flow_next", _LEDGER, "Where the next operation is if there is no branch."),
        Field("flow_was", _HOOKS, "Whether profiling was enabled in the block before."),
        Field("pm", _LEDGER, "PSTATE.PM, for which the engine has no room."),
        Field("taken_to", _LEDGER, "Target EL of the last exception taken, 0 for none."),
        Field("taken_after", _LEDGER, "Operations executed before the entry of that exception."),
        Field("taken_kind", _LEDGER, "The `arch.exceptions.ExceptionType` of that exception."),
        Field("taken_pc", _LEDGER, "The PC before that exception."),
        Field("taken_pstate", _LEDGER, "PSTATE before that exception."),
        Field(
            "taken_esr", _LEDGER, "ESR_ELx after that exception, where `taken_has` has TAKEN_ESR."
        ),
        Field(
            "taken_far", _LEDGER, "FAR_ELx after that exception, where `taken_has` has TAKEN_FAR."
        ),
        Field("taken_has", _LEDGER, "Which of the last two hold: TAKEN_ESR, TAKEN_FAR."),
        Field(
            "members",
            _LEDGER,
            "Where a cracker makes micro-operations: members of the population left before the"
            " chosen one, while `weigh` is set.",
        ),
        Field(
            "budget", _LEDGER, "Operations left of those granted; the hooks stop before the next."
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]
