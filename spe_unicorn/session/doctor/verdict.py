"""What is wrong with a program, by what its runs came to: a pure function of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

from spe_unicorn.debug.misuse_rules import RULES
from spe_unicorn.session.campaigns.ends import failed_check, why_failed, why_skipped
from spe_unicorn.session.campaigns.noticed import NO_SAMPLES, WAITS_FOR_INPUT
from spe_unicorn.session.doctor.visits import Visit

FindingKind = Literal["end", "misuse", "check", "remark"]
_RECOMMENDED: Final = frozenset(rule.name for rule in RULES if rule.recommended)
"""The mistakes that are remarks: the architecture only recommends otherwise."""
_MORE: Final = "give it more by --max-insns"
_SECURE: Final = (
    "this start at EL3 has no Secure memory, and one Security state in the GIC: --secure has both"
)
_AT_EL3: Final = "--el 3 starts it there; --secure, too, with Secure memory and a GIC of two states"


@dataclass
class Finding:
    """One thing, and in which ``runs`` it was seen, by their numbers; the first shows it best.

    An ``end`` is a run that failed, a ``misuse`` a rule that was broken, a ``check`` one of memory,
    and a ``remark`` may be as it was meant.
    """

    kind: FindingKind
    rule: str
    place: str
    what: str
    advice: str
    operation: int | None = None
    path: str | None = None
    line: int | None = None
    """The line of source, where it is known."""
    runs: list[int] = field(default_factory=list)


@dataclass
class Verdict:
    """What was found, the worst first, and what was only remarked."""

    findings: list[Finding] = field(default_factory=list)
    remarks: list[Finding] = field(default_factory=list)


def verdict_of(runs: Sequence[Visit]) -> Verdict:
    """Judge all runs of a program.

    A start other than the first at which all runs fail is a remark: the program is not for it. A
    run that reached its limit fails if another run with that start ended by itself, and one that
    sleeps does not if it waits for what somebody types. What a program of TAP skips is remarked.
    """
    ends = [_end(number, run, runs) for number, run in enumerate(runs)]
    left_out = set(_useless_starts(runs, ends))
    verdict = Verdict()
    found: dict[tuple[str, str, str], Finding] = {}
    for number, run in enumerate(runs):
        end = ends[number]
        if run.start in left_out:
            if end is not None:
                what = f"a start at EL{run.start} does not work, one at EL{runs[0].start} does"
                end = replace(end, kind="remark", rule="start", what=f"{what}: {end.what}")
                _add(found, verdict, end, number)
            continue
        if end is not None:
            _add(found, verdict, end, number)
        elif run.row["ending"] == "limit":
            what = f"no run has ended after {run.row['operations']} operations"
            advice = f"{_MORE}, or let it end itself"
            _add(found, verdict, Finding("remark", "runs-on", "", what, advice), number)
        skipped = why_skipped(run.console)
        if skipped is not None:
            what = f"everything is skipped: {skipped}"
            advice = _AT_EL3 if "EL3" in skipped and run.start in (1, 2) else ""
            _add(found, verdict, Finding("remark", "skipped", "", what, advice), number)
        for each in run.noticed.notices if run.noticed is not None else ():
            if skipped is not None and each.rule == NO_SAMPLES:
                continue
            _add(found, verdict, Finding(**asdict(each)), number)
    return verdict


def _add(
    found: dict[tuple[str, str, str], Finding], verdict: Verdict, finding: Finding, number: int
) -> None:
    where = finding.what if finding.rule == "skipped" else finding.place
    key = finding.kind, finding.rule, where
    if key not in found:
        found[key] = finding
        remarked = finding.kind == "remark" or finding.rule in _RECOMMENDED
        (verdict.remarks if remarked else verdict.findings).append(finding)
        verdict.findings.sort(key=lambda each: each.kind != "end")
    found[key].runs.append(number)


def _end(number: int, run: Visit, runs: Sequence[Visit]) -> Finding | None:
    """How a run failed, None where it did not."""
    ending = run.row["ending"]
    checked = failed_check(run.console)
    if ending == "limit" and checked is None:
        others = (each.row["ending"] for each in runs if each.start == run.start)
        if all(other == "limit" for other in others):
            return None
    if ending == "asleep" and checked is None and _waits_for_input(run):
        return None
    why = why_failed(run.row, run.console)
    if not why:
        return None
    hints = [] if run.noticed is None or ending == "exit" else list(run.noticed.hints)
    if run.start == 3 and not run.machine.secure:
        hints.append(_SECURE)
    if ending == "limit":
        hints.insert(0, _MORE)
    elif ending == "timeout":
        hints.insert(0, "give it more seconds of CPU by --timeout, if this host is slow")
    place = "" if run.noticed is None or ending == "exit" else run.noticed.end
    rule = checked or (why if ending == "exit" else ending)
    return Finding("end", rule, place, why, "\n".join(hints))


def _waits_for_input(run: Visit) -> bool:
    notices = run.noticed.notices if run.noticed is not None else ()
    return any(each.rule == WAITS_FOR_INPUT for each in notices)


def _useless_starts(runs: Sequence[Visit], ends: Sequence[Finding | None]) -> Iterator[int | None]:
    """The starts but the first at which all runs failed, if not all runs at the first did."""

    def all_failed(start: int | None) -> bool:
        return all(end for run, end in zip(runs, ends, strict=True) if run.start == start)

    first = runs[0].start
    if not all_failed(first):
        yield from {run.start for run in runs if run.start != first and all_failed(run.start)}
