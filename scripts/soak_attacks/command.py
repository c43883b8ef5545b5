"""The command line, called in this process or as one of its own, and what must hold afterwards."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from attack import ASLEEP, LIMIT, AttackError
from click.testing import CliRunner, Result

from spe_unicorn.cli import main

COMMAND = (sys.executable, "-m", "spe_unicorn")
UNWANTED = ("Traceback (most recent call last)", "internal error", "Exception ignored")
"""What no command says, whatever it is given."""


def call(*arguments: str | Path, stdin: bytes = b"") -> Result:
    """Call the command in this process. Raises AttackError if it ended by an error of ours."""
    words = [str(word) for word in arguments]
    result = CliRunner().invoke(main, ["--debug", *words], input=stdin)
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        trace = "".join(traceback.format_exception(error))
        raise AttackError(
            f"{trace}\nspe-unicorn {' '.join(words)}: {type(error).__name__}: {error}"
        )
    _check(words, result.stderr)
    return result


def start(*arguments: str | Path, **options: object) -> subprocess.Popen[bytes]:
    """Start the command as a process of its own."""
    words = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(words, **{"stdin": subprocess.DEVNULL, **options})  # type: ignore[call-overload]


def finish(
    process: subprocess.Popen[bytes], timeout: float = 0.5 * ASLEEP * LIMIT
) -> tuple[int, str]:
    """Wait for such a process: its exit status and its standard error, which was a pipe.

    Raises AttackError if it does not end, or ended by an error of ours.
    """
    words = [str(word) for word in process.args[1:]]  # type: ignore[index]
    try:
        _, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        said = errors.decode(errors="replace")
        raise AttackError(f"{said}\n{' '.join(words)}: no end after {timeout:g} s") from None
    said = errors.decode(errors="replace")
    _check(words, said)
    return process.returncode, said


def _check(words: Sequence[str], said: str) -> None:
    for unwanted in UNWANTED:
        if unwanted in said:
            raise AttackError(f"{said[-4000:]}\nspe-unicorn {' '.join(words)} says {unwanted!r}")


def refused_in_one_line(result: Result) -> None:
    """Of a file that cannot be used, one line says why. Raises AttackError if it does not."""
    lines = [line for line in result.stderr.splitlines() if line]
    about = [line for line in lines if not line.startswith(("Usage:", "Try ", "spe-unicorn: "))]
    if not lines or len(about) > 1:
        raise AttackError(f"exit status {result.exit_code}, said {lines}")
