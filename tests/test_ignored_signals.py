"""Tests in a run that ignores signals, as under nohup: what they start does not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

ROOT = Path(__file__).resolve().parents[1]
STARTS_A_CHILD = """
import signal, subprocess, sys
def test_child():
    code = "import signal; print(signal.getsignal(signal.{name}) is signal.SIG_IGN)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.stdout == "False\\n"
    signal.raise_signal(signal.{name})
"""


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_a_signal_that_is_ignored_here_reaches_children_and_not_us(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(STARTS_A_CHILD.replace("{name}", name))

    def ignore() -> None:
        limit_cpu()
        signal.signal(signal.Signals[name], signal.SIG_IGN)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=ignore,
    )
    assert "1 passed" in done.stdout, done.stdout
