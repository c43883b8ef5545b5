"""Where a debugger has one PE stop: at breakpoints, after a step, or when it is told to.

A breakpoint is an address at which the engine halts, so the guest's memory stays as it is, and code
without breakpoints runs as fast as before. Nothing here is the guest's: with and without these
stops the same operations are executed and sampled. A debug exception of the guest's own debugger
comes first where both are due.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.host.pe.checks.operations import Checks
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import NEVER_HAPPENS, DebugReason

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why a PE stands still.

    ``detail`` is a sentence for an event, ``address`` the first watched byte of an access.
    """

    reason: DebugReason
    detail: str = ""
    address: int = 0


@dataclass(frozen=True, slots=True)
class Watchpoint:
    """Virtual addresses, ``first`` to ``last``, before whose loads or stores a PE stops."""

    first: int
    last: int
    read: bool
    write: bool


class DebugStops:
    """The stops of one PE. The runner looks here before each run of the engine."""

    TRANSIT = (
        "_began",
        "_came_from",
        "_events",
        "_passes_watched",
        "_watched_at",
        "_watchpoints",
        "active",
        "breakpoints",
        "goal",
        "stopped",
    )

    def __init__(self, cpu: UnicornCPU, checks: Checks) -> None:
        self.active = False
        """Whether there is anything to look for."""
        self.breakpoints: frozenset[int] = frozenset()
        """Virtual addresses before whose operations the PE stops."""
        self.goal = NEVER_HAPPENS
        """The number of executed operations at which the PE stops."""
        self.stopped: Stopped | None = None
        """Why it has stopped, None if it has not."""
        self._cpu = cpu
        self._engine = cpu.engine
        self._checks = checks
        self._watchpoints: tuple[Watchpoint, ...] = ()
        self._events = False
        """Whether the PE stops at events."""
        self._began = self._came_from = _NOWHERE
        self._watched_at: tuple[int, int] | None = None
        """The PC and the number of executed operations, if a watchpoint stopped the PE there."""
        self._passes_watched = False
        """Whether the operation that is stepped has been stopped by a watchpoint already."""

    def resume(
        self,
        breakpoints: Collection[int],
        step: tuple[int, int] | None = None,
        watchpoints: Collection[Watchpoint] = (),
        *,
        passes: tuple[int, int] | None = None,
        events: bool = False,
    ) -> None:
        """Say what the next run stops at.

        ``step`` and ``passes`` are each a PC and a number of executed operations, and so name the
        next operation. Its breakpoint does not count, and its watchpoints do not if one of them has
        just stopped the PE before it. With ``step`` the PE stops after that operation, or before it
        where an interrupt takes the PE elsewhere. With ``passes`` the PE goes on. With ``events``
        it stops where :meth:`stop` is called.
        """
        here = self._cpu.pc, self._cpu.executed
        if self.stopped is not None and self.stopped.reason is DebugReason.WATCHPOINT:
            self._watched_at = here
        elif self._watched_at != here:
            self._watched_at = None
        self._events = events
        self._passes_watched = self._watched_at is not None
        self.breakpoints = frozenset(breakpoints)
        self.stopped = None
        self.goal = NEVER_HAPPENS
        self._began = self._came_from = _NOWHERE
        if step is not None:
            self._came_from, self._began = step
            self.goal = self._began + 1
        elif passes is not None:
            self._came_from, self._began = passes
        self.active = bool(self.breakpoints) or step is not None
        wanted = tuple(watchpoints)
        if wanted != self._watchpoints:
            self._watchpoints = wanted
            self._checks.attach(_Watching(self) if wanted else None)

    @property
    def watchpoints(self) -> tuple[Watchpoint, ...]:
        """What is watched."""
        return self._watchpoints

    def accesses(self, pc: int, accesses: tuple[MemoryAccess, ...]) -> bool:
        """Whether the PE stops before the operation at ``pc``, which makes these accesses."""
        stepped = pc == self._came_from and 0 <= self._cpu.executed - self._began <= 1
        if stepped and self._passes_watched:  # the operation may have been counted already
            return False
        for access in accesses:
            for watched in self._watchpoints:
                kind = (access.read and watched.read) or (access.write and watched.write)
                begin = max(access.address, watched.first)
                if kind and begin <= min(access.address + access.size - 1, watched.last):
                    self.stopped = Stopped(DebugReason.WATCHPOINT, address=begin)
                    self.active = True
                    return True
        return False

    def stop(self, detail: str) -> None:
        """Stop after the operation that runs, for an event that a debugger asked for.

        It is for nothing where the run does not stop at events (:meth:`resume`).
        """
        if self._events and self.stopped is None:
            self.stopped = Stopped(DebugReason.EVENT, detail)
            self.active = True

    def insert(self, pc: int) -> None:
        """Have the engine halt at each breakpoint, except at ``pc``, which the PE passes."""
        missing = self.breakpoints - self._engine.halts - {pc}
        if missing:
            self._engine.halt_at(self._engine.halts | missing)
            self._engine.forget_all_code()

    def reached(self, pc: int, executed: int) -> bool:
        """Whether the PE stops before the operation at ``pc``. If so, :attr:`stopped` says why."""
        if self.stopped is not None:
            return True
        if executed == self._began:
            if pc == self._came_from:
                return False
            if self.goal != NEVER_HAPPENS:
                self.stopped = Stopped(DebugReason.STEP)
                return True
        if executed >= self.goal:
            self.stopped = Stopped(DebugReason.STEP)
        elif pc in self.breakpoints and not self._passes(pc, executed):
            self.stopped = Stopped(DebugReason.BREAKPOINT)
        else:
            return False
        return True

    def _passes(self, pc: int, executed: int) -> bool:
        """Whether a breakpoint at ``pc`` does not count: what is there has begun, or faults."""
        return self._cpu.unfinished == (pc, executed) or self._checks.debug.comes_first()


class _Watching:
    """The debugger of ``host.pe.checks``, for watchpoints. Breakpoints are halts of the engine."""

    breakpoints: Collection[int] = ()

    def __init__(self, stops: DebugStops) -> None:
        self._stops = stops

    @property
    def watched(self) -> Collection[tuple[int, int, bool, bool]]:
        return [(w.first, w.last, w.read, w.write) for w in self._stops.watchpoints]

    def stops(self, pc: int, accesses: tuple[MemoryAccess, ...]) -> bool:
        return self._stops.accesses(pc, accesses)
