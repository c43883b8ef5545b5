from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"

TOO_OLD = """#!/bin/sh
case "$*" in
    *version_info*) exit 1 ;;
    --version) echo Python 3.9.0 ;;
esac
"""
WITHOUT_VENV = """#!/bin/sh
case "$*" in
    *ensurepip*) exit 1 ;;
esac
"""


def run(script: str, tmp_path: Path, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / script],
        cwd="/",
        env={**os.environ, "PYTHON": python, "SPE_UNICORN_VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def fake_python(tmp_path: Path, text: str) -> str:
    file = tmp_path / "python"
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("script", ["demo", "test", "check"])
def test_without_python_a_script_says_so(tmp_path, script):
    result = run(script, tmp_path, "/nowhere/python3")
    assert result.returncode == 1
    assert result.stderr == (f"{script}: no /nowhere/python3 here; install Python 3.10 or later\n")


def test_an_old_python_is_named_with_its_version(tmp_path):
    result = run("test", tmp_path, fake_python(tmp_path, TOO_OLD))
    assert result.returncode == 1
    assert "Python 3.9.0 is too old; Python 3.10 or later is needed" in result.stderr


def test_a_python_without_venv_gets_the_name_of_the_package(tmp_path):
    result = run("demo", tmp_path, fake_python(tmp_path, WITHOUT_VENV))
    assert result.returncode == 1
    assert "apt-get install python3-venv" in result.stderr
    assert not (tmp_path / "venv").exists()
