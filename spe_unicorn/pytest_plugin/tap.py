"""The Test Anything Protocol, version 13 (testanything.org), as firmware prints it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

Verdict = Literal["passed", "failed", "skipped", "todo", "todo-passed"]
"""What a test came to: ``todo`` is a failure that was announced, ``todo-passed`` one that was not
there."""

_TEST: Final = re.compile(r"(?P<not>not )?ok\b *(?P<number>\d+)?(?: *-)? *(?P<rest>.*)")
_PLAN: Final = re.compile(r"1\.\.(?P<count>\d+)(?: *# *(?P<directive>.*))?")
_DIRECTIVE: Final = re.compile(
    r"(?P<text>.*?)\s*# *(?P<kind>skip\S*|todo)\b[: ]*(?P<why>.*)", re.IGNORECASE
)
_BAIL: Final = re.compile(r"Bail out!\s*(?P<why>.*)")
MOST: Final = 100_000
"""Tests that one output may have."""


@dataclass
class Test:
    """One test line and what was printed about it."""

    number: int
    description: str
    verdict: Verdict
    reason: str = ""
    """Why it is skipped, or what is still to do."""
    diagnostics: list[str] = field(default_factory=list)

    __test__ = False  # for pytest: this class is no test

    @property
    def name(self) -> str:
        """The number, and the description where there is one."""
        return f"{self.number} - {self.description}" if self.description else str(self.number)


@dataclass
class Report:
    """All that an output says. ``problems`` are sentences on what is missing or too much."""

    tests: list[Test] = field(default_factory=list)
    plan: int | None = None
    skipped: str | None = None
    """Why nothing at all was tested, None where something was to be."""
    bailed_out: str | None = None
    """Why the tests were given up, None where they were not."""
    half: str = ""
    """What follows the last end of a line."""
    problems: list[str] = field(default_factory=list)

    @property
    def speaks(self) -> bool:
        """Whether the output is TAP at all."""
        return self.plan is not None or bool(self.tests) or self.bailed_out is not None


def parse(output: str) -> Report:
    """What a console's output says. Lines that are no TAP belong to nobody."""
    report = Report()
    for line in output.replace("\r", "").split("\n"):
        if match := _PLAN.fullmatch(line.rstrip()):
            _plan(report, match)
        elif match := _BAIL.fullmatch(line):
            report.bailed_out = match["why"] or "no reason was given"
            break
        elif (match := _TEST.fullmatch(line)) and len(report.tests) < MOST:
            report.tests.append(_test(match, len(report.tests) + 1))
        elif line.startswith(("#", "  ")) and report.tests:
            report.tests[-1].diagnostics.append(line)
    report.half = output.rpartition("\n")[2]
    if report.speaks:
        _check(report)
    return report


def _plan(report: Report, match: re.Match[str]) -> None:
    if report.plan is not None:
        report.problems.append("there is a second plan")
        return
    report.plan = int(match["count"])
    directive = match["directive"] or ""
    if report.plan == 0:
        report.skipped = re.sub(r"(?i)^skip\S*[: ]*", "", directive) or "nothing is planned"


def _test(match: re.Match[str], expected: int) -> Test:
    description = match["rest"].strip()
    verdict: Verdict = "failed" if match["not"] else "passed"
    reason = ""
    if directive := _DIRECTIVE.fullmatch(description):
        description = directive["text"]
        reason = directive["why"].strip()
        if directive["kind"].lower() != "todo":
            verdict = "skipped"
        else:
            verdict = "todo" if match["not"] else "todo-passed"
    return Test(int(match["number"] or expected), description, verdict, reason)


def _check(report: Report) -> None:
    """Find what a reader would stumble over."""
    numbers = [test.number for test in report.tests]
    for place, number in enumerate(numbers, 1):
        if number != place:
            report.problems.append(f"test {place} calls itself {number}")
            break
    if report.bailed_out is not None:
        return
    if report.plan is None:
        report.problems.append(f"{len(numbers)} tests, and no plan (1..N) says how many there are")
    elif report.plan != len(numbers):
        report.problems.append(f"{report.plan} tests are planned, {len(numbers)} were made")
