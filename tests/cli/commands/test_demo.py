from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

HERE = Path(sys.prefix) / "bin"
NEEDS_ACTIVATION = (HERE / "activate").is_file()


def test_the_demonstration_shows_the_firmwares_words_and_its_records(
    command: Callable[..., Any],
) -> None:
    result = command("demo")
    assert "  | ok 1 - " in result.stdout
    assert "not ok" not in result.stdout
    assert "record 0 at 0x0 of cpu 0" in result.stdout
    assert "ADDRESS        pc 0x" in result.stdout
    assert "load general" in result.stdout
    assert "copy+0x" in result.stdout
    assert "spe-unicorn record -c 1000" in result.stdout


def test_the_demonstration_is_the_same_each_time(command: Callable[..., Any]) -> None:
    assert command("demo").stdout == command("demo").stdout


def closing(text: str) -> str:
    """The commands that stand at the end, as somebody copies them."""
    return text.partition("\nTo go on:\n")[2]


def run_as_they_stand(commands: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """In a shell of somebody who activated nothing."""
    kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    return subprocess.run(
        ["bash", "-e", "-x"],
        input=commands,
        cwd=folder,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


@pytest.mark.sweep
def test_the_closing_commands_run_as_they_stand(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", f"{HERE}:/usr/bin:/bin")  # what scripts/demo sets
    path = "/usr/bin:/bin" if NEEDS_ACTIVATION else f"{HERE}:/usr/bin:/bin"
    done = run_as_they_stand(closing(command("demo").stdout), tmp_path, path)
    assert done.returncode == 0, done.stderr
    commands = [line for line in done.stderr.splitlines() if line.startswith("+ spe-unicorn")]
    assert [line.split()[2] for line in commands] == [
        *("run", "decode", "run", "record", "report", "regs")
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.spe", "sort.data"]
    for shown in ("copy+0x", "MSR PMSCR_EL1", "quicksort", "E1SPE"):
        assert shown in done.stdout + done.stderr


@pytest.mark.skipif(not NEEDS_ACTIVATION, reason="this Python is not in a virtual environment")
def test_where_the_command_is_on_the_path_nothing_is_activated(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert "activate" in closing(command("demo").stdout)
    elsewhere = tmp_path / "spe-unicorn"
    elsewhere.write_text("#!/bin/sh\n")
    elsewhere.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{HERE}")
    assert "activate" not in closing(command("demo").stdout)
    monkeypatch.setenv("PATH", f"{HERE}:/usr/bin:/bin")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert "activate" not in closing(command("demo").stdout)
