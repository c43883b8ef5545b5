"""Why a hook stopped the engine."""

from __future__ import annotations

from enum import IntEnum


class Stop(IntEnum):
    """Why a hook stopped the engine."""

    NONE = 0
    """No hook did: WFI, ``until``, an engine error, or a stop that the user asked for."""
    BUDGET = 1
    """Before a block that has more operations than the budget has left."""
    EXCEPTION = 3
    """The guest took an exception; the engine has not entered a vector."""
    SYSTEM = 4
    """Before an MRS, MSR or SYS that Python answers."""
    UNMAPPED = 5
    """Before an access to memory that the engine does not have."""
    NOTICED = 6
    """After an ERET or a write to a steering register, before what follows it."""
    UNSEEN = 7
    """Before a block that the block table does not hold."""
    INTERRUPT = 8
    """Before a block, with an interrupt to be taken."""
    TRAP = 9
    """Before a block that has an operation which traps here and the engine would execute."""
    MISALIGNED = 10
    """Before a block at an address that is not a multiple of 4."""
    WRONG_PATH = 11
    """Before a block, with a wrong path that Python is to look at."""
    ACCESS = 12
    """Before an operation whose alignment or accesses have to be looked at, or at a breakpoint."""
    UNTRANSLATED = 13
    """Before a block that the engine cannot translate (``host.engine.surviving``)."""
    AWAITED = 14
    """At an operation that makes an awaited event (``native.sampling.awaited``): it has begun, and
    is to be taken back."""
