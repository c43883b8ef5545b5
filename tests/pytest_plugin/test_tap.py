"""TAP as firmware prints it; expectations are worked out from the specification."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.pytest_plugin.tap import parse


def test_each_line_is_a_test_with_its_diagnostics() -> None:
    report = parse("1..2\nok 1 - first\n# seen: 3\nnot ok 2 - second\n# wanted 4\n# got 5\n")
    assert [(t.name, t.verdict) for t in report.tests] == [
        ("1 - first", "passed"),
        ("2 - second", "failed"),
    ]
    assert report.tests[1].diagnostics == ["# wanted 4", "# got 5"]
    assert report.problems == []


@pytest.mark.parametrize(
    ("line", "verdict", "reason"),
    [
        ("ok 1 - a # SKIP no EL2", "skipped", "no EL2"),
        ("ok 1 # skip", "skipped", ""),
        ("not ok 1 - a # TODO later", "todo", "later"),
        ("ok 1 - a # TODO later", "todo-passed", "later"),
        ("ok - no number", "passed", ""),
        ("not ok", "failed", ""),
    ],
)
def test_directives_say_what_a_line_means(line: str, verdict: str, reason: str) -> None:
    (test,) = parse(f"1..1\n{line}\n").tests
    assert (test.verdict, test.reason) == (verdict, reason)


def test_a_hash_in_a_description_is_no_directive() -> None:
    (test,) = parse("1..1\nok 1 - interrupt #21 is taken\n").tests
    assert test.name == "1 - interrupt #21 is taken"


def test_a_plan_of_none_skips_everything_with_its_reason() -> None:
    assert parse("1..0 # SKIP no SPE here\n").skipped == "no SPE here"


def test_after_a_bail_out_nothing_counts() -> None:
    report = parse("1..3\nok 1\nBail out! the buffer is gone\nok 2\n")
    assert (report.bailed_out, len(report.tests)) == ("the buffer is gone", 1)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("ok 1\nok 2\n", "2 tests, and no plan (1..N) says how many there are"),
        ("1..3\nok 1\n", "3 tests are planned, 1 were made"),
        ("1..2\nok 1\nok 3\n", "test 2 calls itself 3"),
        ("1..1\n1..1\nok 1\n", "there is a second plan"),
    ],
)
def test_what_is_missing_or_too_much_is_a_problem(output: str, problem: str) -> None:
    assert parse(output).problems == [problem]


def test_half_a_line_at_the_end_is_no_test() -> None:
    report = parse("1..2\nok 1 - whole\nnot o")
    assert len(report.tests) == 1
    assert report.problems == ["2 tests are planned, 1 were made"]


def test_other_output_is_no_tap() -> None:
    assert not parse("Hello, world\nokay then\n").speaks


@given(st.text(max_size=500))
def test_no_output_breaks_the_parser(output: str) -> None:
    parse(output)
