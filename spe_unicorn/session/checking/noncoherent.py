"""The check ``noncoherent``: nobody reads past a cache what only that cache holds."""

from __future__ import annotations

from typing import Final, NamedTuple

from spe_unicorn.host.pe.checks.noncoherent import Coherence
from spe_unicorn.machine.board import Board
from spe_unicorn.session.checking.found import CheckFinding, found_between, found_here
from spe_unicorn.session.checking.twin import Again, arrives

NAME: Final = "noncoherent"
_MOST: Final = 64
"""The most operations that are told."""


class _Load(NamedTuple):
    """A load of a dirty line: on which PE, where, after how many of its operations."""

    cpu: int
    pc: int
    executed: int
    what: str


class _Seen(NamedTuple):
    """A load, and between which operations of the board it was."""

    load: _Load
    before: int
    until: int


class NoncoherentCheck:
    """Looks at each load of a board. Each operation is told once."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._loads: dict[int, _Load] = {}
        """Those since the last look."""
        self._seen: dict[int, _Seen] = {}
        cpus = [pe.cpu for pe in board.pes]
        self._coherence = Coherence(cpus, board.memory, board.ram, self._on_load)

    def _on_load(self, cpu: int, pc: int, physical: int, size: int) -> None:
        if pc in self._seen or pc in self._loads or len(self._seen) + len(self._loads) >= _MOST:
            return
        what = (
            f"a load of {size} bytes at {physical:#x} past the cache, which holds what was stored"
            " there: clean the line first (DC CVAC or CIVAC, DSB)"
        )
        executed = self._board.pes[cpu].cpu.executed_before(pc)
        self._loads[pc] = _Load(cpu, pc, executed, what)

    def begin(self) -> None:
        """What is in memory now counts as cleaned."""
        self._coherence.begin()

    def look(self, before: int, until: int) -> None:
        """Take what was seen from ``before`` to ``until`` operations."""
        for load in self._loads.values():
            self._seen[load.pc] = _Seen(load, before, until)
        self._loads.clear()

    def finish(self, again: Again | None) -> list[CheckFinding]:
        """All that was found; ``again`` makes machines that do the same, where that can be."""
        seen = list(self._seen.values())
        if again is None or not seen:
            return [self._between(each) for each in seen]
        with again.twin(check=(NAME,)) as machine:
            return [
                found_here(machine.board, each.load.cpu, NAME, each.load.what)
                if arrives(machine, *each)
                else self._between(each)
                for each in seen
            ]

    def _between(self, seen: _Seen) -> CheckFinding:
        place = self._board.names.symbol(seen.load.pc) or hex(seen.load.pc)
        return found_between(NAME, f"{seen.load.what}, at {place}", seen.before, seen.until)
