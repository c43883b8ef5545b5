"""Runs that have to compile their hooks first: how they end early, and what time they tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spe_unicorn.compiled import making
from spe_unicorn.host.ports import Ending
from spe_unicorn.session.machine import Machine
from tests.support.running.processes import WALL_SECONDS, limit_cpu
from tests.support.small_programs import EXIT_7, program

EMPTY_PACKAGE = """
from pathlib import Path
from spe_unicorn.compiled import prepared
prepared.PLACE = Path("there/is/none")
from spe_unicorn.__main__ import program
program()
"""
"""The command, with no LLVM code in the package, as after an edit of all compiled functions."""


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")]
)
def test_a_signal_ends_it_while_a_function_is_compiled(
    tmp_path: Path, number: signal.Signals, name: str
) -> None:
    cache, records = tmp_path / "cache", tmp_path / "perf.data"
    words = ["run", "-o", str(records), str(program(tmp_path, EXIT_7))]
    with subprocess.Popen(
        [sys.executable, "-c", EMPTY_PACKAGE, *words],
        env={**os.environ, "SPE_UNICORN_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit_cpu,
    ) as process:
        assert process.stderr is not None
        assert "compiling its hooks" in process.stderr.readline()
        process.send_signal(number)
        made = len(list(cache.glob("compiled/*.o")))
        output, said = process.communicate(timeout=WALL_SECONDS)
    assert process.returncode == 128 + number
    assert (output, said) == ("", f"spe-unicorn: stopped by {name} while it compiled its hooks\n")
    assert len(list(cache.glob("compiled/*.o"))) <= made + 2, "it went on to compile others"
    assert not records.exists()


def test_the_seconds_of_a_run_are_without_those_of_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(program(tmp_path, EXIT_7))
    drive = machine._runs.drive

    def compile_and_run(operations: int | None, until: int) -> Ending:
        with making.measured():
            time.sleep(0.5)
        return drive(operations, until)

    monkeypatch.setattr(machine._runs, "drive", compile_and_run)
    began = time.monotonic()
    outcome = machine.run()
    assert 0 < outcome.seconds <= time.monotonic() - began - 0.5
