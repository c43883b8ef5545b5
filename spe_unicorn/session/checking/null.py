"""The check ``null``: nothing is accessed by a null pointer, which faults where nothing is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.session.checking.found import CheckFinding, found_here
from spe_unicorn.session.checking.twin import Again

_PAGE: Final = 4096
_MOST: Final = 8
_ABORTS: Final = {
    EC.InstructionAbort: "a call or jump",
    EC.InstructionAbort + 1: "a call or jump",
    EC.DataAbort: "a load or store",
    EC.DataAbort + 1: "a load or store",
}


class NullCheck:
    """Looks at the aborts of a board: those at an address of the first page are found."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._found: dict[int, CheckFinding] = {}
        for pe in board.pes:
            pe.cpu.exception_taken.connect(partial(self._on_exception, pe))

    def _on_exception(
        self, pe: ProcessingElement, record: ExceptionRecord, entry: ExceptionEntry
    ) -> None:
        address = record.vaddress
        if record.syndrome is None or address is None or address >= _PAGE:
            return
        made = _ABORTS.get(record.syndrome.ec)
        if made is not None and entry.elr not in self._found and len(self._found) < _MOST:
            what = f"{made} at {address:#x}, through a null pointer"
            found = found_here(self._board, pe.number, "null", what)
            if "load" in made:  # it was attempted, and so counted
                found = replace(found, operation=self._board.executed - 1)
            self._found[entry.elr] = found

    def begin(self) -> None:
        """Go on from here."""

    def look(self, before: int, until: int) -> None:
        """All is found when it happens."""

    def finish(self, again: Again | None) -> list[CheckFinding]:
        """All that was found."""
        return list(self._found.values())
