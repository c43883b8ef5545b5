"""GDB's ``monitor snapshot``: snapshots of a machine, kept in memory by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from spe_unicorn.debug.gdb.monitor import FLUSH, Monitor, MonitorCommand, MonitorError
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.machine.snapshot.board_state import NotAtRestError
from spe_unicorn.session.snapshot import Snapshot, SnapshotError

_MOST: Final = 16
"""The most snapshots at a time. Equal pages of memory are kept once."""


class MonitorSnapshots:
    """Adds ``snapshot save NAME`` and ``snapshot load NAME`` to a monitor's commands."""

    def __init__(
        self,
        monitor: Monitor,
        save: Callable[[Snapshot | None], Snapshot],
        restore: Callable[[Snapshot], None],
    ) -> None:
        self._monitor = monitor
        self._save = save
        self._restore = restore
        self._kept: dict[str, Snapshot] = {}
        monitor.commands["snapshot"] = MonitorCommand(
            "snapshot [save|load NAME]",
            "keep this moment by a name, or go back to one",
            self._do,
            writes=True,
        )

    def _do(self, _pe: ProcessingElement, words: Sequence[str]) -> str:
        if not words:
            kept = (f"{name}: operation {s.operations}" for name, s in self._kept.items())
            return "\n".join(kept) or "no snapshot is kept"
        if len(words) != 2 or words[0] not in ("save", "load"):
            raise self._monitor.usage("snapshot")
        verb, name = words
        try:
            return self._keep(name) if verb == "save" else self._load(name)
        except (NotAtRestError, SnapshotError) as error:
            raise MonitorError(str(error)) from error

    def _keep(self, name: str) -> str:
        if name not in self._kept and len(self._kept) >= _MOST:
            raise MonitorError(f"{_MOST} snapshots are kept already: save to one of their names")
        last = next(reversed(self._kept.values()), None)
        snapshot = self._save(last)
        self._kept[name] = snapshot
        return f"{name} is operation {snapshot.operations}"

    def _load(self, name: str) -> str:
        snapshot = self._kept.get(name)
        if snapshot is None:
            names = ", ".join(self._kept) or "none"
            raise MonitorError(f"no snapshot `{name}` is kept; there are: {names}")
        self._restore(snapshot)
        return f"the machine is at operation {snapshot.operations}. {FLUSH}"
