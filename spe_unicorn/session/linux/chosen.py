"""A guest that has booted on one implementation and goes on on another that Arm allows.

What the guest has read of identification registers has to hold still, so the two differ in choices
that no register tells (:data:`AFTER_BOOT`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spe_unicorn.parts import parts_of
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.snapshot import Snapshot
from spe_unicorn.session.snapshot_file import decoded

AFTER_BOOT: Final = (
    "buffer_locked",
    "late_writes",
    "late_pmu_writes",
    "late_records",
    "late_bytes",
    "late_interrupt",
    "stale_status",
    "stale_counter",
    "late_overflow",
    "packet_order",
    "disabled_record",
    "data_lost_at_start",
    "previous_target_of_branches",
    "bare_exceptions",
    "untagged_addresses",
    "random_generator",
    "late_reload",
    "sampling_point",
    "max_sampled_operations",
    "empty_filter_drops",
    "not_taken_target",
)
"""The choices that a guest cannot have noticed while it booted."""


def on_another(snapshot: Snapshot, machine: Machine) -> Snapshot:
    """A snapshot for ``machine``, whose core differs from that of the snapshot in choices.

    What the one has and the other has not, as writes that are late, begins empty. Raises
    SnapshotError.
    """
    parts = parts_of(machine.board)
    there = {path: part for path, part in parts.items() if path in snapshot.board.parts}
    kept = {path: snapshot.board.parts[path] for path in there}
    found = decoded(replace(snapshot, board=replace(snapshot.board, parts=kept)), there)
    fresh = machine.save().board.parts
    board = replace(found.board, parts={**fresh, **found.board.parts})
    return replace(found, board=board, identity=machine.identity)
