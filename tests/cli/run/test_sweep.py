"""``--interrupt-sweep``, ``--inject`` and ``--check``: what they print, and the exit status."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.sweeping import sweep as sweep_module

PROGRAM = str(shipped_firmware("planted"))


def run_cli(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments])


def test_a_sweep_tells_what_fails_and_how_to_see_it_again() -> None:
    done = run_cli("--interrupt-sweep", "30,share-share+0x40", PROGRAM, "--", "race")
    assert done.exit_code == 1
    place, repeat, total = done.output.splitlines()
    assert place.startswith("INTID 30 before 0x")
    assert "planted.c:" in place
    assert place.endswith(": not ok 3 - nothing of the counter was lost")
    assert total.endswith(": 2 fail")
    command = repeat.removeprefix("  repeat: ")
    again = CliRunner().invoke(main, shlex.split(command)[1:])
    assert again.exit_code == 1
    assert "not ok 3 - nothing of the counter was lost" in again.output


def test_a_right_program_ends_a_sweep_with_status_0() -> None:
    done = run_cli("--interrupt-sweep", "30,share-share+0x20", PROGRAM)
    assert done.exit_code == 0
    assert ": none fail" in done.output


def test_a_sweep_of_a_program_that_takes_no_interrupt_says_that_it_tested_nothing() -> None:
    done = run_cli("--interrupt-sweep", "30,main-main+0x8", str(shipped_firmware("hello")))
    assert "2 at which it was never taken, so nothing was tested: has the program" in done.output
    right = run_cli("--interrupt-sweep", "30,share-share+0x20", PROGRAM)
    assert "nothing was tested" not in right.output


def test_a_window_that_there_is_not_is_a_sentence() -> None:
    for wanted, said in (
        ("30,nowhere-main", "no symbol 'nowhere'"),
        ("900,1-2", "INTIDs go from 0"),
    ):
        done = run_cli("--interrupt-sweep", wanted, PROGRAM)
        assert done.exit_code == 2
        assert said in done.output


@pytest.mark.parametrize(
    "words",
    [
        *("--gdb 1234", "--json o.json", "--coverage o.info", "--trace sysreg", "--warn error"),
        *("--check text", "--snapshot-at 5 --snapshot o", "-o o.data", "--timeline o.json"),
    ],
)
def test_what_is_of_one_run_is_not_for_a_sweep(words: str) -> None:
    done = run_cli("--interrupt-sweep", "30,1-2", *words.split(), PROGRAM)
    assert done.exit_code == 2
    assert "--interrupt-sweep is of many runs: without --" in done.output


def test_a_point_of_an_injection_that_is_not_reached_is_told() -> None:
    done = run_cli("--inject", "irq=30@99999999", PROGRAM)
    assert done.exit_code == 2
    assert "99999999 was not reached: nothing was injected" in done.output


def test_checks_are_told_in_the_summary_in_json_and_by_the_status(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    check = ("--check", "text", "--json", str(told))
    done = run_cli(*check, PROGRAM, "--", "text")
    assert done.exit_code == 0
    assert "spe-unicorn: check: text at 0x" in done.output
    assert "checks of memory: 1 found" in done.output
    (found,) = json.loads(told.read_text())["checks"]
    assert found["check"] == "text"
    assert "write_code" in found["place"]
    assert run_cli("--warn", "error", *check, PROGRAM, "--", "text").exit_code == 3
    gcc = run_cli("--warn-format", "gcc", *check, PROGRAM, "--", "text")
    assert "firmware/planted.c:" in gcc.output
    assert " warning: 4 bytes are stored to code at 0x" in gcc.output
    assert run_cli("--warn", "error", *check, PROGRAM).exit_code == 0
    assert json.loads(told.read_text())["checks"] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_sweep_that_is_stopped_tells_what_it_has_found(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped before its second part; the race lies in the first one."""
    whole = sweep_module._Worker.positions

    def positions(self: Any, part: tuple[int, int]) -> Any:
        if self._at:
            os.kill(os.getpid(), number)
        return whole(self, part)

    monkeypatch.setattr(sweep_module._Worker, "positions", positions)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    done = run_cli("--interrupt-sweep", "30,share-wait+0x50", PROGRAM, "--", "race")
    assert done.exit_code == 128 + number
    place, repeat, total = done.output.splitlines()
    assert place.endswith(": not ok 3 - nothing of the counter was lost")
    assert "--inject irq=30@" in repeat
    assert "before each of 64 operations" in total
    assert total.endswith(" fail; stopped, 160 were not tried")
