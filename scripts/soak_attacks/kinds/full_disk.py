"""Outputs that take no more bytes: the run says so, and what was written can be read."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path
from random import Random

from attack import AttackError
from command import finish, start
from whole import check_beginning, chosen, records_of

RUNS = 3
FORMATS = {".spe": "raw", ".data": "perf", ".jsonl": "jsonl"}
OPTIONS = ("--json", "--console", "--trace", "-o")


def attack(random: Random, folder: Path) -> int:
    """Some runs whose files may only grow so far, or that write to a full device."""
    for number in range(RUNS):
        if random.random() < 0.3:
            _full_device(random, folder)
        else:
            _short_files(random, folder, number)
    return RUNS


def _full_device(random: Random, folder: Path) -> None:
    """/dev/full takes nothing at all."""
    command, suffix = chosen(random, list(FORMATS))
    option = random.choice(OPTIONS)
    status, said = _written_to(command, suffix, option, "/dev/full")
    if status == 0 and "full" not in said and option in ("--console", "--trace"):
        there = folder / "output"
        _written_to(command, suffix, option, str(there))
        if there.stat().st_size == 0:
            return
    if status == 0 or "No space left on device" not in said:
        raise AttackError(f"{option} to /dev/full of {command}: status {status}, said {said!r}")


def _written_to(command: tuple[str, ...], suffix: str, option: str, file: str) -> tuple[int, str]:
    """Run a command, an output of which goes to ``file``: its status and its standard error."""
    outputs = {
        "--json": ["--json", file],
        "--console": ["--console", f"file:{file}"],
        "--trace": ["--trace", f"sysreg,exception:{file}"],
        "-o": ["-o", file, "--format", FORMATS[suffix]],
    }
    words = [*command[:-1], "--quiet", *outputs[option]]
    if option != "-o" and command[0] == "record":
        words += ["-o", "/dev/null", "--format", "raw"]
    process = start(*words, command[-1], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return finish(process)


def _short_files(random: Random, folder: Path, number: int) -> None:
    """No file may have more than so many bytes, as on a disk that is nearly full."""
    command, suffix = chosen(random, list(FORMATS))
    file, most = folder / f"{number}{suffix}", random.choice((1, 100, 5000, 70_000, 400_000))
    words = (*command[:-1], "--quiet", "-o", file, command[-1])
    records_of(command, suffix)  # so that no compiled code is to be cached under the limit
    process = start(
        *words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # Python would leave bytecode under the limit cut short, and fail at it ever after
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    status, said = finish(process)
    size = file.stat().st_size if file.exists() else 0
    if size > most:
        raise AttackError(f"{size} bytes in a file that may have {most}")
    if size == most and status == 0:
        raise AttackError(f"{command}: the file is cut at {most} bytes, and the run says nothing")
    if status and "File too large" not in said:
        raise AttackError(f"{command}, {most} bytes: exit status {status}, said {said!r}")
    check_beginning(command, file)
