"""What is noticed about a run beside its row: mistakes, remarks, and where it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from spe_unicorn.debug.misuse_found import Misuse
    from spe_unicorn.session.machine import Machine
    from spe_unicorn.session.outcome import Outcome

NoticeKind = Literal["misuse", "remark"]


@dataclass(frozen=True)
class Notice:
    """One thing. A ``misuse`` breaks a rule; a ``remark`` may be as it was meant.

    ``place`` is where, for people, ``what`` is a sentence, ``advice`` what to do, empty without
    any. ``operation`` is the number of the operation, None for what has none.
    """

    kind: NoticeKind
    rule: str
    place: str
    what: str
    advice: str = ""
    operation: int | None = None


@dataclass(frozen=True)
class Noticed:
    """All that was noticed about one run; ``end`` is where it ended, with the calls to there."""

    end: str
    hints: list[str] = field(default_factory=list)
    """What a failure may come from."""
    notices: list[Notice] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which :meth:`from_json` makes an equal object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Noticed:
        """What :meth:`to_json` gave."""
        return cls(data["end"], data["hints"], [Notice(**each) for each in data["notices"]])


def noticed(machine: Machine, outcome: Outcome) -> Noticed:
    """What can be told of a machine that has run; one that looked for mistakes has them, too."""
    misuses = machine.finish_misuses() or ()
    here = outcome.places[outcome.running]
    return Noticed(
        str(here.place),
        list(here.hints),
        [*map(_of_misuse, misuses), *_remarks(machine, outcome)],
    )


def _of_misuse(found: Misuse) -> Notice:
    return Notice(
        "misuse",
        found.rule.name,
        found.place,
        f"{found.what}\nrule: {found.rule.text} (Arm ARM {found.rule.source})",
        found.rule.advice,
        found.operation,
    )


def _remarks(machine: Machine, outcome: Outcome) -> Iterator[Notice]:
    for trapped in machine.trapped_accesses:
        yield Notice("remark", "trapped", str(trapped.place), f"accesses to SPE trapped: {trapped}")
    for few in machine.few_places:
        yield Notice("remark", "few-places", str(few.place), str(few))
    missing = machine.why_few_samples if outcome.statistics.written else machine.why_no_samples
    name = "few-samples" if outcome.statistics.written else "no-samples"
    for cpu, why in enumerate(missing):
        if why is not None:
            yield Notice("remark", name, f"cpu {cpu}", why)
