"""GDB's ``bc``: goes back to the last stop before here, by ``debug.travel``."""

from __future__ import annotations

from dataclasses import replace

from spe_unicorn.debug.gdb.breakpoints import Breakpoints
from spe_unicorn.debug.travel import Travel
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.ports import DebugReason, Ending
from spe_unicorn.host.run.debug_stops import Stopped
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement


class Backwards:
    """Takes one board back to the last stop of a debugger."""

    def __init__(self, board: Board, breakpoints: Breakpoints, travel: Travel) -> None:
        self._board = board
        self._breakpoints = breakpoints
        self._travel = travel
        self._passed: dict[int, int] = {}
        """The position at which each PE, by its number, stopped last: it first leaves it."""
        self._stops: dict[int, tuple[ProcessingElement, Stopped]] = {}
        """The stops on the way, by position: of several at one place, the last."""

    def to_last_stop(self, *, here: bool = False) -> tuple[ProcessingElement, Stopped]:
        """Go back to the last stop before here: the PE that stopped, and why.

        With ``here`` a stop at this very place counts too.

        Raises PastError where there was none, and InterruptedTravelError.
        """
        self._passed.clear()
        self._stops.clear()
        try:
            self._travel.back_to_stop(self._run, here=here)
            found = self._stops[self._travel.position]
            if found[1].reason is DebugReason.WATCHPOINT:
                # GDB expects the machine after the access, and undoes the access by a step
                self._travel.back_to(self._travel.position + 1)
            return found
        finally:
            self._release()
            self._stops.clear()

    def _run(self, left: int | None, goes_on: bool) -> Ending:
        """Run up to a stop or a limit, as ``debug.travel.Run`` has it."""
        board = self._board
        goal = None if left is None else board.executed + left
        if not goes_on:
            self._resume()
        while True:
            ending = board.run(None if goal is None else goal - board.executed, NEVER)
            if ending is Ending.INTERRUPTED:
                return ending
            pe, stopped = self._stopped()
            if stopped is None or pe is None:
                return ending
            if stopped.reason is not DebugReason.STEP:
                self._note(pe, stopped)
                return Ending.STOPPED
            self._passed.pop(pe.number, None)
            self._resume()  # it has left

    def _note(self, pe: ProcessingElement, stopped: Stopped) -> None:
        """Note a stop. What is to be said of an event at the same place is said, too."""
        position = self._board.executed
        self._passed[pe.number] = position
        earlier = self._stops.get(position)
        if earlier is not None and not stopped.detail:
            stopped = replace(stopped, detail=earlier[1].detail)
        self._stops[position] = pe, stopped

    def _resume(self) -> None:
        breakpoints, position = self._breakpoints, self._board.executed
        for pe in self._board.pes:
            leaves = self._passed.get(pe.number) == position
            step = (pe.cpu.pc, pe.cpu.executed) if leaves else None
            pe.runner.stops.resume(
                breakpoints.addresses, step, breakpoints.watchpoints, events=True
            )

    def _stopped(self) -> tuple[ProcessingElement | None, Stopped | None]:
        for pe in self._board.pes:
            if pe.runner.stops.stopped is not None:
                return pe, pe.runner.stops.stopped
        return None, None

    def _release(self) -> None:
        for pe in self._board.pes:
            pe.runner.stops.resume(())
