"""The signals and reasons in stop replies to GDB."""

from __future__ import annotations

from typing import Final

from spe_unicorn.debug.gdb.breakpoints import Breakpoints
from spe_unicorn.host.ports import DebugReason, Ending
from spe_unicorn.host.run.debug_stops import Stopped

SIGINT, SIGABRT, SIGTRAP = 2, 6, 5
SIGNALS: Final = {
    Ending.LIMIT: SIGINT,
    Ending.ASLEEP: SIGTRAP,
    Ending.FAILED: SIGABRT,
}
"""The signal of a stop after which the run cannot go on, or not without a change."""


def why(stopped: Stopped, breakpoints: Breakpoints, pc: int) -> str:
    """The reason of a stop of a PE at ``pc``, as a stop reply has it; empty for an event."""
    if stopped.reason is DebugReason.BREAKPOINT:
        return "hwbreak:;" if breakpoints.is_hardware(pc) else "swbreak:;"
    if stopped.reason is DebugReason.WATCHPOINT:
        return f"{breakpoints.kind_of_watch(stopped.address)}:{stopped.address:x};"
    return ""
