"""What is to be done after a stop of the engine: :func:`decide` reads a report and does nothing.

``host.run.perform`` does it. A new kind of stop is a line here, and one more :class:`Do` if nothing
that is there will do.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import FailedCheck, Found
from spe_unicorn.host.pe.stops import StopHandler


class Do(Enum):
    """What is done after a stop, once all that was executed is counted."""

    NOTHING = "nothing"
    """What the stop is for is done already, or is done before the next run."""
    IDLE = "idle"
    """The engine stopped by itself: wait as a WFI does, or tell of an error of the engine."""
    GO_ON_IN_BLOCK = "go on in block"
    """Run up to the first horizon in the block before which the engine stands."""
    ADD_BLOCK = "add block"
    """Add the block before which the engine stands to the block table."""
    TAKE_INTERRUPT = "take interrupt"
    """Take the interrupt that is due before the next block."""
    GO_TO_TRAP = "go to trap"
    """Run the next block up to an operation that the host may have to execute."""
    FIND_UNTRANSLATED = "find untranslated"
    """Find the operation of the next block that the engine cannot translate."""
    STEP = "step"
    """Execute the operation that makes an awaited event by itself, from its beginning."""
    LEARN = "learn"
    """Tell the hook before each operation what to check at those that follow."""
    LET_THROUGH = "let through"
    """The operation has been checked: the engine executes it after all."""
    ADMIT = "admit"
    """The engine makes the access to Secure memory, if it may. If not, :attr:`Action.refused` says
    what is done."""
    END = "end"
    """A debugger outside wants the run to end."""
    EXECUTE = "execute"
    """The host executes the operation at which the engine stands."""
    CARRY_OUT = "carry out"
    """The operation has been executed. Do what the stop asks for after it."""
    REFETCH = "refetch"
    """The operation cannot be read any more: have the engine fetch it anew."""


class Seen(NamedTuple):
    """What there is at the operation that stopped the engine in the midst of a block."""

    readable: bool = True
    """Whether its code can be read; looked at if the host may have to execute it."""
    secure: bool = False
    """Whether it accesses Secure memory that the engine was not allowed to access."""
    found: Found = Found.NOTHING
    """What the checks before it found, at ``Stop.ACCESS``."""
    fault: FailedCheck | None = None
    """The fault that they found."""


NOTHING_SEEN: Final = Seen()
"""For a stop that is not in the midst of a block, or at an operation that nothing is known of."""


class Action(NamedTuple):
    """What is to be done, and with what."""

    do: Do
    report: RunReport
    fault: FailedCheck | None = None
    """The exception that the operation raises, where the checks before it found one."""
    refused: Do = Do.NOTHING
    """What is done if an access is not admitted."""


_AFTER: Final = {
    Stop.BUDGET: Do.GO_ON_IN_BLOCK,
    Stop.NOTICED: Do.NOTHING,
    Stop.UNSEEN: Do.ADD_BLOCK,
    Stop.INTERRUPT: Do.TAKE_INTERRUPT,
    Stop.TRAP: Do.GO_TO_TRAP,
    Stop.MISALIGNED: Do.NOTHING,
    Stop.WRONG_PATH: Do.NOTHING,
    Stop.UNTRANSLATED: Do.FIND_UNTRANSLATED,
    Stop.AWAITED: Do.STEP,
}
"""What is done after stops that ask for the same each time."""


_CHECKED: Final = {
    Found.NOTHING: Do.LET_THROUGH,
    Found.UNKNOWN: Do.LEARN,
    Found.OUTSIDE: Do.END,
}
"""What is done where the checks before an operation find no fault."""


def decide(report: RunReport, seen: Seen = NOTHING_SEEN) -> Action:
    """What is to be done after the stop that ``report`` tells of.

    ``seen`` counts if the stop is in the midst of a block.
    """
    always = _AFTER.get(report.stop)
    if always is not None:
        return Action(always, report)
    if report.stop is Stop.NONE:
        return Action(Do.NOTHING if report.halted and not report.status else Do.IDLE, report)
    if report.stop is Stop.ACCESS and seen.found is not Found.FAULT:
        return Action(_CHECKED[seen.found], report)
    if report.finished:
        do = Do.CARRY_OUT
    elif report.stop is Stop.EXCEPTION or seen.readable:
        do = Do.EXECUTE
    else:
        do = Do.REFETCH
    if seen.secure:
        return Action(Do.ADMIT, report, refused=do)
    return Action(do, report, seen.fault)


def inspect_stop(report: RunReport, handler: StopHandler) -> Seen:
    """Seen at the operation that stopped the engine in the midst of a block.

    What was executed has been counted. A debugger outside is asked here, so this is called once.
    """
    stop = report.stop
    if not report.within or stop is Stop.EXCEPTION:
        return NOTHING_SEEN
    found, fault, secure = Found.NOTHING, None, False
    if stop is Stop.ACCESS:
        found, fault = handler.controls.checks.check_operation()
    elif stop is Stop.UNMAPPED:
        secure = handler.refused.refused_as_secure
    readable = report.finished or handler.cpu.virtual.code(handler.cpu.pc, 1) is not None
    return Seen(readable, secure, found, fault)
