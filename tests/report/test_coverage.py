"""Coverage as tables, by hand."""

from __future__ import annotations

from spe_unicorn.output.coverage.model import Coverage, CoveredFile
from spe_unicorn.report.coverage import file_table, function_table, never_run


def covered() -> Coverage:
    """a.c: two of three lines, one of two functions, one of four ways; b.c: all of one line."""
    first = CoveredFile(
        lines={3: 1, 4: 1, 9: 0},
        functions={"rest": (9, 0), "main": (3, 1)},
        branches={(4, 0, 0): 1, (4, 0, 1): 0, (9, 0, 0): -1, (9, 0, 1): -1},
    )
    return Coverage(files={"b.c": CoveredFile(lines={1: 1}), "a.c": first})


def test_each_file_and_all_of_them_have_lines_branches_and_functions() -> None:
    table = file_table(covered())
    assert [column.name for column in table.columns] == [
        *("file", "lines", "lines run", "branches", "branches run", "functions", "functions run")
    ]
    assert table.rows == [
        ("a.c", 3, 2 / 3, 4, 1 / 4, 2, 1 / 2),
        ("b.c", 1, 1.0, 0, None, 0, None),
        ("all files", 4, 3 / 4, 4, 1 / 4, 2, 1 / 2),
    ]


def test_a_function_has_the_lines_up_to_the_next() -> None:
    table = function_table(covered())
    assert [column.name for column in table.columns] == [
        *("function", "place", "run", "lines", "lines run")
    ]
    assert table.rows == [("main", "a.c:3", "yes", 2, 1.0), ("rest", "a.c:9", "no", 1, 0.0)]


def test_what_was_never_run_is_said_by_file() -> None:
    table = never_run(covered())
    assert table is not None
    assert table.rows == [("a.c", "rest", "9", "4")]
    assert never_run(Coverage(files={"b.c": CoveredFile(lines={1: 1})})) is None
    apart = CoveredFile(lines=dict.fromkeys(range(2, 30, 2), 0) | {1: 0})
    table = never_run(Coverage(files={"c.c": apart}))
    assert table is not None
    assert table.rows[0][2] == "1-2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, and 2 more"
