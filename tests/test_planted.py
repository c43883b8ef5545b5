"""The table of planted mistakes in docs/how-to/ci.md: each row says what happens."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from functools import partial
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


@pytest.mark.sweep
@pytest.mark.parametrize(("row", "ways", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_a_mistake_is_found_by_what_the_page_says_in_its_words(
    row: str, ways: str, said: str
) -> None:
    option = re.findall(r"`(--[^`]*)`", ways)[0]
    assert said in output_of("run", *option.split(), *words_of(row))
    assert not re.search("^not ok|check: ", output_of("run", *words_of(row)), re.M)


@pytest.mark.sweep
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


def seconds_of(work: Callable[[], str]) -> tuple[str, float]:
    """What it printed, and the CPU time of this process and of those that it waited for."""
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    before = sum(sum(resource.getrusage(each)[:2]) for each in whose)
    printed = work()
    return printed, sum(sum(resource.getrusage(each)[:2]) for each in whose) - before


@pytest.mark.slow
@pytest.mark.parametrize(("row", "ways", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_nobody_finds_a_mistake_but_who_is_named(row: str, ways: str, said: str) -> None:
    """Doctor, each check, the sweep and seeds; ``pytest -s`` shows the seconds of each."""
    program, _ = row.split()
    same = [each[1] for each in ROWS if each[0].split()[0] == program]
    options = {option for each in same for option in re.findall(r"`(--[^`]*)`", each)}
    tries = {option: ("run", *option.split()) for option in options}
    tries |= {f"seed {n}": ("run", "--seed", str(n)) for n in range(8)}
    tries["doctor"] = ("doctor",)
    found = set()
    for name, words in tries.items():
        printed, seconds = seconds_of(partial(output_of, *words, *words_of(row)))
        print(f"{row}: {name}: {seconds:.1f} s of CPU")
        if said in " ".join(printed.split()):  # doctor's lines are broken
            found.add(name)
    named = re.findall(r"`([^`]*)`", ways)
    assert found == {name for name in tries if any(each in name for each in named)}
