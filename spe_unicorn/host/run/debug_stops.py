"""Where a debugger has one PE stop: at breakpoints, after a step, or when it is told to.

A breakpoint is an address at which the engine halts, so the guest's memory stays as it is, and code
without breakpoints runs as fast as before. Nothing here is the guest's: with and without these
stops the same operations are executed and sampled.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.ports import NEVER_HAPPENS, DebugReason

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why a PE stands still. ``detail`` is a sentence for an event, empty for all others."""

    reason: DebugReason
    detail: str = ""


class DebugStops:
    """The stops of one PE. The runner looks here before each run of the engine."""

    TRANSIT = ("_began", "_came_from", "active", "breakpoints", "goal", "stopped")

    def __init__(self, engine: Engine) -> None:
        self.active = False
        """Whether there is anything to look for."""
        self.breakpoints: frozenset[int] = frozenset()
        """Virtual addresses before whose operations the PE stops."""
        self.goal = NEVER_HAPPENS
        """How many operations it has executed when it stops."""
        self.stopped: Stopped | None = None
        """Why it has stopped, None if it has not."""
        self._engine = engine
        self._began = self._came_from = _NOWHERE

    def resume(
        self,
        breakpoints: Collection[int],
        step: tuple[int, int] | None = None,
    ) -> None:
        """Say what the next run stops at.

        ``step`` is the PC and how many operations have been executed: the PE then stops after the
        next operation, or before it where an interrupt takes the PE elsewhere. A breakpoint at that
        PC does not count.
        """
        self.breakpoints = frozenset(breakpoints)
        self.stopped = None
        self.goal = NEVER_HAPPENS
        self._began = self._came_from = _NOWHERE
        if step is not None:
            self._came_from, self._began = step
            self.goal = self._began + 1
        self.active = bool(self.breakpoints) or step is not None

    def stop(self, detail: str) -> None:
        """Something has happened that is asked for: stop after the operation that runs."""
        if self.stopped is None:
            self.stopped = Stopped(DebugReason.EVENT, detail)
            self.active = True

    def insert(self, pc: int) -> None:
        """Have the engine halt at each breakpoint but one at ``pc``, which is passed."""
        missing = self.breakpoints - self._engine.halts - {pc}
        if missing:
            self._engine.halt_at(self._engine.halts | missing)
            self._engine.forget_all_code()

    def reached(self, pc: int, executed: int) -> bool:
        """Whether the PE stops before the operation at ``pc``; :attr:`stopped` then says why."""
        if self.stopped is not None:
            return True
        if executed == self._began:
            if pc == self._came_from:
                return False
            self.stopped = Stopped(DebugReason.STEP)
        elif executed >= self.goal:
            self.stopped = Stopped(DebugReason.STEP)
        elif pc in self.breakpoints:
            self.stopped = Stopped(DebugReason.BREAKPOINT)
        else:
            return False
        return True
