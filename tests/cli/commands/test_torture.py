"""``spe-unicorn torture`` and ``choices``: mistakes of a driver are found, a right one passes."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from spe_unicorn.arch.rules.choices import ROWS
from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.torture.search import Choices, Verdict
from spe_unicorn.session.torture.trials import Trials

DRIVER = str(shipped_firmware("spe_silicon"))


def run_cli(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


PAGE = Path(__file__).resolve().parents[3] / "docs/reference/choices.md"


def test_the_page_has_each_choice_with_its_rule() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \| (.*) \|$", PAGE.read_text(), re.M)
    assert [row[0] for row in rows] == [row.name for row in ROWS]
    for (_, values, _, rule, safe), row in zip(rows, ROWS, strict=True):
        assert values == row.values.text
        assert rule.replace("\\*", "*") == row.rule
        assert safe == (row.safe or "-")


def test_a_choice_is_shown_with_its_rule() -> None:
    done = run_cli("choices", "late_bytes")
    assert done.exit_code == 0
    assert done.output.startswith("late_bytes: off, on; off by default\n  rule: D17.9")
    assert run_cli("choices", "late").exit_code == 2


def test_a_search_that_is_stopped_tells_what_it_has_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is stopped in its second batch: one process has eight trials at a time."""

    def run(trials: Trials, choices: Sequence[Choices]) -> Iterator[Verdict]:
        calls.append(len(choices))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        yield from (Verdict("it fails" if one else "", 100) for one in choices)

    calls: list[int] = []
    monkeypatch.setattr(Trials, "__call__", run)
    monkeypatch.setattr(Trials, "explain", lambda *_: ["  here"])
    done = run_cli(
        *("torture", "--core", "max", "--only", "buffer_locked", "--runs", "20"),
        *("--processes", "1", DRIVER),
    )
    assert done.exit_code == 128 + signal.SIGTERM
    assert calls == [1, 8, 8]
    assert "\n  here\n  found by 8 of 8 trials\n" in done.output
    assert done.output.endswith("\n8 trials of 20, then stopped, 1 findings\n")


@pytest.mark.parametrize(
    ("mistake", "choice", "told"),
    [
        pytest.param(
            "no-isb",
            "late_writes",
            r"where: write of PMSCR_EL1 at .* \(spe_silicon\.c:\d+\)",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "no-drain",
            "late_records",
            r"do: ISB, PSB CSYNC, DSB, ISB",
            marks=pytest.mark.slow,
        ),
        ("re-arm", "buffer_locked", r"where: write of PMBSR_EL1 at .*: ignored, PMBLIMITR_EL1\.E"),
    ],
)
def test_a_mistake_that_passes_here_is_found_and_told(
    tmp_path: Path, mistake: str, choice: str, told: str
) -> None:
    assert run_cli("run", "-q", "--core", "max", DRIVER, "--", mistake).exit_code == 0
    found, cases = tmp_path / "found.json", tmp_path / "cases.xml"
    done = run_cli(
        *("torture", "--core", "max", "--only", choice, "--runs", "2"),
        *("--json", str(found), "--junit", str(cases), DRIVER, "--", mistake),
    )
    assert done.exit_code == 1, done.output
    assert f"choice: {choice} = " in done.output
    assert re.search(told, done.output), done.output
    assert f"-- {mistake}" in done.output
    (finding,) = json.loads(found.read_text())["findings"]
    assert finding["choices"].startswith(f"{choice}=")
    suite = ElementTree.parse(cases).getroot()
    misused = bool(json.loads(found.read_text())["misuses"])
    failures = len(finding["trials"]) + misused
    assert (suite.get("tests"), suite.get("failures")) == ("3", str(failures))
    assert misused == (mistake in ("no-drain", "re-arm"))


@pytest.mark.sweep
def test_a_right_driver_passes() -> None:
    done = run_cli(
        *("torture", "--core", "max", "--runs", "4"),
        *("--only", "late_writes,late_records,late_bytes,buffer_locked,stale_status", DRIVER),
    )
    assert done.exit_code == 0, done.output
    assert "4 trials, 0 findings" in done.output


@pytest.mark.slow
def test_a_driver_that_an_interrupt_serves_passes_all_choices() -> None:
    program = str(shipped_firmware("spe_irq_el1"))
    done = run_cli("torture", "--core", "max", "--timeout", "300", "--runs", "500", program)
    assert done.exit_code == 0, done.output
    assert "500 trials, 0 findings" in done.output


def test_firmware_that_fails_anyway_is_a_sentence() -> None:
    done = run_cli("torture", "--runs", "1", "--max-insns", "1000", DRIVER)
    assert done.exit_code == 2
    assert "fails without any of this: still running after 1000 operations" in done.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--core", "max"], "nothing to run: name FIRMWARE or --kernel"),
        (["--core", "max", "--only", "late", DRIVER], "--only: late: no such choice; there are"),
    ],
)
def test_what_cannot_be_searched_is_a_sentence(arguments: list[str], why: str) -> None:
    done = run_cli("torture", *arguments)
    assert done.exit_code == 2
    assert why in done.output
