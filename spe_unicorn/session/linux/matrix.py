"""Many commands in a guest, each from the same snapshot, several at a time."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.starts import RUNNING, Command, Limits, Point, Result, Starts

TESTS = "/tests"
"""Where the guest has the programs of a folder."""


def read_tests(path: Path) -> list[Command]:
    """The tests of a file, a command on each line, or of a folder, a program each.

    Raises GuestError for a line that is no command, and where there is no test.
    """
    if path.is_dir():
        files = [f for f in sorted(path.iterdir()) if f.is_file() and os.access(f, os.X_OK)]
        found = [Command(f.name, (f"{TESTS}/{f.name}",)) for f in files]
        if not found:
            raise GuestError(f"{path} has no file that can be executed")
        return found
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise GuestError(f"{path}:{number}: {error}") from error
        if words:
            found.append(Command(shlex.join(words), tuple(words)))
    if not found:
        raise GuestError(f"{path} has no line with a command")
    return found


def run_all(
    point: Point, tests: Sequence[Command], limits: Limits, processes: int
) -> Iterator[Result]:
    """Run tests, ``processes`` at a time; their results in the order of the tests.

    Raises GuestError for a command that is too long, before any runs, and if a process dies.
    """
    for test in tests:
        point.typed(test)
    pool = ProcessPoolExecutor(
        max(1, min(processes, len(tests))),
        mp_context=get_context("spawn"),
        initializer=partial(_begin, point),
    )
    whole = False
    try:
        yield from pool.map(partial(_run, limits), range(len(tests)), tests)
        whole = True
    except BrokenProcessPool as error:
        raise GuestError("a process that runs tests has died") from error
    finally:
        if not whole:
            for process in list(pool._processes.values()):
                process.kill()
        pool.shutdown(cancel_futures=True)
        for folder in () if point.out is None else point.out.glob(f"{RUNNING}*"):
            shutil.rmtree(folder, ignore_errors=True)


_mine: list[Starts] = []
"""The guest of this process, once it has begun."""


def _begin(point: Point) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process ends it
    _mine.append(Starts(point))


def _run(limits: Limits, number: int, test: Command) -> Result:
    return _mine[0].run(number, test, limits)
