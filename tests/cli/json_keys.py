"""The keys of what ``run --json`` writes."""

from __future__ import annotations

KEYS = {
    "exit_status",
    "ending",
    "cause",
    "pc",
    "symbol",
    "operations",
    "population",
    "selected",
    "collisions",
    "filtered",
    "discarded",
    "lost",
    "written",
    "bytes",
    "management_events",
    "management_events_by_kind",
    "pmu_events",
    "misuses",
    "checks",
    "few_places",
    "trapped_accesses",
    "hidden_spe",
    "host",
    "cpus",
}
