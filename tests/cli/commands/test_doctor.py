"""``spe-unicorn doctor``: one page on what is wrong with a program, and how to see it again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from tests.firmware.programs import arguments
from tests.support import a64
from tests.support.small_programs import program

ON_PURPOSE: dict[str, set[str]] = {
    "spe_full": {"enabled-while-stopped"},
    "spe_exc": {"enabled-while-stopped"},
    "spe_el2_owner": {"enable-ignored"},
    "spe_el3_monitor": {"enable-ignored"},
    "spe_events": {"buffer-outside-memory"},
    "pmu_access": {"text"},
    "spe_model": {"uninitialised"},
}
"""What is found of shipped programs that do what no driver does, to see what becomes of it."""
RIGHT = (
    *("spe_branches", "spe_copy", "spe_counters", "spe_el0", "spe_fault", "interval", "mix"),
    *("pmu_driver", "priv_el3", "priv_gic_secure", "spe_coherence", "ipi_pingpong"),
)


def run_cli(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_right_program_has_nothing_wrong() -> None:
    done = run_cli("doctor", "--seeds", "2", "--processes", "1", str(shipped_firmware("hello")))
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "EL1 generic      seeds 0-1: 2 x exit status 0"
    assert lines[3] == "EL2 neoverse-n2  seeds 0-1: 2 x exit status 0"
    assert "no findings, 1 remark of 8 runs" in lines


def test_mistakes_are_findings_with_the_command_that_shows_them_again(tmp_path: Path) -> None:
    told, cases = tmp_path / "told.json", tmp_path / "cases.xml"
    done = run_cli(
        *("doctor", "--seeds", "1", "--processes", "1", "--el", "1", "--core", "generic"),
        *("--json", str(told), "--junit", str(cases), str(shipped_firmware("spe_misuse"))),
    )
    assert done.exit_code == 1, done.output
    data = json.loads(told.read_text())
    (run,) = data["runs"]
    assert (run["el"], run["core"], run["seed"], run["ending"]) == (1, "generic", 0, "exit")
    found = next(each for each in data["findings"] if each["rule"] == "setup-not-synchronized")
    assert "spe_misuse.c:" in found["place"]
    assert found["runs"] == [0]
    assert found["command"] in done.output or len(data["findings"]) > 8
    again = CliRunner().invoke(main, shlex.split(found["command"])[1:])
    assert f"setup-not-synchronized at {found['place']}" in again.stderr
    suite = ElementTree.parse(cases).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_what_cannot_be_run_is_a_sentence(tmp_path: Path) -> None:
    none = run_cli("doctor", str(tmp_path / "none.elf"))
    assert none.exit_code == 2
    assert "none.elf" in none.output
    many = run_cli("doctor", "--seeds", "10001", str(shipped_firmware("hello")))
    assert many.exit_code == 2
    assert "10001 is not in the range 1<=x<=10000" in many.output
    for words, said in (
        (("--junit", "."), ".: no file can be there"),
        (("--json", "none/x.json"), "none/x.json: no file can be there"),
        (("--json", "x", "--warn-format", "sarif:x"), "x: is named for two outputs"),
    ):
        wrong = run_cli("doctor", *words, str(shipped_firmware("hello")))
        assert wrong.exit_code == 2
        assert said in wrong.output
    short = run_cli("doctor", "--core", "neoverse-n9", str(shipped_firmware("hello")))
    assert short.exit_code == 2
    assert "neoverse-n9" in short.output


def test_what_repeats_a_run_without_an_end_has_its_limits(tmp_path: Path) -> None:
    endless = program(tmp_path, a64.code([a64.b(0)]))
    page, words = tmp_path / "page.json", ("--seeds", "1", "--core", "generic", "--el", "1")
    limits = ("--max-insns", "100G", "--timeout", "0.5")
    run_cli("doctor", *words, *limits, "--json", str(page), endless)
    data = json.loads(page.read_text())
    (found,) = [each for each in data["findings"] if "time limit of 0.5 s" in each["what"]]
    assert "--max-insns 100000000000 --timeout 0.5" in found["command"]
    again = CliRunner().invoke(main, shlex.split(found["command"])[1:])
    assert again.exit_code == 124


def test_a_program_that_waits_for_what_is_typed_is_remarked() -> None:
    done = run_cli(
        *("doctor", "--seeds", "1", "--processes", "1", "--el", "1", "--core", "generic"),
        str(shipped_firmware("uart_echo")),
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith(
        "EL1 generic      seeds 0: 1 x asleep\n\nremark: waits-for-input at"
    )
    assert "no findings, 1 remark of 1 runs" in done.output


def test_a_program_that_is_for_no_start_says_so() -> None:
    done = run_cli("doctor", "--seeds", "1", "--core", "generic", str(shipped_firmware("priv_el3")))
    assert done.exit_code == 0, done.output
    said = "remark: everything is skipped: needs a start at EL3\n   do: --el 3 starts it there;"
    assert said in done.output
    assert "   in all 2 runs" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RIGHT, *ON_PURPOSE])
def test_a_driver_that_is_right_has_no_finding(name: str, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    done = run_cli("doctor", "--seeds", "1", "--json", str(told), *arguments(name))
    rules = {each["rule"] for each in json.loads(told.read_text())["findings"]}
    assert rules == ON_PURPOSE.get(name, set()), done.output
