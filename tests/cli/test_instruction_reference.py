"""The page of instructions by feature, and a few of its cells by the cores' manuals."""

from __future__ import annotations

from pathlib import Path

from spe_unicorn.cli.instruction_reference import instruction_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "instructions.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == instruction_reference(), (
        "run: python -m spe_unicorn.cli.instruction_reference docs/reference/instructions.md"
    )


def row(feature: str) -> list[str]:
    lines = instruction_reference().splitlines()
    (found,) = [line for line in lines if line.startswith(f"| FEAT_{feature} |")]
    return [cell.strip() for cell in found.strip("|").split("|")][3:9]


def test_each_feature_that_is_executed_names_a_test() -> None:
    table, tests = instruction_reference().split("## Tests")
    lines = [line for line in table.splitlines() if line.startswith("| FEAT_")]
    assert len(lines) > 50
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    places = [line.strip("| ").split(" | ") for line in tests.splitlines() if ".py |" in line]
    tested = [name for _, names in places for name in names.split(", ")]
    assert sorted(tested) == sorted(each[0] for each in cells if each[-1] != "nobody")
    assert all((PAGE.parents[2] / "tests" / place).is_file() for place, _ in places)


def test_what_the_manuals_say_of_n1_v1_n2_v2_and_x4() -> None:
    assert row("LSE") == ["yes"] * 5 + ["the engine"]
    assert row("FCMA") == ["no", "yes", "yes", "yes", "yes", "the engine"]
    assert row("SVE2") == ["no", "no", "yes", "yes", "yes", "spe_unicorn"]
    assert row("MTE") == ["no", "no", "yes", "yes", "yes", "spe_unicorn"]
    assert row("MTE2") == ["no", "no", "yes", "yes", "yes", "spe_unicorn"]
    assert row("MTE3") == ["no", "no", "no", "yes", "yes", "spe_unicorn"]
    assert row("MOPS")[:4] == ["no"] * 4
