"""What a run came to: for people in a few lines, for programs as an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spe_unicorn.cli.progress import short
from spe_unicorn.cli.stopping import Reason
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.spe.sampler import Statistics


@dataclass(frozen=True)
class Outcome:
    """How a run ended, where, and what was counted. ``seconds`` are the host's."""

    reason: Reason
    pc: int
    symbol: str | None
    operations: int
    seconds: float
    statistics: Statistics
    pmu_events: Mapping[int, int]
    """Counts of PMU events, by their number."""

    @property
    def named_events(self) -> dict[str, int]:
        """The same by their names."""
        return {f"SAMPLE_{SampleEvent(n).name}": count for n, count in self.pmu_events.items()}


def summary(outcome: Outcome) -> str:
    """A few lines, each with its newline."""
    counts = outcome.statistics
    rate = short(outcome.operations / outcome.seconds) if outcome.seconds else "?"
    head = f"exit status {outcome.reason.status}"
    if outcome.reason.cause is not None:
        head = f"{outcome.reason.cause}; {head}"
    samples = [
        f"{counts.population} population",
        f"{counts.selected} selected",
        f"{counts.collisions} collisions",
        f"{counts.filtered} filtered",
        f"{counts.written} written",
        f"{counts.bytes} bytes",
    ]
    # Rare enough to be left out otherwise.
    samples += [f"{counts.discarded} discarded"] if counts.discarded else []
    samples += [f"{counts.lost} lost"] if counts.lost else []
    events = counts.management_events
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(events.items()))
    pmu = ", ".join(f"{name} {count}" for name, count in outcome.named_events.items())
    pmu = f"  PMU events: {pmu}\n" if pmu else ""
    return (
        f"spe-unicorn: {head}\n"
        f"  {outcome.operations} operations in {outcome.seconds:.2f} s ({rate}/s)\n"
        f"  samples: {', '.join(samples)}\n"
        f"  management events: {sum(events.values())}{f' ({kinds})' if kinds else ''}\n"
        f"{pmu}"
    )


def json_object(outcome: Outcome) -> dict[str, Any]:
    """The same for programs; only ``seconds`` differs between two equal runs."""
    counts = outcome.statistics
    return {
        "exit_status": outcome.reason.status,
        "ending": outcome.reason.ending,
        "cause": outcome.reason.cause,
        "pc": hex(outcome.pc),
        "symbol": outcome.symbol,
        "operations": outcome.operations,
        "population": counts.population,
        "selected": counts.selected,
        "collisions": counts.collisions,
        "filtered": counts.filtered,
        "discarded": counts.discarded,
        "lost": counts.lost,
        "written": counts.written,
        "bytes": counts.bytes,
        "management_events": sum(counts.management_events.values()),
        "management_events_by_kind": dict(sorted(counts.management_events.items())),
        "pmu_events": outcome.named_events,
        "seconds": round(outcome.seconds, 6),
    }
