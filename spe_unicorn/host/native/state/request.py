"""What the present run of the engine may do: Python says it once, and the hooks read it."""

from __future__ import annotations

import ctypes
from typing import Final

from spe_unicorn.host.native.state.field import Field, Writer

_REQUEST: Final = Writer.REQUEST
OWN_HVC, OWN_SMC = 1, 2
"""Bits of ``State.own_calls``."""
PASSES_SOME, PASSES_EACH = 1, 2
"""``State.passes_wfe``: a WFE after an event does not wait; no WFE waits."""
CHECK_SYSTEM: Final = 64
"""The bit of ``State.checking`` for the tables ``looked_at``."""


class Request(ctypes.Structure):
    """What the present run may do, and what it is to look out for.

    ``requests.RunRequest`` writes it before each run, or the compiled code that begins turns. The
    hooks read it and write none of it.
    """

    FIELDS: Final = (
        Field(
            "limit",
            _REQUEST,
            "Executed operations that no block of this run may pass: one that would is not begun.",
        ),
        Field("horizon", _REQUEST, "Executed operations at which this run is to stop."),
        Field("gap_epoch", _REQUEST, "The `epoch` for which `samples_itself` holds."),
        Field(
            "collects",
            _REQUEST,
            "Whether a write to a register of which only records tell is noticed: profiling is"
            " enabled at some Exception level, or there is a watcher or a follower of the context.",
        ),
        Field("checking", _REQUEST, "What is checked before operations: bits of `checks`."),
        Field(
            "tally",
            _REQUEST,
            "Not 0 if the rows of the table `tallies` are added up: twice the number of the events"
            " in them, and 1 more if one of those depends on which way branches go.",
        ),
        Field("weigh", _REQUEST, "Whether members are counted by the weights of blocks."),
        Field("speculates", _REQUEST, "Whether operations on wrong paths are members."),
        Field("flow_enabled", _REQUEST, "Whether profiling is enabled in this run."),
        Field(
            "begins_anew",
            _REQUEST,
            "Whether the hooks may have a block begin a second time.",
        ),
        Field(
            "seeks",
            _REQUEST,
            "Whether this run ends before the first block with an operation that the engine"
            " executes wrongly. Such blocks are not yet looked out for.",
        ),
        Field("own_calls", _REQUEST, "Calls that only the guest answers: OWN_HVC, OWN_SMC."),
        Field(
            "sends_events",
            _REQUEST,
            "Whether the engine executes a SEV of this run: no PE waits in a WFE, so a SEV sets"
            " Event Registers and does nothing else.",
        ),
        Field(
            "passes_wfe",
            _REQUEST,
            "Whether the engine executes a WFE that does not wait: PASSES_SOME, or PASSES_EACH if"
            " none waits.",
        ),
        Field(
            "uart_at",
            _REQUEST,
            "The physical address of the UART that compiled code answers for in this run; 0: none.",
        ),
        Field(
            "sampling_at",
            _REQUEST,
            "A bit for each Exception level: PMBPTR_EL1, PMBSR_EL1 and PMSICR_EL1 are read there in"
            " compiled code.",
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]
