"""perf's own tests in the guest, each from a snapshot after the boot."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from booted import Booted
from guest import Guest

from spe_unicorn.session.linux.archive import GuestError, Packages
from spe_unicorn.session.linux.starts import Limits

SPE = ("Arm SPE trace data", "Arm SPE doesn't hang")
BREAKPOINTS = ("Breakpoint overflow", "Breakpoint accounting", "Watchpoint", "Sigtrap")
COUNTING = ("Synthesize stat", "Event times", "perf stat csv", "perf stat STD", "perf stat tests")
RECORDING = ("Read backward", "record weak terms")
"""Without ``PERF_RECORD_``, which looks for a ``sleep`` with a C library; busybox's is static."""
TESTS = (*BREAKPOINTS, *COUNTING, *RECORDING)
"""Parts of names, by which ``perf test`` chooses its tests."""
ON_TWO = ("perf record sideband",)
"""Those that need a second PE; without one they fail."""
FEWER_RECORDS = ("--core", "generic,interval=8")
"""A shortest interval of 4096 operations for :data:`SPE`. One of them names no interval, records
for a second with the shortest, and has perf report what a ``dd`` left: with 256 operations, as
``generic`` has it, that is ten million records in that second, and it did not end in 27 minutes
of CPU."""
_PLACE = "lib/perf-core/tests"
SHELL = r"""#!/bin/busybox sh
case "$1" in
-*) exec /bin/busybox sh "$@" ;;
esac
exec /bin/busybox sh -c '
mktemp() {
    for last; do :; done
    case "$last" in *XXXXX) set -- "$@"X ;; esac
    command mktemp "$@"
}
eval "$(sed "
s/local -i /local /
s/taskset --cpu-list/taskset -c/
s|grep \(-E .*\) >/dev/null|grep -q \1 >/dev/null|
s|grep \(-E .*\) > /dev/null|grep -q \1 >/dev/null|" "$0")"' "$@"
"""
"""What ``/bin/bash`` is: perf's tests name it, and those of :data:`TESTS` need little more than sh.

They ask for names with five random letters, and busybox makes none of less than six. They have
``local -i`` for variables that hold numbers in any case, and ``taskset --cpu-list``; busybox knows
neither. And GNU's grep ends at the first line where it writes to /dev/null, busybox's where it is
told ``-q``: else it reads all that perf prints of a million records.
"""
_RUN = """\
sequential=-S
perf test -h 2>&1 | grep -q -e --sequential || sequential=
perf test $sequential -v "{}" 2>&1 </dev/null | tail -c 100000
"""
_CLOCK = ("--clock", "2.5G")
"""The test with forks asks for 2 MiB of records a second, as a server's core has."""
_LIMITS = Limits(30_000_000_000, 24_000.0)
"""What a test may take: operations, some three times those of the longest, and seconds of a busy
host."""
_VERDICT = re.compile(r"^ *([\d.]+): (\S.*?) *: (Ok|FAILED!|Skip.*)$", re.M)


@dataclass(frozen=True)
class PerfTest:
    """A test that ran. ``seconds`` is CPU time of the host for all that were chosen with it."""

    name: str
    verdict: str
    seconds: float
    said: tuple[str, ...]
    """Its last lines."""

    @property
    def good(self) -> bool:
        """Whether it passed, or does not apply."""
        return self.verdict == "Ok" or self.verdict.startswith("Skip")


def verdicts(console: str) -> list[tuple[str, str]]:
    """What ``perf test`` says of each test and part of one: number with name, and verdict."""
    text = console.replace("\r", "\n")
    return [(f"{number} {name}", said.strip()) for number, name, said in _VERDICT.findall(text)]


def run_tests(
    packages: Packages, chosen: Sequence[str], options: Sequence[str]
) -> Iterator[PerfTest]:
    """Run the tests. Raises GuestError where the release's perf brings none."""
    folder = packages.root / "usr" / _PLACE
    if not folder.is_dir():
        raise GuestError(f"no tests of perf's in {folder}")
    with tempfile.TemporaryDirectory(prefix="spe-unicorn-") as place:
        shell = Path(place, "bash")
        shell.write_text(SHELL)
        files = {f"{_PLACE}/{f.relative_to(folder)}": f for f in folder.rglob("*") if f.is_file()}
        guest = Guest.of(packages, files={**files, "bin/bash": shell})
        with Booted(guest, packages.root.parent / "snapshots", (*_CLOCK, *options)) as booted:
            for name in chosen:
                done = booted.run(_RUN.format(name).encode(), _LIMITS)
                said = tuple(done.console.splitlines()[-30:])
                found = verdicts(done.console) or [(name, done.why or "says nothing")]
                for title, verdict in found:
                    yield PerfTest(title, verdict, done.seconds, said)
