"""Runs that are killed at any moment; what they have written is how the whole run begins."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from random import Random

from attack import AttackError
from command import finish, start
from whole import check_beginning, chosen

RUNS = 4
MEANT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals upon which the run ends its outputs properly."""


def attack(random: Random, folder: Path) -> int:
    """Kill some runs: mostly by SIGKILL, at times by what a user or a system sends."""
    for number in range(RUNS):
        command, suffix = chosen(random, (".spe", ".data", ".jsonl"))
        file = folder / f"{number}{suffix}"
        words = (*command[:-1], "--quiet", "-o", file, command[-1])
        process = start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _wait(process, file, random)
        sent = signal.SIGKILL if random.random() < 0.7 else random.choice(MEANT)
        process.send_signal(sent)
        status, said = finish(process)
        if status not in (0, -sent, 128 + sent):
            raise AttackError(f"{command} after {sent.name}: exit status {status}, said {said!r}")
        if file.exists():
            check_beginning(command, file)
    return RUNS


def _wait(process: subprocess.Popen[bytes], file: Path, random: Random) -> None:
    """Until some has been written, or it is over; at times not at all."""
    least = random.choice((0, 1, 1, 10_000, 300_000))
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < 60:
        if least == 0 or (file.exists() and file.stat().st_size >= least):
            time.sleep(random.random() * 0.5)
            return
        time.sleep(0.01)
