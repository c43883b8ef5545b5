"""Limits of child processes: of processor time, whatever the time on the wall."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.running import processes
from tests.support.running.processes import CPU_SECONDS, WALL_SECONDS, limit_cpu

SAY = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU)[0])"
SPIN = "while True: pass"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


def test_a_child_has_a_limit_of_processor_time() -> None:
    assert 0 < int(run(SAY).stdout) <= CPU_SECONDS


def test_a_child_that_takes_more_ends_by_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CPU_SECONDS", 1)
    assert run(SPIN).returncode == -signal.SIGXCPU
