"""The table of planted mistakes in docs/how-to/ci.md: each row says what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware

PAGE = (Path(__file__).resolve().parents[1] / "docs/how-to/ci.md").read_text()
ROWS = re.findall(r"^\| `(\w+ \w+)`: [^|]*\| ([^|]*) \| `([^|]*)` \|$", PAGE, re.M)


def output_of(*words: str) -> str:
    return CliRunner().invoke(main, [*words]).output


def words_of(row: str) -> tuple[str, str, str]:
    program, mistake = row.split()
    return str(shipped_firmware(program)), "--", mistake


def test_the_page_has_all() -> None:
    planted = ("stack", "text", "data", "null", "uninitialised", "race", "torn", "lost")
    blocks = ("over", "under", "after", "twice", "foreign", "fresh")
    lines = ("alias", "late", "off")
    wanted = [f"planted {each}" for each in planted]
    wanted += [f"heap_blocks {each}" for each in blocks]
    wanted += [f"stale_lines {each}" for each in lines]
    assert sorted(row[0] for row in ROWS) == sorted(wanted)


@pytest.mark.parametrize(("row", "ways", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_a_mistake_is_found_by_what_the_page_says_in_its_words(
    row: str, ways: str, said: str
) -> None:
    option = re.findall(r"`(--[^`]*)`", ways)[0]
    assert said in output_of("run", *option.split(), *words_of(row))
    assert not re.search("^not ok|check: ", output_of("run", *words_of(row)), re.M)


@pytest.mark.parametrize(
    "name", ["planted text", "planted lost", "heap_blocks fresh", "stale_lines off"]
)
def test_doctor_finds_those_that_it_is_said_to_find_and_no_others(name: str) -> None:
    ((ways, said),) = [row[1:] for row in ROWS if row[0] == name]
    words = ("doctor", "--seeds", "1", "--core", "generic", "--processes", "1")
    found = said in output_of(*words, *words_of(name))
    assert found == ("`doctor`" in ways)


def test_a_right_program_has_nothing() -> None:
    options = {(row[0].split()[0], o) for row in ROWS for o in re.findall(r"`(--[^`]*)`", row[1])}
    for program, option in sorted(options):
        printed = output_of("run", *option.split(), str(shipped_firmware(program)))
        assert not re.search("^not ok|check: |^INTID.*: [0-9]+ fail", printed, re.M)
