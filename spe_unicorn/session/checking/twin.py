"""A second machine that does the same again, to look at closely: machines are deterministic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.inputs import InputLog, ReplayError
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.machine.storage.backing import split_read_only, split_share
from spe_unicorn.session.runs import MachineEndedError

if TYPE_CHECKING:
    from spe_unicorn.session.machine import Machine


_ARRIVALS: Final = 20_000
"""How often a machine may arrive at an operation before the search is given up."""
_MOST: Final = 64 << 20
"""Bytes that the inputs of a machine may take, about, for another to get them, too."""


class Again:
    """Makes machines that do what one has done from its start on, with the inputs that it had."""

    def __init__(self, board: Board, options: MachineOptions) -> None:
        self._board = board
        self._options = options
        self._log = InputLog(_MOST, self.impossible)
        self._possible = _leaves_files_alone(options)
        if self._possible:
            board.inputs.log = self._log

    def impossible(self) -> None:
        """Nothing can be done again from here on."""
        self._possible = False
        if self._board.inputs.log is self._log:
            self._board.inputs.log = None

    @property
    def possible(self) -> bool:
        """Whether :meth:`twin` may be called: a debugger keeps inputs for itself, for example."""
        return self._possible and self._board.inputs.log is self._log

    def twin(self, ram_fill: str | None = None, check: tuple[str, ...] = ()) -> Machine:
        """A machine with the same options, at its start, that checks nothing but ``check``."""
        from spe_unicorn.session.machine import Machine

        fill = self._options.ram_fill if ram_fill is None else ram_fill
        machine = Machine(replace(self._options, check=check, ram_fill=fill), records=False)
        log = InputLog()
        log.entries = list(self._log.entries)
        log.replaying = True
        machine.board.inputs.log = log
        return machine


def _leaves_files_alone(options: MachineOptions) -> bool:
    """Whether a run of such a machine leaves no file of the host changed."""
    written = [text for text in options.pflash if not split_read_only(text)[1]]
    written += [text for text in options.drive if text.endswith(",write")]
    written += [text for text in options.share if not split_share(text)[1]]
    return not written and options.semihosting_dir is None


class Operation(Protocol):
    """An operation of a PE, by its address and by how many operations of the PE came before it."""

    @property
    def cpu(self) -> int:
        """Which PE's it is."""
        ...

    @property
    def pc(self) -> int:
        """Its address."""
        ...

    @property
    def executed(self) -> int:
        """Operations of the PE before it."""
        ...


def arrives(machine: Machine, operation: Operation, before: int, until: int) -> bool:
    """Have a machine stand at an operation, which is one of ``before`` to ``until`` of the board.

    False if it does not come there.
    """
    pe = machine.board.pes[operation.cpu]

    def is_there() -> bool:
        return pe.cpu.pc == operation.pc and pe.cpu.executed == operation.executed

    if len(machine.board.pes) == 1:
        _run(machine, operation.executed - machine.operations)
        return is_there()
    _run(machine, before - machine.operations)
    for _ in range(_ARRIVALS):
        if is_there():
            return True
        left = until - machine.operations
        if left <= 0 or not _run(machine, left, hex(operation.pc)):
            return False
    return False


def _run(machine: Machine, operations: int, until: str | None = None) -> bool:
    """Run a machine. False if it does not come ``until`` there."""
    try:
        return machine.run(max(operations, 0), until=until).ending == "until"
    except (MachineEndedError, ReplayError):
        return False


class StoreWatch:
    """Calls ``found`` before an operation of a PE that stores to a range of addresses.

    ``first`` and ``last`` are virtual addresses.
    """

    system: Collection[tuple[int, int]] = ()

    def __init__(
        self,
        pe: ProcessingElement,
        first: int,
        last: int,
        found: Callable[[ProcessingElement, MemoryAccess], None],
    ) -> None:
        self._pe, self._first, self._last, self._found = pe, first, last, found
        self.watched: Collection[tuple[int, int, bool, bool]] = ((first, last, False, True),)

    def before(self, pc: int, instruction: Instruction, accesses: Iterable[MemoryAccess]) -> None:
        """The operation at ``pc`` is about to be executed."""
        for access in accesses:
            within = access.address <= self._last and access.address + access.size > self._first
            if access.write and within:
                self._found(self._pe, access)
                return

    def after(self) -> None:
        """It was executed."""
