"""The table of planted mistakes in docs/how-to/ci.md: each row says what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware

PAGE = (Path(__file__).resolve().parents[1] / "docs/how-to/ci.md").read_text()
ROWS = re.findall(r"^\| `(\w+)`: [^|]*\| ([^|]*) \| [^|]* \| `([^|]*)` \|$", PAGE, re.M)
PROGRAM = str(shipped_firmware("planted"))


def output_of(*words: str) -> str:
    return CliRunner().invoke(main, [*words]).output


def test_the_page_has_eight() -> None:
    assert [mistake for mistake, _, _ in ROWS] == [
        *("stack", "text", "data", "null", "uninitialised", "race", "torn", "lost"),
    ]


@pytest.mark.parametrize(("mistake", "ways", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_a_mistake_is_found_by_what_the_page_says_in_its_words(
    mistake: str, ways: str, said: str
) -> None:
    option = re.findall(r"`(--[^`]*)`", ways)[0]
    assert said in output_of("run", *option.split(), PROGRAM, "--", mistake)
    assert not re.search("^not ok|check: ", output_of("run", PROGRAM, "--", mistake), re.M)


@pytest.mark.parametrize("row", [ROWS[1], ROWS[7]], ids=["text", "lost"])
def test_doctor_finds_those_that_it_is_said_to_find_and_no_others(
    row: tuple[str, str, str],
) -> None:
    mistake, ways, said = row
    words = ("doctor", "--seeds", "1", "--core", "generic", "--processes", "1")
    found = said in output_of(*words, PROGRAM, "--", mistake)
    assert found == ("`doctor`" in ways)


def test_a_right_program_has_nothing() -> None:
    options = {option for _, ways, _ in ROWS for option in re.findall(r"`(--[^`]*)`", ways)}
    for option in options:
        printed = output_of("run", *option.split(), PROGRAM)
        assert not re.search("^not ok|check: |^INTID.*: [0-9]+ fail", printed, re.M)
