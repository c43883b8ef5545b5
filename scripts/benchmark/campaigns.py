"""Figures of campaigns: runs a minute on one and two cores, what a run costs, what is moved.

Runs a minute are by the clock on the wall, so the host has to be quiet. The rest is CPU time, and
bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from statistics import quantiles

from commands import PREBUILT, Finding
from sides import ROOT, ProgramError, cpu_seconds

NAME = "campaign"
_FEW, _MANY = 8, 128
_CORES = (1, 2)
_PLAN = """
[limits]
max_insns = 20_000
[[runs]]
firmware = ["bench_hash.elf", "hello.elf"]
interval = [50, 500]
seed = "0-{last}"
"""
"""Short runs, a quarter of them each with many records, few, and two times next to none."""
_EMPTY = '[[runs]]\nfirmware = "hello.elf"\nseed = "1-{runs}"\n'
"""Runs of some hundred operations: all that they take is what a run costs."""


def why_not() -> str | None:
    """What has to be installed for this, in a sentence; None if it is there."""
    lacking = [name for name in ("pyarrow", "distributed") if find_spec(name) is None]
    if not lacking:
        return None
    return f"no {' and no '.join(lacking)} here; scripts/test installs all, or the extra dask"


def campaign_findings(rounds: int, tell: Callable[[str], None]) -> list[Finding]:
    """Measure them. Raises ProgramError."""
    cores = [n for n in _CORES if n <= len(os.sched_getaffinity(0))]
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for program in ("bench_hash.elf", "hello.elf"):
            shutil.copy(PREBUILT / program, folder)
        plan = folder / "plan.toml"
        plan.write_text(_PLAN.format(last=_MANY // 4 - 1))
        tell(f"{NAME}: what a run costs")
        found = [_cost(folder, min(rounds, 3))]
        for count in cores:
            tell(f"{NAME}: {_MANY} runs on {count}")
            paces = [_MANY / _clocked(plan, folder, count) * 60 for _ in range(min(rounds, 3))]
            said = f"campaign of {_MANY} runs, {count} at a time"
            found.append(_finding(f"{NAME}-{count}", said, "runs/min", paces))
        tell(f"{NAME}: on Dask")
        to, back = _moved(plan, folder)
        each = 1 << 10
        found.append(_plain(f"{NAME}-files", "files to 2 workers of Dask", "KiB", to / each))
        came = back / each / _MANY
        found.append(_plain(f"{NAME}-results", "results from workers, a run", "KiB", came))
        return found


def _plain(name: str, title: str, unit: str, value: float) -> Finding:
    return Finding(name, title, unit, value, None, False)


def _finding(name: str, title: str, unit: str, values: list[float]) -> Finding:
    apart = (max(values) - min(values)) / min(values) / 2
    return Finding(name, title, unit, quantiles([*values, *values])[1], apart, False)


def _command(plan: Path, out: Path, *more: str) -> list[str]:
    shutil.rmtree(out, ignore_errors=True)
    return [sys.executable, "-m", "spe_unicorn", "campaign", str(plan), "-o", str(out), *more]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _cost(folder: Path, rounds: int) -> Finding:
    """CPU time that a run takes besides its operations, in ms."""

    def seconds(runs: int) -> float:
        plan = folder / "empty.toml"
        plan.write_text(_EMPTY.format(runs=runs))
        return cpu_seconds(_command(plan, folder / "empty", "-j", "1"), _environment())

    costs = [(seconds(_MANY) - seconds(_FEW)) / (_MANY - _FEW) * 1000 for _ in range(rounds)]
    return _finding(f"{NAME}-run", "a run besides its operations", "ms", costs)


def _clocked(plan: Path, folder: Path, cores: int) -> float:
    """Seconds of the clock on the wall for the plan, on so many cores."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(allowed)[:cores]))
    try:
        began = time.monotonic()
        cpu_seconds(_command(plan, folder / "out", "-j", str(cores)), _environment())
        return time.monotonic() - began
    finally:
        os.sched_setaffinity(0, allowed)


def _moved(plan: Path, folder: Path) -> tuple[int, int]:
    """Bytes that went to two workers of Dask for the plan, and that came back."""
    with _cluster(folder) as address:
        done = subprocess.run(
            _command(plan, folder / "dask", "--scheduler", address),
            env=_environment(),
            capture_output=True,
            text=True,
        )
    said = re.search(r"(\d+) bytes went to workers, (\d+) came back", done.stdout + done.stderr)
    if done.returncode or said is None:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ProgramError(f"campaign on Dask: {last}")
    return int(said[1]), int(said[2])


@contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    """A scheduler of Dask and two workers; the scheduler's address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    worker = ("--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        null = subprocess.DEVNULL
        started.append(
            subprocess.Popen(
                command, env=_environment(), stdout=null, stderr=null, start_new_session=True
            )
        )

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", str(port))
        for _ in range(2):
            start("worker", address, *worker)
        yield address
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
