"""Snapshots: plain data from which a machine, or an equal one, goes on."""

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
    """One moment of a machine. It never changes.

    ``operations`` is the number of operations that all PEs together had executed. ``kept`` are the
    records that Python kept, which a file leaves out.
    """

    options: MachineOptions | None
    """The options of the machine; None if a file could not hold them."""
    identity: dict[str, str]
    operations: int
    board: BoardState
    consoles: tuple[ConsoleState, ...]
    ended: str | None = None
    """Why the guest does not go on, None where it does."""
    kept: tuple[KeptRecords, ...] = field(default=(), repr=False)
    of_file: bool = field(default=False, repr=False)
    """Whether the states are still in the form of a file."""

    def __repr__(self) -> str:
        size = self.board.memory.size
        return f"<Snapshot at operation {self.operations}, {size >> 10} KiB of memory>"

    def check(self, identity: dict[str, str]) -> None:
        """Raise SnapshotError if a machine with this identity is another machine."""
        found = difference(identity, self.identity)
        if found is not None:
            raise SnapshotError(f"the snapshot is of another machine: {found}")

    def give_back(self, consoles: Iterable[Console], records: Iterable[Records]) -> None:
        """Restore the consoles and records that Python keeps."""
        for console, state in zip(consoles, self.consoles, strict=True):
            console.restore(state)
        for number, mine in enumerate(records):
            mine.restore(self.kept[number] if self.kept else NO_RECORDS)


def checked(snapshot: object) -> Snapshot:
    """``snapshot``, if it is one. Raises TypeError."""
    if not isinstance(snapshot, Snapshot):
        raise TypeError(f"a snapshot is what save() or read_snapshot() gave, got {snapshot!r}")
    return snapshot
