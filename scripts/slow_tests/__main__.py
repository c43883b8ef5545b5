"""Runs slow tests, as many as fit into a time, in an order that goes by a word such as a commit.

With ``--without-accelerators`` it runs a tenth of the tests of the fast run in their place, while
``SPE_UNICORN_ACCELERATORS`` leaves all accelerators out.

All of them take longer than CI may. Each commit has an order of its own, so that over some commits
every test has been run. What is still running when the time is over is stopped and counts as
neither passed nor failed.

Exit status: 0 no test failed, 1 one did, 2 a wrong command line, or the tests cannot be collected.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
TOGETHER = 2
"""Slow tests that one process runs: its start takes some seconds."""
PLAIN_TOGETHER = 40
"""Tests of the fast run that one process runs."""
ORDINARY = "not slow and not accelerated"
"""The tests of the fast run, but for those which hold that an accelerator acts."""
SHARE = 10
"""Of so many tests of the fast run, one is run without accelerators."""
NO_ACCELERATORS = {"SPE_UNICORN_ACCELERATORS": "none"}


@dataclass(frozen=True)
class Outcome:
    """What became of some tests. ``status`` is pytest's, None if the time was over."""

    tests: Sequence[str]
    status: int | None
    output: str


class CollectionError(Exception):
    """The tests cannot be collected; the message is what pytest said."""


def collected(words: Sequence[str], *, slow: bool = True) -> list[str]:
    """The names of the tests of this folder, or of the files that ``words`` name.

    Those that are ``slow``, or those of the fast run.
    """
    command = [*PYTEST, "--collect-only", "-m", "slow" if slow else ORDINARY, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CollectionError(done.stdout + done.stderr)
    return [line for line in done.stdout.splitlines() if "::" in line]


def in_order(tests: Sequence[str], word: str) -> list[str]:
    """The tests in the order of a word: the same for the same word, another for another."""
    return sorted(tests, key=lambda test: hashlib.sha256(f"{word} {test}".encode()).digest())


def groups(tests: Sequence[str], together: int = TOGETHER) -> Iterator[list[str]]:
    """The tests, in lists of those that one process runs."""
    for at in range(0, len(tests), together):
        yield list(tests[at : at + together])


def run(
    tests: Sequence[str], deadline: float, settings: Mapping[str, str] | None = None
) -> Outcome | None:
    """Run some tests until one fails or the time is over; None if it was over before.

    ``settings`` are added to the environment.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    process = subprocess.Popen(
        [*PYTEST, "-x", *tests],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, **(settings or {})},
    )
    try:
        output, _ = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return Outcome(tests, None, output)
    return Outcome(tests, process.returncode, output)


def report(outcomes: Sequence[Outcome], number: int, what: str = "slow tests") -> int:
    """Print what failed, and how many tests ran of ``number``; the exit status."""
    failed = [outcome for outcome in outcomes if outcome.status]
    for outcome in failed:
        print(outcome.output)
        print(f"repeat with: pytest {' '.join(map(repr, outcome.tests))}")
    ended = sum(len(outcome.tests) for outcome in outcomes if outcome.status == 0)
    cut = sum(len(outcome.tests) for outcome in outcomes if outcome.status is None)
    print(f"{what}: {ended} of {number} ran and passed, {cut} were stopped by the time")
    if failed:
        print(f"{what}: failures in {len(failed)} of {len(outcomes)} processes, see above")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/slow-tests", description="Run slow tests, as many as fit into a time."
    )
    parser.add_argument("--minutes", type=float, required=True, help="how long")
    parser.add_argument(
        "--order", default="", metavar="WORD", help="what the order goes by, such as a commit"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes at a time (one a processor)"
    )
    parser.add_argument(
        "--without-accelerators",
        action="store_true",
        help="not slow tests, but a tenth of the others, without accelerators",
    )
    parser.add_argument("pytest", nargs="*", help="files or options for pytest's collection")
    return parser.parse_args()


def main() -> int:
    """The command."""
    arguments = _arguments()
    deadline = time.monotonic() + 60 * arguments.minutes
    plain = arguments.without_accelerators
    try:
        tests = in_order(collected(arguments.pytest, slow=not plain), arguments.order)
    except CollectionError as error:
        print(error)
        return 2
    together, settings, what = TOGETHER, {}, "slow tests"
    if plain:
        tests = tests[: -(-len(tests) // SHARE)]
        together, settings, what = PLAIN_TOGETHER, NO_ACCELERATORS, "without accelerators"
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(
            pool.map(lambda group: run(group, deadline, settings), groups(tests, together))
        )
    return report([outcome for outcome in outcomes if outcome is not None], len(tests), what)


if __name__ == "__main__":
    sys.exit(main())
