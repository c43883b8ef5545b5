"""A machine as it was at one moment: plain data from which it, or an equal one, goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.snapshot.board_state import BoardState
from spe_unicorn.session.console import Console, ConsoleState
from spe_unicorn.session.identity import difference
from spe_unicorn.session.records import NO_RECORDS, KeptRecords, Records


class SnapshotError(ValueError):
    """A snapshot that cannot be taken, read or restored here; the message is one line."""


@dataclass(frozen=True)
class Snapshot:
    """One moment of a machine; nobody changes it.

    ``operations`` is how many all PEs together had executed. What is ``kept`` are the records that
    Python had, which a file leaves out.
    """

    options: MachineOptions | None
    """Of the machine; None where a file could not hold them."""
    identity: dict[str, str]
    operations: int
    board: BoardState
    consoles: tuple[ConsoleState, ...]
    ended: str | None = None
    """Why the guest does not go on, None where it does."""
    kept: tuple[KeptRecords, ...] = field(default=(), repr=False)
    of_file: bool = field(default=False, repr=False)
    """Whether the states are still as a file has them."""

    def __repr__(self) -> str:
        size = self.board.memory.size
        return f"<Snapshot at operation {self.operations}, {size >> 10} KiB of memory>"

    def check(self, identity: dict[str, str]) -> None:
        """Raise SnapshotError where a machine with that identity is another one."""
        found = difference(identity, self.identity)
        if found is not None:
            raise SnapshotError(f"the snapshot is of another machine: {found}")

    def give_back(self, consoles: Iterable[Console], records: Iterable[Records]) -> None:
        """Give Python's console and records what they had."""
        for console, state in zip(consoles, self.consoles, strict=True):
            console.restore(state)
        for number, mine in enumerate(records):
            mine.restore(self.kept[number] if self.kept else NO_RECORDS)
