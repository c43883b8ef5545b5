"""Runs of one machine: up to a place, a number of operations or a time, and what each came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Final

from spe_unicorn.compiled import seconds_spent
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

    def run(
        self,
        operations: int | None,
        places: Collection[Place],
        timeout: float | None,
        clock: Callable[[], float],
    ) -> Outcome:
        """Run on, up to whatever comes first; ``timeout`` is in seconds of ``clock``.

        Raises PointError for a place that has gone by, and for two addresses.
        """
        board = self._board
        limit, address = operations, _address(places)
        printed: list[AtOutput] = []
        with ExitStack() as while_running:
            for place in places:
                if isinstance(place, AtOperation):
                    limit = self._left(place, limit)
                elif isinstance(place, AtOutput):
                    for written in self._written:
                        found = partial(self._on_output, place, printed)
                        search = _Search(place.text.encode(), found)
                        while_running.callback(written.connect(search))
            if timeout is not None:
                look = partial(self._check_deadline, clock, clock() + timeout, timeout)
                while_running.callback(board.slice_ended.connect(look))
            before = board.executed
            began, made = time.monotonic(), seconds_spent()
            ending = self.drive(limit, address)
        seconds = time.monotonic() - began - (seconds_spent() - made)
        reached = printed[0] if printed else self._reached(ending, places)
        outcome = self._outcome(*self._why(ending, reached, operations), reached)
        return replace(outcome, seconds=seconds, executed=board.executed - before)

    def stop(self, ending: Ending, cause: str) -> None:
        """End the run soon, for this cause. A board that does not run ends its next run at once."""
        if self._stopped is None:
            self._stopped = ending, cause
        self._board.stop()

    def _on_output(self, place: AtOutput, printed: list[AtOutput]) -> None:
        """The console has printed the text of a place."""
        printed.append(place)
        self._board.reached()

    def _reached(self, ending: ports.Ending, places: Collection[Place]) -> Place | None:
        """The place that ended a run, if one did and it is no output."""
        if ending is ports.Ending.UNTIL:
            return next((place for place in places if isinstance(place, AtAddress)), None)
        if ending is ports.Ending.LIMIT:
            at = AtOperation(self._board.executed)
            return at if at in places else None
        return None

    def _left(self, place: AtOperation, operations: int | None) -> int:
        executed = self._board.executed
        left = place.count - executed
        if left < 0:
            raise PointError(f"operation {place.count} has gone by: {executed} have been executed")
        return left if operations is None else min(left, operations)

    def _check_deadline(self, clock: Callable[[], float], deadline: float, timeout: float) -> None:
        if clock() >= deadline:
            self.stop("timeout", f"the time limit of {timeout:g} s was reached")

    def _why(
        self, ended: ports.Ending, reached: Place | None, operations: int | None
    ) -> tuple[Ending, str | None]:
        """How the run ended, at a place or else, and the sentence that says why."""
        board = self._board
        ending = _ENDINGS[ended]
        stopped, self._stopped = self._stopped, None
        if ending == "until" or (ending == "limit" and reached is not None):
            return "until", f"{reached or 'what was waited for'} was reached"
        if ending == "limit":
            return ending, f"the limit of {operations} operations was reached"
        if ending == "asleep":
            return ending, "the guest waits for an interrupt, and nothing can ever raise one"
        if ending == "interrupted":
            return stopped or (ending, "the engine stopped")
        failure = board.running.handler.failure
        return ending, None if failure is None else failure.reason

    def _outcome(self, ending: Ending, cause: str | None, reached: Place | None) -> Outcome:
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
            reached if ending == "until" else None,
            reduce(add, (pe.cpu.hooks.counted_inline for pe in board.pes)),
        )


def _address(places: Collection[Place]) -> int:
    """The one address among places. Raises PointError for two."""
    ways = {place.address: str(place) for place in places if isinstance(place, AtAddress)}
    if len(ways) > 1:
        raise PointError(
            f"{' and '.join(ways.values())} are two addresses: one run goes up to one of them"
        )
    return next(iter(ways), NEVER)


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
