"""What a check of memory has found."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.debug.backtrace import numbered, once_each
from spe_unicorn.debug.whereabouts import Whereabouts, whereabouts
from spe_unicorn.machine.board import Board


@dataclass(frozen=True)
class CheckFinding:
    """One thing that ``check`` has found.

    ``place`` is the operation, for people, or between which operations it was. ``operation`` is how
    many operations of all PEs came before it, None if that is not known. ``calls`` led there.
    """

    check: str
    what: str
    place: str
    operation: int | None = None
    cpu: int = 0
    calls: tuple[str, ...] = ()
    pc: int | None = None
    """The operation's address, None where it is not known."""

    @property
    def callers(self) -> tuple[str, ...]:
        """The calls, with one that is there several times in a row once."""
        return tuple(call for call, _ in once_each(self.calls))

    def __str__(self) -> str:
        after = "" if self.operation is None else f", operation {self.operation + 1}"
        lines = [f"{self.check} at {self.place}{after}", f"  {self.what}"]
        return "\n".join([*lines, *numbered(self.calls)])


def found_here(board: Board, cpu: int, check: str, what: str) -> CheckFinding:
    """What is found at the operation before which a PE stands."""
    where: Whereabouts = whereabouts(board)[cpu]
    at, *calls = where.backtrace
    return CheckFinding(
        check, what, f"{at} EL{where.el}", board.executed, cpu, tuple(map(str, calls)), at.pc
    )


def found_between(check: str, what: str, first: int, last: int) -> CheckFinding:
    """What is found to have happened between two numbers of operations."""
    return CheckFinding(check, what, f"an operation from {first + 1} to {last}")
