"""The checks of memory of one machine, by its option ``check``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.checking.found import CheckFinding
from spe_unicorn.session.checking.noncoherent import NoncoherentCheck
from spe_unicorn.session.checking.null import NullCheck
from spe_unicorn.session.checking.shadowed import ShadowCheck
from spe_unicorn.session.checking.stack import StackCheck
from spe_unicorn.session.checking.text import TextCheck
from spe_unicorn.session.checking.twin import Again

_STACK: Final = "stack="


class Check(Protocol):
    """One check."""

    def begin(self) -> None:
        """The machine was restored: what is there now is right."""
        ...

    def look(self, before: int, until: int) -> None:
        """Now and then: operations from ``before`` to ``until`` were executed since last time."""
        ...

    def finish(self, again: Again | None) -> list[CheckFinding]:
        """The run is over. ``again`` makes machines that do the same, to be looked at."""
        ...


class MemoryChecks:
    """The checks of a machine that was just started, before it runs. Raises OptionError."""

    def __init__(self, board: Board, image: Image, options: MachineOptions) -> None:
        self._board = board
        self._again = Again(board, options)
        self._checks = tuple(_checks(board, image, options))
        self._looked = board.executed
        self._finished: tuple[CheckFinding, ...] | None = None
        """What was found after so many operations as :attr:`_looked` says, if that was asked."""
        board.slice_ended.connect(self._look)

    def restored(self) -> None:
        """The machine was restored: it has not come here from its start."""
        self._again.impossible()
        self._looked = self._board.executed
        for check in self._checks:
            check.begin()

    def finish(self) -> tuple[CheckFinding, ...]:
        """All that was found up to here."""
        if self._finished is None or self._board.executed != self._looked:
            self._finished = self._finish()
        return self._finished

    def _finish(self) -> tuple[CheckFinding, ...]:
        self._look()
        again = self._again if self._again.possible else None
        return tuple(each for check in self._checks for each in check.finish(again))

    def _look(self) -> None:
        until = self._board.executed
        self._finished = None
        for check in self._checks:
            check.look(self._looked, until)
        self._looked = until


def _checks(board: Board, image: Image, options: MachineOptions) -> Iterator[Check]:
    names = options.check
    if "text" in names:
        yield TextCheck(board, image)
    if "null" in names:
        yield NullCheck(board)
    stacks = [name.removeprefix(_STACK) for name in names if name.startswith(_STACK)]
    if stacks:
        yield StackCheck(board, image, stacks)
    if "uninitialised" in names or "heap" in names:
        yield ShadowCheck(board, image, options)
    if "noncoherent" in names:
        yield NoncoherentCheck(board)
