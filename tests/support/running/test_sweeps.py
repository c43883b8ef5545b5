"""Which tests of a sweep run with a commit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import SWEEP, pytest_collection_modifyitems


class Row:
    """What the choice looks at of a test."""

    def __init__(self, nodeid: str, sweep: bool) -> None:
        self.nodeid = nodeid
        self._marks = {"sweep": sweep}

    def get_closest_marker(self, name: str) -> bool:
        return self._marks.get(name, False)


def left(commit: str | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is left of ten rows of a sweep and of another test."""
    if commit is None:
        monkeypatch.delenv(SWEEP, raising=False)
    else:
        monkeypatch.setenv(SWEEP, commit)
    rows = [f"test_a.py::test_row[{n}]" for n in range(10)]
    items: list[Any] = [Row(name, name in rows) for name in (*rows, "test_a.py::test_alone")]
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(hook=hook)
    pytest_collection_modifyitems(config, items)
    return [item.nodeid for item in items]


def test_eight_commits_run_each_row_once_and_all_else_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [left(f"0000000{n}ff", monkeypatch) for n in range(8)]
    assert all("test_a.py::test_alone" in names for names in found)
    rows = [name for names in found for name in names if "row" in name]
    assert sorted(rows) == sorted(set(rows))
    assert len(rows) == 10


def test_without_a_commit_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(left(None, monkeypatch)) == 11
