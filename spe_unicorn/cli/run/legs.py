"""A run of the command line in parts: from point to point, at most to the one of ``--until``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.outcome import Outcome
from spe_unicorn.session.point import AtAddress, AtOperation, Point, PointError


class Legs:
    """A run in several parts, which together are one.

    ``operations`` is the most to execute in all parts. ``end`` is the point at which the run ends,
    in whichever part it comes.
    """

    def __init__(self, machine: Machine, operations: int | None, end: Point | None) -> None:
        self._machine = machine
        self._operations = operations
        self._end = None if end is None else machine.place(end)
        self._began = machine.operations
        self._seconds = 0.0
        self._outcome: Outcome | None = None

    def run(self, until: Point | None) -> Outcome:
        """Run on, at most to the point; what became of all parts up to now.

        A run that is over stays where it is.
        """
        before = self._outcome
        if before is not None and (before.ending != "until" or before.reached == self._end):
            return before
        done = self._machine.operations - self._began
        left = None if self._operations is None else self._operations - done
        points = tuple(point for point in (until, self._end) if point is not None)
        outcome = self._machine.run(left, until=points)
        self._seconds += outcome.seconds
        executed = self._machine.operations - self._began
        whole = replace(outcome, seconds=self._seconds, executed=executed)
        if outcome.ending == "limit":
            cause = f"the limit of {self._operations} operations was reached"
            whole = replace(whole, cause=cause)
        self._outcome = whole
        return whole

    def came_to(self, point: Point) -> bool:
        """Whether the last part ended at that point."""
        outcome = self._outcome
        return outcome is not None and outcome.reached == self._machine.place(point)

    @property
    def missed(self) -> bool:
        """Whether the guest ended by itself before the point of the end."""
        outcome = self._outcome
        return self._end is not None and outcome is not None and outcome.ending == "exit"


def check_points(machine: Machine, points: Mapping[str, Point | None], end: str) -> None:
    """Raise UsageProblem for a point that the machine does not have, or that has gone by.

    ``points`` are by their options. ``end`` is the option of the point that all others go with: no
    run looks for two addresses at once.
    """
    gone = machine.operations
    addresses: dict[str, AtAddress] = {}
    for name, point in points.items():
        if point is None:
            continue
        try:
            place = machine.place(point)
        except PointError as error:
            raise UsageProblem(f"{name}: {error}") from None
        if isinstance(place, AtOperation) and place.count < gone:
            raise UsageProblem(f"{name}: {gone} operations have been executed already")
        if isinstance(place, AtAddress):
            addresses[name] = place
    last = addresses.get(end)
    for name, place in addresses.items():
        if last is not None and place != last:
            raise UsageProblem(
                f"{name} and {end} are two addresses: one run looks for one of them at a time;"
                f" write a number of operations or console:TEXT for one"
            )
