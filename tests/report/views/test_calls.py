"""Who calls what, as tables."""

from __future__ import annotations

import pytest

from spe_unicorn.report.columns import named_columns
from spe_unicorn.report.samples import Samples
from spe_unicorn.report.views.calls import CallGraph, functions_table, tree_table
from tests.report.recordings import samples
from tests.support.samples import load

WORK, MAIN = 0x40000140, 0x40000100
IN_MAIN, IN_WORK = MAIN + 8, WORK + 8


def led() -> Samples:
    """Three samples of work, which main calls, and which once calls itself; one of main."""
    found = samples(load(WORK), load(WORK), load(WORK), load(MAIN))
    for calls in ((IN_MAIN,), (IN_WORK, IN_MAIN), (IN_MAIN,), ()):
        found.recording.file.calls.add(0, calls)
    return found


def test_the_tree_has_each_function_below_its_caller() -> None:
    table = tree_table(CallGraph("samples", led()), 0.0, 20)
    assert table.rows == [
        (1.0, 0.25, "main"),
        (0.75, 0.5, "  work"),
        (0.25, 0.25, "    work"),
    ]


def test_light_branches_and_what_follows_the_last_row_are_counted() -> None:
    table = tree_table(CallGraph("samples", led()), 0.3, 20)
    assert [row[2] for row in table.rows] == ["main", "  work"]
    assert table.note == "Of samples. 1 branches of the tree are not shown."
    assert len(tree_table(CallGraph("samples", led()), 0.0, 1).rows) == 1


def test_a_sample_counts_once_in_each_function_of_its_stack() -> None:
    table = functions_table(CallGraph("samples", led()), 0.0, 20)
    assert table.rows == [(1.0, 0.25, "main"), (0.75, 0.75, "work")]


@pytest.mark.parametrize(
    ("key", "label"), [("caller", "main > work > work"), ("callee", "work < work < main")]
)
def test_whole_paths_are_labels(key: str, label: str) -> None:
    assert led().labels(key)[1] == label


def test_the_column_of_calls_has_a_list_for_each_record_that_has_calls() -> None:
    found = led()
    arrays, calls = found.arrays, found.recording.file.calls
    column = named_columns(arrays, calls=calls)["calls"]
    assert column.tolist() == [(IN_MAIN,), (IN_WORK, IN_MAIN), (IN_MAIN,), ()]
    assert "calls" not in named_columns(samples(load(WORK)).arrays)


def test_calls_come_to_arrow_as_lists() -> None:
    pytest.importorskip("pyarrow")
    table = led().recording.arrow()
    assert table["calls"].to_pylist() == [[IN_MAIN], [IN_WORK, IN_MAIN], [IN_MAIN], []]
