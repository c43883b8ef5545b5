"""Which tests of a sweep run with a commit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import SWEEP, pytest_collection_modifyitems

ALONE = "test_a.py::test_alone"
ROWS = [f"test_a.py::test_row[{n}]" for n in range(10)]
TOGETHER = [f"test_b.py::test_{n}" for n in range(10)]
BEGUN = [f"test_c.py::test_{name}[{n}]" for name in ("row", "column") for n in range(10)]
FIRST = ["test_c.py::test_row[0]", "test_c.py::test_column[0]"]


class Row:
    """What the choice looks at of a test."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.location = (nodeid.split("::")[0], 0, nodeid)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        if name != "sweep" or self.nodeid == ALONE:
            return None
        return pytest.mark.sweep(together=self.nodeid in TOGETHER, first=self.nodeid in BEGUN).mark


def left(commit: str | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is left of sweeps by rows, of tests that run together, and of another test."""
    if commit is None:
        monkeypatch.delenv(SWEEP, raising=False)
    else:
        monkeypatch.setenv(SWEEP, commit)
    items: list[Any] = [Row(name) for name in (*ROWS, *TOGETHER, *BEGUN, ALONE)]
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(hook=hook)
    pytest_collection_modifyitems(config, items)
    return [item.nodeid for item in items]


def test_eight_commits_run_each_row_once_and_all_else_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [left(f"0000000{n}ff", monkeypatch) for n in range(8)]
    assert all(ALONE in names for names in found)
    assert sorted(name for names in found for name in names if name in ROWS) == sorted(ROWS)
    assert sum(not set(ROWS).isdisjoint(names) for names in found) > 1


def test_one_of_eight_commits_runs_a_file_whose_tests_run_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [left(f"0000000{n}ff", monkeypatch) for n in range(8)]
    together = [[name for name in names if name in TOGETHER] for names in found]
    assert sorted(together) == [*[[]] * 7, TOGETHER]


def test_the_first_row_runs_each_time_where_the_mark_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [left(f"0000000{n}ff", monkeypatch) for n in range(8)]
    assert all(set(FIRST) <= set(names) for names in found)
    others = [name for name in BEGUN if name not in FIRST]
    assert sorted(name for names in found for name in names if name in others) == sorted(others)


def test_without_a_commit_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(left(None, monkeypatch)) == 41
