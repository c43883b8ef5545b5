"""No wrong command line and no broken file gets more than one clear message out of us."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from tests.corpus.broken_files import make_broken_files
from tests.support.running.processes import WALL_SECONDS, limit_cpu

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COMMAND = str(Path(sys.executable).parent / "spe-unicorn")
CORPUS = Path(__file__).parent / "corpus" / "command_lines.toml"
CASES = tomllib.loads(CORPUS.read_text())["case"]
OUTSIDE = CASES[::10]
"""Cases that are also run as a process of their own: slower, and without a test runner's net."""


def name_of(case: dict[str, Any]) -> str:
    return " ".join(case["argv"]).replace("/", "|") or "(nothing)"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_broken_files(tmp_path_factory.mktemp("corpus"))


def check(case: dict[str, Any], files: dict[str, str], status: int, stdout: str, stderr: str):
    said = " ".join(stderr.split())
    assert status == case.get("status", 2), said
    assert fill(case["says"], files).lower() in said.lower()
    assert "Traceback" not in stdout + stderr
    assert not list(Path(files["folder"]).glob("new*")), "an output was left behind"


def fill(text: str, files: dict[str, str]) -> str:
    for name, path in files.items():
        text = text.replace("{" + name + "}", path)
    return text


def test_the_corpus_is_large_enough() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_wrong_command_line_gets_a_clear_message(
    case: dict[str, Any], files: dict[str, str]
) -> None:
    result = CliRunner().invoke(main, [fill(argument, files) for argument in case["argv"]])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    check(case, files, result.exit_code, result.stdout, result.stderr)


@pytest.mark.sweep
@pytest.mark.parametrize("case", OUTSIDE, ids=name_of)
def test_a_wrong_command_line_gets_a_clear_message_from_the_command(
    case: dict[str, Any], files: dict[str, str]
) -> None:
    result = subprocess.run(
        [COMMAND, *(fill(argument, files) for argument in case["argv"])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    check(case, files, result.returncode, result.stdout, result.stderr)


STREAMS = (
    ["--help"],
    ["regs"],
    ["regs", "PMSCR_EL1"],
    ["cores"],
    ["decode", "{spoiled.spe}"],
    ["run", "{hello}"],
    ["run", "-o", "{new}.spe", "{hello}"],
)


@pytest.mark.sweep
@pytest.mark.parametrize("argv", STREAMS, ids=" ".join)
@pytest.mark.parametrize("stdout", ["full", "closed", "unread"])
def test_standard_output_may_be_full_closed_or_unread(
    argv: list[str], stdout: str, files: dict[str, str]
) -> None:
    redirection = {"full": ">/dev/full", "closed": ">&-", "unread": "| true"}[stdout]
    command = shlex.join([COMMAND, *(fill(argument, files) for argument in argv)])
    result = subprocess.run(
        ["/bin/sh", "-c", f"{command} {redirection}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    Path(files["new"] + ".spe").unlink(missing_ok=True)
    said = result.stdout + result.stderr
    for unwanted in ("Traceback", "internal error", "Exception ignored"):
        assert unwanted not in said
    if stdout == "full":
        assert result.returncode != 0
        assert "No space left on device" in said
