"""docs/reference/pmu.md: its table of events is whole, and the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

from spe_unicorn.pmu.countable import countable
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.spe.feed import SampleEvent

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/pmu.md").read_text()


def rows(first: str) -> list[list[str]]:
    """The cells of the table whose first header is ``first``."""
    _, _, rest = PAGE.partition(f"\n| {first} |")
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_table_of_events_has_each_once() -> None:
    named = [name for row in rows("Event")[:-1] for name in row[0].split(", ")]
    assert len(named) == len(set(named))
    by_hand = {PMUEvent.SW_INCR, PMUEvent.CHAIN}
    assert set(named) == {event.name for event in countable(with_model=True) | by_hand}
    # the last row names two of sampling, which are many
    last = re.findall(r"SAMPLE_(\w+)", rows("Event")[-1][0])
    assert {SampleEvent[name] for name in last} == {SampleEvent.POP, SampleEvent.FEED}
    assert all(len(row) == 3 and all(row) for row in rows("Event"))


def test_each_statement_names_tests_that_are_there() -> None:
    statements = rows("Statement")
    assert len(statements) == 20
    for statement, here, tests in statements:
        named = re.findall(r"`([^`]+)`", tests)
        assert named, statement
        assert here, statement
        for name in named:
            file, _, function = name.partition("::")
            at = ROOT / "tests" / file if file.endswith(".py") else ROOT / file.split()[0]
            assert at.exists(), name
            assert not function or f"\ndef {function}(" in at.read_text(), name


def test_tests_named_elsewhere_on_the_page_are_there() -> None:
    named = set(re.findall(r"`(\w+/(?:\w+/)*test_\w+\.py)", PAGE))
    assert named
    assert {name for name in named if not (ROOT / "tests" / name).exists()} == set()
