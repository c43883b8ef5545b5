"""Runs as JUnit's XML, which CI services show: those of a campaign, and trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from spe_unicorn.output.names import printable
from spe_unicorn.report.campaigns.runs import Row, how_it_ended, run_names, where_it_ended


@dataclass(frozen=True)
class Case:
    """A test case. ``said`` is how it did not pass, with a message and a text; None if it did.

    ``seconds`` and what it ``printed`` are left out where they are None.
    """

    title: str
    said: tuple[Literal["error", "failure"], str, str] | None = None
    seconds: float | None = None
    printed: str | None = None


def suite_of(name: str, cases: Iterable[Case]) -> str:
    """The XML of a suite of cases. Characters that XML cannot have are written out."""
    suite = ElementTree.Element("testsuite", name=_text(name))
    count = {"tests": 0, "failure": 0, "error": 0}
    for case in cases:
        count["tests"] += 1
        element = ElementTree.SubElement(suite, "testcase", classname=_text(name))
        element.set("name", _text(case.title))
        if case.seconds is not None:
            element.set("time", f"{case.seconds:.3f}")
        if case.said is not None:
            kind, message, text = case.said
            count[kind] += 1
            said = ElementTree.SubElement(element, kind, message=_text(message))
            said.text = _text(text)
        if case.printed is not None:
            printed = ElementTree.SubElement(element, "system-out")
            printed.text = _text(case.printed)
    suite.set("tests", str(count["tests"]))
    suite.set("failures", str(count["failure"]))
    suite.set("errors", str(count["error"]))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def junit(
    name: str,
    rows: Sequence[Row],
    is_error: Callable[[Row], bool],
    commands: Mapping[str, str],
    console: Callable[[Row], str],
) -> str:
    """A test case a run. The runs with ``commands`` failed, those that ``is_error`` as errors.

    ``commands`` has by a run's key what repeats it; ``console`` gives what a run printed.
    """
    return suite_of(
        name,
        (
            _case(row, title, is_error=is_error(row), command=commands[row["key"]], console=console)
            if row["key"] in commands
            else Case(title, seconds=row["host_seconds"] or 0)
            for row, title in zip(rows, run_names(rows), strict=True)
        ),
    )


def _case(
    row: Row, title: str, *, is_error: bool, command: str, console: Callable[[Row], str]
) -> Case:
    """A run that did not pass, with what repeats it."""
    kind: Literal["error", "failure"] = "error" if is_error else "failure"
    text = f"key: {row['key']}\nto see it again: {command}\n"
    return Case(title, (kind, _why(row), text), row["host_seconds"] or 0, console(row))


def _why(row: Row) -> str:
    place = f" at {where_it_ended(row)}" if where_it_ended(row) else ""
    cause = f": {row['cause']}" if row["cause"] else ""
    return f"ended by {how_it_ended(row)}{place}{cause}"


def _text(text: str) -> str:
    """A text without the characters that XML has no way to write."""
    return "\n".join(map(printable, text.split("\n")))
