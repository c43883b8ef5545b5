"""What lcov 2 takes of coverage: functions, and branches, only where a line of theirs was hit."""

from __future__ import annotations

from spe_unicorn.output.coverage.lcov import to_lcov
from spe_unicorn.output.coverage.model import Coverage, CoveredFile


def rows(file: CoveredFile) -> list[str]:
    return to_lcov(Coverage(files={"a.c": file})).splitlines()[2:-1]


def test_a_function_stands_at_its_first_line_with_code() -> None:
    found = rows(CoveredFile(lines={7: 1, 20: 0}, functions={"f": (5, 1), "g": (19, 0)}))
    assert found[:6] == ["FN:7,f", "FN:20,g", "FNDA:1,f", "FNDA:0,g", "FNF:2", "FNH:1"]


def test_a_function_that_is_hit_without_a_line_of_its_own_is_left_out() -> None:
    file = CoveredFile(lines={7: 1, 20: 0, 30: 1}, functions={"f": (5, 1), "g": (19, 1)})
    file.functions["h"] = 30, 1
    found = rows(file)
    assert [row for row in found if row.startswith("FN")] == [
        *("FN:7,f", "FN:30,h", "FNDA:1,f", "FNDA:1,h", "FNF:2", "FNH:2"),
    ]


def test_branches_of_a_line_that_is_hit_without_any_of_them_are_left_out() -> None:
    ways = {(7, 0, 0): -1, (7, 0, 1): -1, (8, 0, 0): 1, (8, 0, 1): 0, (9, 0, 0): -1, (9, 0, 1): -1}
    found = rows(CoveredFile(lines={7: 1, 8: 1, 9: 0}, branches=ways))
    assert [row for row in found if row.startswith("BR")] == [
        *("BRDA:8,0,0,1", "BRDA:8,0,1,0", "BRDA:9,0,0,-", "BRDA:9,0,1,-", "BRF:4", "BRH:1"),
    ]
