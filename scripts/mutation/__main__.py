"""Plants faults and tells which ones no test finds. See scripts/mutants.

cosmic-ray and mutmut would too, but import, collect and run for each fault what does not see it.

Exit status: 0 whatever survives, 2 for a wrong command line, 3 if the tests fail with no fault.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from faults import Fault, faults
from trying import Fate, Tests

ROOMS = (Path("spe_unicorn/spe"), Path("spe_unicorn/arch"))
FAILS_WITHOUT_A_FAULT = 3
QUIET = ("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/mutants", description="Plant faults and tell which ones no test finds."
    )
    parser.add_argument("--each", type=int, default=6, metavar="N", help="faults in a file (6)")
    parser.add_argument("--limit", type=int, metavar="N", help="faults in all files (no limit)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the faults (0)")
    parser.add_argument("--seconds", type=int, default=20, help="CPU time of a fault (20)")
    parser.add_argument(
        "--tests",
        type=Path,
        nargs="+",
        default=[],
        metavar="PATH",
        help="tests to run (the room's own folder below tests)",
    )
    parser.add_argument("-k", metavar="WORDS", help="of these tests those that pytest's -k chooses")
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="a room or a file")
    arguments = parser.parse_args()
    for name in ("each", "limit", "seconds"):
        if (getattr(arguments, name) or 1) < 1:
            parser.error(f"--{name} is at least 1, got {getattr(arguments, name)}")
    arguments.paths = arguments.paths or list(ROOMS)
    arguments.tests = arguments.tests or _own_tests(arguments.paths)
    for path in (*arguments.paths, *arguments.tests):
        if not path.exists():
            parser.error(f"{path} is not there; paths begin at {Path.cwd()}")
    return arguments


def _own_tests(paths: list[Path]) -> list[Path]:
    """The folders that mirror the rooms; of a file, those of its room."""
    rooms = [path.parent if path.is_file() else path for path in paths]
    return list(dict.fromkeys(Path("tests", *room.parts[1:]) for room in rooms))


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def _chosen(arguments: argparse.Namespace) -> list[Fault]:
    found: list[Fault] = []
    for file in _files(arguments.paths):
        there = faults(file.resolve())
        chance = random.Random(f"{arguments.seed} {file}")
        chosen = sorted(chance.sample(range(len(there)), min(arguments.each, len(there))))
        found += [there[number] for number in chosen]
    if arguments.limit is not None and arguments.limit < len(found):
        places = random.Random(arguments.seed).sample(range(len(found)), arguments.limit)
        found = [found[number] for number in sorted(places)]
    return found


class _Trial:
    """In place of pytest's running of the tests that it has collected."""

    def __init__(self, arguments: argparse.Namespace, out: TextIO) -> None:
        self._arguments = arguments
        self._out = out
        self.status = FAILS_WITHOUT_A_FAULT

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(f"mutants: {report.nodeid} cannot be collected: {report.longrepr}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests without a fault, then with each."""
        if session.testsfailed or not session.items:
            self._say("mutants: there are no tests to run")
            return True
        chosen = _chosen(self._arguments)
        package = Path(self._arguments.paths[0].parts[0]).resolve()
        tests = Tests(session, package, self._arguments.seconds)
        self._say(f"{len(session.items)} tests, {len(chosen)} faults")
        failed = tests.measure(sorted({fault.path for fault in chosen}))
        if failed:
            self._say("mutants: the tests fail with no fault planted:", *failed)
            return True
        fates: Counter[Fate] = Counter()
        for fault in chosen:
            fate = tests.fate(fault)
            fates[fate] += 1
            if fate in (Fate.SURVIVED, Fate.NO_TEST):
                where = f"{fault.path.relative_to(Path.cwd())}:{fault.line}"
                self._say(f"{where}: {fate.value}", f"    {fault}")
        alive = fates[Fate.SURVIVED] + fates[Fate.NO_TEST]
        planted = alive + fates[Fate.FOUND]
        self._say(f"{planted} faults planted, {fates[Fate.FOUND]} found, {alive} survived")
        self.status = 0
        return True

    def _say(self, *lines: str) -> None:
        print(*lines, sep="\n", file=self._out, flush=True)


def main() -> int:
    """The command."""
    arguments = _arguments()
    with os.fdopen(os.dup(1), "w") as out:
        trial = _Trial(arguments, out)
        words = ["-k", arguments.k] if arguments.k else []
        chosen = [*QUIET, "-m", "not slow", *words, *map(str, arguments.tests)]
        pytest.main(chosen, plugins=[trial])
    return trial.status


sys.exit(main())
