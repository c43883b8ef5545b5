"""What is noticed about a run beside its row: mistakes, remarks, and where it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from spe_unicorn.debug.misuse_found import Misuse
    from spe_unicorn.session.checking.found import CheckFinding
    from spe_unicorn.session.machine import Machine
    from spe_unicorn.session.outcome import Outcome

NoticeKind = Literal["misuse", "check", "remark"]
NO_SAMPLES: Final = "no-samples"
"""The remark on a guest that programs SPE and has no record."""
WAITS_FOR_INPUT: Final = "waits-for-input"
"""The remark on a guest that sleeps, with the UART's interrupt for what is typed enabled."""


@dataclass(frozen=True)
class Notice:
    """One thing: a ``misuse`` breaks a rule, a ``check`` is of memory, a ``remark`` may be meant.

    ``place`` is where, for people, ``what`` is a sentence, ``advice`` what to do, empty without
    any. ``operation`` is the number of the operation, None for what has none.
    """

    kind: NoticeKind
    rule: str
    place: str
    what: str
    advice: str = ""
    operation: int | None = None
    path: str | None = None
    line: int | None = None
    """The line of source, where it is known."""


@dataclass(frozen=True)
class Noticed:
    """All that was noticed about one run; ``end`` is where it ended, with the calls to there."""

    end: str
    hints: list[str] = field(default_factory=list)
    """What a failure may come from."""
    notices: list[Notice] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
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
        [
            *(_in_source(machine, each.pc, _of_misuse(each)) for each in misuses),
            *(_in_source(machine, each.pc, _of_check(each)) for each in machine.finish_checks()),
            *_remarks(machine, outcome),
        ],
    )


def _in_source(machine: Machine, pc: int | None, notice: Notice) -> Notice:
    line = None if pc is None else machine.board.names.line(pc)
    return notice if line is None else replace(notice, path=line.path, line=line.number)


def _of_misuse(found: Misuse) -> Notice:
    return Notice(
        "misuse",
        found.rule.name,
        found.place,
        f"{found.what}\nrule: {found.rule.text} (Arm ARM {found.rule.source})",
        found.rule.advice,
        found.operation,
    )


def _of_check(found: CheckFinding) -> Notice:
    what = "\n".join((found.what, *(f"called from {call}" for call in found.callers)))
    operation = None if found.operation is None else found.operation + 1
    return Notice("check", found.check, found.place, what, "", operation)


def _remarks(machine: Machine, outcome: Outcome) -> Iterator[Notice]:
    if outcome.ending == "asleep" and machine.board.peripherals.uart.listening:
        what = "the guest sleeps until somebody types at its console, and here nobody does"
        yield Notice("remark", WAITS_FOR_INPUT, str(outcome.places[outcome.running].place), what)
    for trapped in machine.trapped_accesses:
        yield Notice("remark", "trapped", str(trapped.place), f"accesses to SPE trapped: {trapped}")
    for few in machine.few_places:
        yield Notice("remark", "few-places", str(few.place), str(few))
    missing = machine.why_few_samples if outcome.statistics.written else machine.why_no_samples
    name = "few-samples" if outcome.statistics.written else NO_SAMPLES
    for cpu, why in enumerate(missing):
        if why is not None:
            yield Notice("remark", name, f"cpu {cpu}", why)
