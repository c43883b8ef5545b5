"""Runs of one machine: up to a place, a number of operations or a time, and what each came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Final

from spe_unicorn.debug.misuse_found import Misuses
from spe_unicorn.debug.whereabouts import whereabouts
from spe_unicorn.host import ports
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.machine.board import Board
from spe_unicorn.session.outcome import Ending, Outcome, Share
from spe_unicorn.session.point import AtAddress, AtOperation, AtOutput, Place, PointError
from spe_unicorn.signals import Signal

Drive = Callable[[int | None, int], ports.Ending]
"""Runs a board for a number of operations, or up to an address."""
_GOES_ON: Final = frozenset({"until", "limit"})
"""Endings after which the machine can run on."""
_ENDINGS: Final[dict[ports.Ending, Ending]] = {
    ports.Ending.EXIT: "exit",
    ports.Ending.UNTIL: "until",
    ports.Ending.LIMIT: "limit",
    ports.Ending.ASLEEP: "asleep",
    ports.Ending.FAILED: "failed",
    ports.Ending.INTERRUPTED: "interrupted",
}


class MachineEndedError(RuntimeError):
    """The guest has ended or failed, or the machine is closed: only a new machine runs again."""


class Runs:
    """Runs a board, one run after the other.

    ``written`` tell of console output.
    """

    def __init__(self, board: Board, written: Sequence[Signal[[bytes]]]) -> None:
        self.drive: Drive = board.run
        """The function that runs the board: a debugger's once there is one."""
        self.ended: str | None = None
        """Why the guest does not go on, None where it does."""
        self.closed = False
        """Whether the machine is closed, so that it does not go on either."""
        self.misuses: Misuses | None = None
        """Finds mistakes in how the guest programs SPE; None where nobody looks for any."""
        self._board = board
        self._written = written
        self._stopped: tuple[Ending, str] | None = None

    def must_go_on(self) -> None:
        """Raise MachineEndedError if the guest has ended, or if the machine is closed."""
        if self.closed:
            raise MachineEndedError("this machine is closed: make a new Machine to run it again")
        if self.ended is not None:
            raise MachineEndedError(f"{self.ended}: make a new Machine to run it again")

    def run(self, operations: int | None, place: Place | None, timeout: float | None) -> Outcome:
        """Run on, up to whatever comes first. Raises PointError for a place that has gone by."""
        board = self._board
        limit, address = operations, NEVER
        with ExitStack() as while_running:
            if isinstance(place, AtOperation):
                limit = self._left(place, operations)
            elif isinstance(place, AtAddress):
                address = place.address
            elif isinstance(place, AtOutput):
                for written in self._written:
                    search = _Search(place.text.encode(), board.reached)
                    while_running.callback(written.connect(search))
            if timeout is not None:
                look = partial(self._look_at_clock, time.monotonic() + timeout, timeout)
                while_running.callback(board.slice_ended.connect(look))
            before = board.executed
            began = time.monotonic()
            ending = self.drive(limit, address)
        seconds = time.monotonic() - began
        outcome = self._outcome(*self._why(ending, place, operations))
        return replace(outcome, seconds=seconds, executed=board.executed - before)

    def stop(self, ending: Ending, cause: str) -> None:
        """End the run soon, for this cause. A board that does not run ends its next run at once."""
        if self._stopped is None:
            self._stopped = ending, cause
        self._board.stop()

    def _left(self, place: AtOperation, operations: int | None) -> int:
        executed = self._board.executed
        left = place.count - executed
        if left < 0:
            raise PointError(f"operation {place.count} has gone by: {executed} have been executed")
        return left if operations is None else min(left, operations)

    def _look_at_clock(self, deadline: float, timeout: float) -> None:
        if time.monotonic() >= deadline:
            self.stop("timeout", f"the time limit of {timeout:g} s was reached")

    def _why(
        self, ended: ports.Ending, place: Place | None, operations: int | None
    ) -> tuple[Ending, str | None]:
        """How the run ended, and the sentence that says why."""
        board = self._board
        ending = _ENDINGS[ended]
        stopped, self._stopped = self._stopped, None
        if ending == "limit" and isinstance(place, AtOperation) and place.count == board.executed:
            ending = "until"
        if ending == "until":
            return ending, f"{place} was reached"
        if ending == "limit":
            return ending, f"the limit of {operations} operations was reached"
        if ending == "asleep":
            return ending, "the guest waits for an interrupt, and nothing can ever raise one"
        if ending == "interrupted":
            return stopped or (ending, "the engine stopped")
        failure = board.running.handler.failure
        return ending, None if failure is None else failure.reason

    def _outcome(self, ending: Ending, cause: str | None) -> Outcome:
        board = self._board
        if ending == "exit":
            self.ended = f"the guest has ended with status {board.exit_status}"
        elif ending == "failed":
            self.ended = f"the guest cannot go on ({cause})"
        misuses = self.misuses
        if misuses is not None and ending not in _GOES_ON:
            misuses.finish()
        return Outcome(
            ending,
            cause,
            board.exit_status,
            board.running.number,
            whereabouts(board),
            0.0,
            tuple(
                Share(pe.cpu.executed, deepcopy(pe.unit.statistics), pe.events.counts)
                for pe in board.pes
            ),
            0,
            None if misuses is None else tuple(misuses.found),
            reduce(add, (pe.cpu.hooks.counted_inline for pe in board.pes)),
        )


class _Search:
    """Looks for a text in pieces of output, and calls ``found`` when a piece completes the text.

    It keeps only bytes that may be the beginning of the text.
    """

    def __init__(self, text: bytes, found: Callable[[], None]) -> None:
        self._text = text
        self._found = found
        self._seen = b""

    def __call__(self, data: bytes) -> None:
        seen = self._seen + data
        if self._text in seen:
            self._found()
        self._seen = seen[max(0, len(seen) - len(self._text) + 1) :]
