"""What is measured: this checkout, and beside it an older commit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from resource import struct_rusage
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = "firmware/prebuilt"
WORKER: Final = Path(__file__).resolve().parent / "worker.py"


class ProgramError(Exception):
    """A program gave a wrong result, or a command failed."""


class CommitError(Exception):
    """There is no such commit to compare with."""


@dataclass(frozen=True)
class Run:
    """One run in the measured region: iterations, CPU seconds, and samples if there are any.

    ``refused`` are blocks that could not be made to count themselves.
    """

    iterations: int
    seconds: float
    events: int = 0
    refused: int = 0

    @property
    def pace(self) -> float:
        """Seconds an iteration."""
        return self.seconds / self.iterations


@dataclass(frozen=True)
class Counts:
    """What one iteration of a program has."""

    operations: int
    blocks: int


class Side:
    """A checkout at work: a process that runs programs, and its commands. Close it in the end."""

    def __init__(self, tree: Path, commit: str | None = None, caches: Path | None = None) -> None:
        self.tree = tree
        self.commit = commit
        """None for this checkout."""
        self._environment = {**os.environ, "PYTHONPATH": str(tree)}
        if caches is not None:
            self._environment |= cache_folders(caches)
        self._worker = subprocess.Popen(
            [sys.executable, str(WORKER), str(tree / "scripts/benchmark")],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def count(self, program: str) -> Counts:
        """What one iteration of a program has. Raises ProgramError."""
        return Counts(**self._ask({"program": program}))

    def run(self, program: str, machine: dict[str, Any], iterations: int) -> Run:
        """Iterations of a program on a machine. Raises ProgramError."""
        request = {"program": program, "machine": machine, "iterations": iterations}
        return Run(**self._ask(request))

    def pieces(self, program: str, iterations: int, pieces: int) -> dict[str, list[list[float]]]:
        """CPU seconds of pieces of one run, by what counts (``counted``). Raises ProgramError."""
        found: dict[str, list[list[float]]] = self._ask(
            {"program": program, "iterations": iterations, "pieces": pieces}
        )
        return found

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(request) + "\n")
        self._worker.stdin.flush()
        line = self._worker.stdout.readline()
        if not line:
            raise ProgramError(f"{request['program']}: the process that ran it has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ProgramError(answer["error"])
        return answer

    def seconds(self, *words: str, caches: Path | None = None) -> float:
        """CPU seconds of ``spe-unicorn`` with these words. Raises ProgramError."""
        more = cache_folders(caches) if caches else {}
        command = [sys.executable, "-m", "spe_unicorn", *words]
        return cpu_seconds(command, self._environment | more)

    def close(self) -> None:
        """End its process."""
        self._worker.communicate()


def cache_folders(folder: Path) -> dict[str, str]:
    """Environment variables that have compiled code kept in a folder."""
    return {"SPE_UNICORN_CACHE_DIR": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")}


def cpu_seconds(command: list[str], environment: dict[str, str] | None = None) -> float:
    """CPU seconds of a command whose output nobody reads. Raises ProgramError if it fails."""
    used = used_by(command, environment)
    return used.ru_utime + used.ru_stime


def used_by(command: list[str], environment: dict[str, str] | None = None) -> struct_rusage:
    """What such a command has used of the host. Raises ProgramError if it fails."""
    with tempfile.TemporaryFile() as errors:
        null = subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment, stdin=null, stdout=null, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            last = said[-1] if said else f"exit status {process.returncode}"
            raise ProgramError(f"{' '.join(command[-4:])}: {last}")
    return used


@contextmanager
def sides(against: str | None) -> Iterator[list[Side]]:
    """This checkout, and the commit to compare with if there is one. Raises CommitError."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        there = [Side(ROOT)]
        try:
            if against is not None:
                tree = Path(folder, "tree")
                commit = check_out(against, tree)
                there.append(Side(tree, commit, Path(folder, "cache")))
            yield there
        finally:
            for side in there:
                side.close()


def check_out(name: str, tree: Path) -> str:
    """Put the files of a commit into a folder; its full name. Raises CommitError.

    The programs are those of this checkout: the emulators are compared, not their firmware.
    """
    asked = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if asked.returncode:
        raise CommitError(f"git knows no commit called {name!r} here")
    commit = asked.stdout.strip()
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    if not (tree / "scripts/benchmark/machines.py").exists():
        raise CommitError(f"{name} has no scripts/benchmark/machines.py to be measured by")
    for program in (ROOT / PROGRAMS).glob("bench_*.elf"):
        shutil.copy(program, tree / PROGRAMS)
    return commit
