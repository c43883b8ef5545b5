"""What a run came to: for people in a few lines, for programs as an object."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spe_unicorn.cli.run.progress import short
from spe_unicorn.cli.run.stopping import Reason
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.debug.advice.no_samples import TrappedAccesses
from spe_unicorn.debug.advice.resonance import FewPlaces
from spe_unicorn.debug.misuse_found import Misuse
from spe_unicorn.debug.whereabouts import Whereabouts, whereabouts_json
from spe_unicorn.session.checking.found import CheckFinding
from spe_unicorn.session.outcome import Outcome
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.spe.sampler import Statistics

_WIDTH = 100
"""Columns after which a line goes on in the next."""


@dataclass(frozen=True)
class Report:
    """All that is said of a run."""

    outcome: Outcome
    reason: Reason
    few_places: tuple[FewPlaces, ...] = ()
    no_samples: tuple[str | None, ...] = ()
    """Why each PE has no record; None where there are some, or nobody wanted any."""
    trapped: tuple[TrappedAccesses, ...] = ()
    """Accesses to SPE that trapped."""
    few_samples: tuple[str | None, ...] = ()
    """Why each PE has far fewer records than its interval promises; None where it has not."""
    hidden_spe: str | None = None
    """That the program would use SPE, which sampling from outside hides from it."""
    checks: tuple[CheckFinding, ...] | None = None
    """What checks of memory have found; None where none was asked for."""


def summary(report: Report) -> str:
    """A few lines, each with its newline."""
    outcome, reason = report.outcome, report.reason
    rate = short(outcome.executed / outcome.seconds) if outcome.seconds else "?"
    whole = outcome.executed == outcome.operations
    ran = "" if whole else f", {outcome.executed} of them since the snapshot,"
    head = f"exit status {reason.status}"
    if reason.cause is not None:
        head = f"{reason.cause}; {head}"
    text = (
        f"spe-unicorn: {head}\n"
        f"  {outcome.operations} operations{ran} in {outcome.seconds:.2f} s ({rate}/s)\n"
        f"{_counts(outcome.statistics, outcome.pmu_events, '  ')}"
        f"{_no_samples(report)}"
    )
    if len(outcome.shares) > 1:
        for cpu, share in enumerate(outcome.shares):
            text += f"  cpu {cpu}: {share.operations} operations\n"
            if share.statistics.population:
                text += _counts(share.statistics, share.pmu_events, "    ")
    for trapped in report.trapped:
        whose = f" on cpu {trapped.cpu}" if len(outcome.shares) > 1 else ""
        text += textwrap.fill(
            f"accesses to SPE that trapped{whose}: {trapped}",
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
        )
        text += "\n"
    if report.hidden_spe is not None:
        text += textwrap.fill(
            report.hidden_spe, _WIDTH, initial_indent="  ", subsequent_indent="    "
        )
        text += "\n"
    for found in report.few_places:
        whose = f"cpu {found.cpu}: " if len(outcome.shares) > 1 else ""
        text += textwrap.fill(
            f"{whose}{found}", _WIDTH, initial_indent="  ", subsequent_indent="    "
        )
        text += "\n"
    if report.checks is not None:
        text += f"  checks of memory: {len(report.checks) or 'nothing'} found\n"
    return text if outcome.misuses is None else text + _misuses(outcome.misuses)


def _no_samples(report: Report) -> str:
    """A line for each PE that should have had samples, if none has any, or had far more."""
    outcome = report.outcome
    several = len(outcome.shares) > 1
    what, reasons = "no samples", report.no_samples
    if outcome.statistics.written:
        what, reasons = "few samples", report.few_samples
    return "".join(
        f"  {what}{f' on cpu {cpu}' if several else ''}: {spelled(why)}\n"
        for cpu, why in enumerate(reasons)
        if why is not None
    )


def _misuses(misuses: tuple[Misuse, ...]) -> str:
    text = f"  misuses of SPE: {len(misuses) or 'none'}\n"
    for misuse in misuses:
        times = "once" if misuse.count == 1 else f"{misuse.count} times"
        text += f"    {misuse.rule.name} at {misuse.place}, {times}\n"
    return text


def _counts(counts: Statistics, pmu_events: Mapping[int, int], indent: str) -> str:
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
    return (
        f"{indent}samples: {', '.join(samples)}\n"
        f"{indent}management events: {sum(events.values())}{f' ({kinds})' if kinds else ''}\n"
        f"{_pmu_events(pmu_events, indent)}"
    )


def _pmu_events(counts: Mapping[int, int], indent: str) -> str:
    """A line of PMU events, or a few; nothing if there were none."""
    if not counts:
        return ""
    together = "\N{NO-BREAK SPACE}"  # a name and its count are not parted
    text = textwrap.fill(
        ", ".join(f"{name}{together}{count}" for name, count in _named(counts).items()),
        _WIDTH,
        initial_indent=f"{indent}PMU events: ",
        subsequent_indent=f"{indent}  ",
    )
    return text.replace(together, " ") + "\n"


def _named(pmu_events: Mapping[int, int]) -> dict[str, int]:
    """Counts of PMU events by their names."""
    return {f"SAMPLE_{SampleEvent(n).name}": count for n, count in pmu_events.items()}


def json_object(report: Report) -> dict[str, Any]:
    """The same for programs; only ``host`` differs between two equal runs."""
    outcome, reason = report.outcome, report.reason
    here = outcome.places[outcome.running].place
    return {
        "exit_status": reason.status,
        "ending": reason.ending,
        "cause": reason.cause,
        "pc": hex(here.pc),
        "symbol": here.symbol,
        **_json_counts(outcome.operations, outcome.statistics, outcome.pmu_events),
        "misuses": None if outcome.misuses is None else [_misuse(m) for m in outcome.misuses],
        "checks": None if report.checks is None else [asdict(each) for each in report.checks],
        "few_places": [_few_places(found) for found in report.few_places],
        "trapped_accesses": [_trapped(found) for found in report.trapped],
        "hidden_spe": report.hidden_spe,
        "host": {
            "seconds": round(outcome.seconds, 6),
            "inline": None if outcome.inline is None else outcome.inline._asdict(),
        },
        "cpus": [
            {
                **_json_place(place),
                **_json_counts(s.operations, s.statistics, s.pmu_events),
                "no_samples": None if why is None else spelled(why),
                "few_samples": None if few is None else spelled(few),
            }
            for place, s, why, few in zip(
                outcome.places,
                outcome.shares,
                report.no_samples,
                report.few_samples,
                strict=True,
            )
        ],
    }


def _json_place(place: Whereabouts) -> dict[str, Any]:
    result = whereabouts_json(place)
    return {**result, "hints": [spelled(hint) for hint in result["hints"]]}


def _json_counts(
    operations: int, counts: Statistics, pmu_events: Mapping[int, int]
) -> dict[str, Any]:
    return {
        "operations": operations,
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
        "pmu_events": _named(pmu_events),
    }


def _few_places(found: FewPlaces) -> dict[str, Any]:
    return {
        "cpu": found.cpu,
        "pc": hex(found.place.pc),
        "symbol": found.place.symbol,
        "samples": found.found.here,
        "following": found.found.next,
        "counted": found.found.counted,
        "advice": found.advice,
    }


def _trapped(found: TrappedAccesses) -> dict[str, Any]:
    return {
        "cpu": found.cpu,
        "to_el": found.target_el,
        "counts": dict(found.counts),
        "first": found.first,
        "pc": hex(found.place.pc),
        "symbol": found.place.symbol,
        "el": found.el,
        "rule": found.rule,
    }


def _misuse(misuse: Misuse) -> dict[str, Any]:
    return {
        "rule": misuse.rule.name,
        "pc": hex(misuse.pc),
        "symbol": misuse.symbol,
        "line": misuse.line,
        "el": misuse.el,
        "operation": misuse.operation,
        "cpu": misuse.cpu or 0,
        "count": misuse.count,
        "what": misuse.what,
        "text": misuse.rule.text,
        "source": f"Arm ARM {misuse.rule.source}",
        "advice": misuse.rule.advice,
    }
