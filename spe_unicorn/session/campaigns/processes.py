"""Runs jobs in other processes, and ends those that take too long or too much memory."""

from __future__ import annotations

import json
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from spe_unicorn.session.campaigns import worker
from spe_unicorn.session.campaigns.jobs import Job

_LOOK = 0.05
"""Seconds between two checks of the time and memory of a run."""
_PATIENCE = 1.0
"""Seconds that a process has to end by itself once nobody sends it jobs."""
_GRACE = 10.0
"""Seconds of CPU past its limit after which a run is killed, if it has not ended by itself."""
_WAITING = 10
"""A run that waits for something is killed once so many times that time has gone by on the wall."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class StoppedError(Exception):
    """The run was given up after a call of :meth:`Watched.stop`."""


class _Child(NamedTuple):
    """A process of :mod:`worker`, and the two pipes to it."""

    process: subprocess.Popen[str]
    requests: IO[str]
    answers: IO[str]


class Watched:
    """A process of :mod:`worker`, started by the first job. It runs one job at a time."""

    def __init__(self) -> None:
        self._child: _Child | None = None
        self._stopped = threading.Event()

    def run(self, job: Job, files: Path, folder: Path) -> None:
        """Run a job, whose results come into ``folder``. A row comes in any case, at a crash too.

        Raises StoppedError.
        """
        child = self._started()
        request = {"job": job.to_json(), "files": str(files), "folder": str(folder)}
        began = time.monotonic()
        problem: tuple[str, str] | None = None
        answer: dict[str, Any] | None = None
        try:
            child.requests.write(json.dumps(request) + "\n")
            child.requests.flush()
            forked = self._answer(child, None)
            if forked is not None:
                number = forked["process"]
                while answer is None and problem is None:
                    answer = self._answer(child, _LOOK)
                    if answer is None:
                        problem = self._too_much(job, number, time.monotonic() - began)
                if problem is not None:
                    with suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
                    answer = self._answer(child, None)
        except (BrokenPipeError, _GoneError):
            self.close()
            problem = problem or ("crashed", "the process that runs jobs went away")
        self._complete(folder, problem, answer, time.monotonic() - began)

    def stop(self) -> None:
        """Give up the current run and all later ones. May be called from any thread."""
        self._stopped.set()

    def close(self) -> None:
        """End the process and its current run."""
        child, self._child = self._child, None
        if child is not None:
            for stream in (child.requests, child.answers):
                with suppress(OSError):
                    stream.close()
            try:
                child.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:  # it compiles a function, and looks at nothing else
                with suppress(ProcessLookupError):
                    os.killpg(child.process.pid, signal.SIGKILL)
                child.process.wait()

    def _started(self) -> _Child:
        """The process, started if there is none."""
        if self._child is None or self._child.process.poll() is not None:
            self.close()
            process = subprocess.Popen(
                [sys.executable, "-m", worker.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C reaches the campaign alone, which ends the runs
            )
            # Popen has made both pipes, as it was told to
            self._child = _Child(
                process, cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
            )
        return self._child

    def _answer(self, child: _Child, seconds: float | None) -> Any:
        """The next answer, None if it does not come within ``seconds``. None waits for ever."""
        while True:
            if self._stopped.is_set():
                self.close()
                raise StoppedError
            wait = _LOOK if seconds is None else seconds
            if select.select([child.answers], [], [], wait)[0]:
                line = child.answers.readline()
                if not line:
                    raise _GoneError
                return json.loads(line)
            if seconds is not None:
                return None

    @staticmethod
    def _too_much(job: Job, number: int, waited: float) -> tuple[str, str] | None:
        """The ending and the cause of a run that has passed a limit; None if it has passed none.

        ``waited`` is how many seconds ago it began.
        """
        limits = job.limits
        if _seconds(number) > limits.timeout + _GRACE:
            return "timeout", f"the time limit of {limits.timeout:g} s was reached"
        if waited > _WAITING * (limits.timeout + _GRACE):
            return "timeout", f"it had not ended after {waited:.0f} s, most of which it waited"
        if _resident(number) > limits.memory:
            return "memory", f"more than {limits.memory} bytes of memory were resident"
        return None

    @staticmethod
    def _complete(
        folder: Path, problem: tuple[str, str] | None, answer: Any, seconds: float
    ) -> None:
        """Write the row if the run could not. Add to each row what only the host knows."""
        shutil.rmtree(folder / worker.OWN, ignore_errors=True)
        path = folder / worker.ROW
        status = 0 if answer is None else answer["status"]
        if problem is None and status:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            problem = "crashed", f"the process of the run ended by {how}"
        if problem is not None:
            for left in folder.iterdir():
                if left.name != worker.ERRORS:
                    left.unlink()
            errors = folder / worker.ERRORS
            said = errors.read_text(errors="replace") if errors.exists() else ""
            (folder / worker.REPORT).write_text(f"{problem[1]}\n{said[-(1 << 16) :]}")
            row: dict[str, Any] = {"ending": problem[0], "cause": problem[1]}
        else:
            row = json.loads(path.read_text())
        row.setdefault("host_seconds", round(seconds, 6))
        row["host"] = platform.node()
        row["host_resident"] = 0 if answer is None else answer["resident"]
        path.write_text(json.dumps(row))


class _GoneError(Exception):
    """The process that runs jobs has ended."""


def _seconds(process: int) -> float:
    """Seconds of CPU that a process has had; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS  # utime and stime of proc(5)
    except (OSError, IndexError, ValueError):
        return 0.0


def _resident(process: int) -> int:
    """Bytes of memory that a process has; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
