"""Arm's Statistical Profiling Extension (SPE) on the Unicorn engine.

``Machine`` is a whole machine that runs firmware; ``attach`` gives SPE to a ``Uc`` of your own;
``read`` reads files of records; ``record_dict`` and ``record_row`` make plain values of one;
``read_snapshot`` and ``write_snapshot`` keep a machine in a file.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than all that the command does first
if TYPE_CHECKING:
    from spe_unicorn.machine.options import MachineOptions, Sampling
    from spe_unicorn.output.jsonl import record_dict
    from spe_unicorn.plugin.attach import attach
    from spe_unicorn.report.recording import Recording, read
    from spe_unicorn.report.rows import record_row
    from spe_unicorn.session.machine import Machine
    from spe_unicorn.session.outcome import Outcome
    from spe_unicorn.session.snapshot import Snapshot, SnapshotError
    from spe_unicorn.session.snapshot_file import read_snapshot, write_snapshot
    from spe_unicorn.spe.record import Record

    __version__: str

_HOMES = {
    "attach": "spe_unicorn.plugin.attach",
    "Machine": "spe_unicorn.session.machine",
    "MachineOptions": "spe_unicorn.machine.options",
    "Outcome": "spe_unicorn.session.outcome",
    "Record": "spe_unicorn.spe.record",
    "Recording": "spe_unicorn.report.recording",
    "Sampling": "spe_unicorn.machine.options",
    "Snapshot": "spe_unicorn.session.snapshot",
    "SnapshotError": "spe_unicorn.session.snapshot",
    "read_snapshot": "spe_unicorn.session.snapshot_file",
    "read": "spe_unicorn.report.recording",
    "record_dict": "spe_unicorn.output.jsonl",
    "record_row": "spe_unicorn.report.rows",
    "write_snapshot": "spe_unicorn.session.snapshot_file",
}
"""Where each name is at home; imported when it is asked for, since most commands need no engine."""

__all__ = [
    "Machine",
    "MachineOptions",
    "Outcome",
    "Record",
    "Recording",
    "Sampling",
    "Snapshot",
    "SnapshotError",
    "__version__",
    "attach",
    "read",
    "read_snapshot",
    "record_dict",
    "record_row",
    "write_snapshot",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("spe-unicorn")
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
