"""The check ``uninitialised``: what a program does depends on no RAM that nobody has written.

A second machine has other values there. Where its registers begin to differ, an operation has
loaded some of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spe_unicorn.decode import decode
from spe_unicorn.host.pe.checks.accesses import accesses_of
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.inputs import ReplayError
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.checking.found import CheckFinding, found_here
from spe_unicorn.session.checking.twin import Again

if TYPE_CHECKING:
    from spe_unicorn.session.machine import Machine

_MOST: Final = 64
"""The most moments at which two machines are compared."""

_Registers = tuple[tuple[int, ...], ...]


class UninitialisedCheck:
    """Remembers the registers of a board now and then, and compares them at the end."""

    def __init__(self, board: Board, options: MachineOptions) -> None:
        self._board = board
        self._options = options
        self._moments: list[tuple[int, _Registers]] = []

    def begin(self) -> None:
        """Go on from here."""

    def look(self, before: int, until: int) -> None:
        """Remember the registers after ``until`` operations."""
        if until == before and self._moments:
            return
        if len(self._moments) == _MOST:
            del self._moments[::2]
        self._moments.append((until, _registers(self._board)))

    def finish(self, again: Again | None) -> list[CheckFinding]:
        """Run a second machine, if that is possible; the first difference, found to the operation.

        What was loaded and made no difference up to the next comparison is not found.
        """
        if again is None:
            return []
        same = 0
        fill = "zero" if self._options.ram_fill == "random" else "random"
        with again.twin(fill) as other:
            for after, registers in self._moments:
                if not _goes_on(other, after - same) or _registers(other.board) != registers:
                    break
                same = after
            else:
                return []
        with again.twin() as usual, again.twin(fill) as other:
            return [_first_difference(usual, other, same, after)]


def _first_difference(usual: Machine, other: Machine, same: int, after: int) -> CheckFinding:
    """Find the operation with which two machines begin to differ; they do ``after`` so many."""
    usual.run(same)
    other.run(same)
    begin = [(machine, machine.save(), _cursor(machine)) for machine in (usual, other)]
    equal, differs = 0, after - same

    def go_to(operations: int) -> None:
        for machine, snapshot, inputs in begin:
            machine.restore(snapshot)
            if machine.board.inputs.log is not None:
                machine.board.inputs.log.cursor = inputs
            _goes_on(machine, operations)

    while differs - equal > 1:
        middle = (equal + differs) // 2
        go_to(middle)
        if _registers(usual.board) == _registers(other.board):
            equal = middle
        else:
            differs = middle
    go_to(equal)
    board = usual.board
    pe = board.running
    words = pe.cpu.virtual.code(pe.cpu.pc, 1)
    loads = [each for each in (accesses_of(pe.cpu, decode(words[0])) if words else ()) if each.read]
    where = f" at {loads[0].address:#x}" if loads else ""
    what = f"a load of RAM{where} that nobody has written, and with other values there all goes on"
    return found_here(board, pe.number, "uninitialised", f"{what} otherwise")


def _cursor(machine: Machine) -> int:
    """How many inputs a machine has had."""
    log = machine.board.inputs.log
    return 0 if log is None else log.cursor


def _goes_on(machine: Machine, operations: int) -> bool:
    """Run a machine. False if it wants inputs that the other has not had."""
    try:
        machine.run(operations)
    except ReplayError:
        return False
    return True


def _registers(board: Board) -> _Registers:
    """What tells two machines apart: all general registers, and where each PE is."""
    return tuple((*pe.cpu.engine.general(), pe.cpu.pc, pe.cpu.executed) for pe in board.pes)
