"""One record as a flat row, for tables of somebody else's."""

from __future__ import annotations

from typing import Any, Final

from spe_unicorn.output.jsonl import record_dict
from spe_unicorn.spe.record import Record

ROW: Final = (
    "pc",
    "el",
    "state",
    "target",
    "target_el",
    "target_state",
    "previous_target",
    "previous_target_el",
    "previous_target_state",
    "op",
    "op_class",
    "op_payload",
    "events",
    "events_raw",
    "counters.total",
    "counters.issue",
    "counters.translation",
    "counters.alternate_issue",
    "va",
    "va_tag",
    "pa",
    "pa_space",
    "pa_checked",
    "pa_tag",
    "data_source",
    "data_source_name",
    "context_el1",
    "context_el2",
    "timestamp",
)
"""The keys of a row: those of ``Recording.arrays()`` but for a file's."""
_ADDRESSES: Final = ("pc", "target", "previous_target", "va", "pa")


def record_row(record: Record) -> dict[str, Any]:
    """A record as a dictionary with the same keys for each, None where it has nothing.

    Nested keys are joined by a dot (``counters.total``), addresses are numbers, ``events`` is text,
    words with spaces between them. ``pandas.DataFrame(rows)`` takes a list of them.
    """
    found = record_dict(record)
    for name, cycles in found.pop("counters", {}).items():
        found[f"counters.{name}"] = cycles
    for name in _ADDRESSES:
        if name in found:
            found[name] = int(found[name], 16)
    found["events"] = " ".join(found["events"])
    return {name: found.get(name) for name in ROW}
