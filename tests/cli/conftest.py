"""The command, called from tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.running.processes import limit_cpu

COMMAND = (sys.executable, "-m", "spe_unicorn")
"""The command as a process of its own."""


@pytest.fixture
def command() -> Callable[..., Result]:
    """Calls the command in this process; what it was given must have been good."""

    def call(*arguments: str, status: int = 0, stdin: bytes | None = None) -> Result:
        result = CliRunner().invoke(main, list(arguments), input=stdin)
        assert result.exit_code == status, result.stderr
        return result

    return call


@pytest.fixture
def run_json(command: Callable[..., Any], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Calls the command with ``--json``; the object that it wrote."""

    def call(*arguments: str, **options: Any) -> dict[str, Any]:
        file = tmp_path / "run.json"
        command(*arguments, "--json", str(file), **options)
        result: dict[str, Any] = json.loads(file.read_text())
        return result

    return call


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Starts the command as a process of its own, and sees to its end."""
    processes = []

    def call(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        options = {**pipes, "preexec_fn": limit_cpu, **options}
        process = subprocess.Popen([*COMMAND, *map(str, arguments)], **options)
        processes.append(process)
        return process

    yield call
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def firmware() -> Callable[[str], str]:
    return lambda name: str(shipped_firmware(name))
