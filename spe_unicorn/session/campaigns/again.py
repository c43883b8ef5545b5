"""The shell command that repeats a run of a campaign."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from spe_unicorn.session.campaigns.jobs import FileOf, Job
from spe_unicorn.session.reproduce import command_words, piped


def again(job: Job, kept: Callable[[FileOf], Path]) -> str:
    """The command, with files where ``kept`` says that the campaign keeps them.

    What the run may change is copied into a folder of its own first, in the working folder.
    """
    folder = Path("again") / job.key
    before: list[list[str]] = []

    def own_copy(path: Path | None, name: str, is_program: bool) -> Path:
        copy = folder / name
        if path is None:
            before.append(["install", "-d", str(copy)])
        else:
            mode = "755" if is_program else "644"
            before.append(["install", "-D", "-m", mode, str(path), str(copy)])
        return copy

    options = job.machine(kept, own_copy)
    if before:
        before = [
            ["rm", "-rf", str(folder)],
            *before,
            ["find", str(folder), "-exec", "touch", "-d", "@0", "{}", "+"],
        ]
    more = () if options.sampling is None else ("-o", "records.spe")
    words = command_words(options, (*more, "--max-insns", str(job.limits.max_insns)))
    typed = piped(job.input.encode(), shlex.join(words))
    return " && ".join([*map(shlex.join, before), typed])


def looked_at(job: Job, kept: Callable[[FileOf], Path], snapshot: Path) -> str:
    """The command that has a debugger go on from a snapshot of the run."""
    more = ("--restore", str(snapshot), "--gdb", "1234")
    return shlex.join(command_words(job.machine(kept), more))
