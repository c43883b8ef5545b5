"""Attempts of many kinds for a while: in processes under a watchdog, counted and reported."""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attack import ASLEEP, KINDS, Attack

MEMORY = 3 << 30
"""Resident bytes of a process above which an attempt has let it grow."""
OLD = 1 << 30
"""Resident bytes above which a process is replaced between two attempts: memory is fragmented."""
SHOWN, NAMED = 5, 50
"""Failures of a kind that are shown in full, and those of which one line is printed."""
_WORKER = Path(__file__).with_name("worker.py")
_LOOK = 0.5
"""Seconds between two looks at clocks and memory."""
_SESSION, _TIMES = 3, slice(11, 15)
"""Of the words of /proc/PID/stat after the name."""
_AT_LEAST = 0.01
"""Seconds that an attempt is taken for while it has not ended."""


@dataclass
class Tally:
    """What came of one kind."""

    begun: int = 0
    attempts: int = 0
    """Of those that were begun, the ones that came to an end, or were ended for being too long."""
    tried: int = 0
    seconds: float = 0.0
    failed: list[int] = field(default_factory=list)
    """The seeds of what failed."""
    what: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How often each last line of a failure was seen, and with which seed first."""


class _Worker:
    """A process that makes attempts, one at a time."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(prefix="soak-")
        os.unlink(name)
        self._errors = os.fdopen(descriptor, "w+b")
        self.process = subprocess.Popen(
            [sys.executable, str(_WORKER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self.attack: Attack | None = None
        self.seed = 0
        self.began = 0.0
        self._busy_before = 0.0

    def begin(self, attack: Attack, seed: int) -> None:
        """Start an attempt."""
        assert self.process.stdin is not None
        self._errors.seek(0)
        self._errors.truncate()
        self.attack, self.seed, self.began = attack, seed, time.monotonic()
        self._busy_before = self._busy()
        self.process.stdin.write(f"{attack.name} {seed}\n".encode())
        self.process.stdin.flush()

    @property
    def seconds(self) -> float:
        """How long the attempt has been going on."""
        return time.monotonic() - self.began

    @property
    def busy(self) -> float:
        """How long it has had a processor: a busy machine makes it no longer."""
        return self._busy() - self._busy_before

    def _busy(self) -> float:
        """Processor time of the processes of its session, with those that have ended."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(words[_SESSION]) == self.process.pid:
                ticks += sum(map(int, words[_TIMES]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def answer(self) -> dict[str, object]:
        """What came of the attempt, once its line is there; a process that died says so."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        status = self.process.wait()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        what = f"the process died: {how}"
        return {"failed": f"{self.said()}\n{what}", "what": what}

    def resident(self) -> int:
        """Bytes of memory that the process holds."""
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def said(self) -> str:
        """The last lines of its standard error."""
        self._errors.seek(0)
        return "\n".join(self._errors.read().decode(errors="replace").splitlines()[-30:])

    def kill(self) -> None:
        """End the process and all that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self._errors):
            assert pipe is not None
            pipe.close()


def campaign(
    kinds: Sequence[Attack],
    seconds: float,
    first_seed: int,
    jobs: int,
    folder: Path = KINDS,
    *,
    each: float = math.inf,
) -> int:
    """Attack for so many seconds; the exit status: 0 nothing failed, 1 something did.

    Each kind gets about the same time. The n-th attempt of a kind has the seed ``first_seed + n``,
    whatever else is attacked. It ends before its time once ``each`` kind has had so many attempts.
    """
    tallies = {attack.name: Tally() for attack in kinds}
    deadline = time.monotonic() + seconds
    selector = selectors.DefaultSelector()
    try:
        for _ in range(jobs):
            _employ(selector, folder)
        attempts = _fairly(kinds, tallies, first_seed)
        while min(tally.attempts for tally in tallies.values()) < each and _attack(
            deadline, selector, attempts, tallies, folder
        ):
            pass
    finally:
        for worker in _workers(selector):
            worker.kill()
        selector.close()
    return report(tallies)


def _fairly(
    kinds: Sequence[Attack], tallies: dict[str, Tally], first_seed: int
) -> Iterator[tuple[Attack, int]]:
    """Attempts without end: next is the kind that had the least time so far."""
    while True:
        attack = min(kinds, key=lambda a: (tallies[a.name].seconds, tallies[a.name].begun))
        tally = tallies[attack.name]
        tally.begun += 1
        tally.seconds += _AT_LEAST  # the next process takes another kind meanwhile
        yield attack, first_seed + tally.begun - 1


def _employ(selector: selectors.BaseSelector, folder: Path) -> _Worker:
    worker = _Worker(folder)
    assert worker.process.stdout is not None
    selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
    return worker


def _dismiss(selector: selectors.BaseSelector, worker: _Worker) -> None:
    assert worker.process.stdout is not None
    selector.unregister(worker.process.stdout)
    worker.kill()


def _workers(selector: selectors.BaseSelector) -> list[_Worker]:
    return [key.data for key in selector.get_map().values()]


def _attack(
    deadline: float,
    selector: selectors.BaseSelector,
    attempts: Iterator[tuple[Attack, int]],
    tallies: dict[str, Tally],
    folder: Path,
) -> bool:
    """Give each process something to do, and look at all of them once; whether time is left."""
    for worker in _workers(selector):
        if worker.attack is None:
            worker.begin(*next(attempts))
    left = deadline - time.monotonic()
    if left <= 0:
        return False
    for key, _ in selector.select(min(left, _LOOK)):
        worker = key.data
        _note(tallies, worker, worker.answer())
        if worker.process.poll() is not None or worker.resident() > OLD:
            _dismiss(selector, worker)
            _employ(selector, folder)
    for worker in _workers(selector):
        trouble = _trouble(worker)
        if trouble:
            _note(tallies, worker, {"failed": f"{worker.said()}\n{trouble}", "what": trouble})
            _dismiss(selector, worker)
            _employ(selector, folder)
    return True


def _trouble(worker: _Worker) -> str:
    if worker.attack is None:
        return ""
    limit = worker.attack.limit
    if worker.seconds > limit and worker.busy > limit:
        return f"no end after {limit:g} s of a processor"
    if worker.seconds > ASLEEP * limit:
        return f"no end after {ASLEEP * limit:g} s"
    if worker.resident() > MEMORY:
        return f"the process grew beyond {MEMORY >> 20} MiB"
    return ""


def _note(tallies: dict[str, Tally], worker: _Worker, answer: dict[str, object]) -> None:
    attack, seed = worker.attack, worker.seed
    assert attack is not None
    worker.attack = None
    tally = tallies[attack.name]
    tally.attempts += 1
    tally.seconds += worker.seconds
    if "tried" in answer:
        assert isinstance(answer["tried"], int)
        tally.tried += answer["tried"]
        return
    tally.failed.append(seed)
    what = str(answer["what"])
    number, first = tally.what.get(what, (0, seed))
    tally.what[what] = number + 1, first
    if len(tally.failed) <= SHOWN:
        print("\n".join(f"    {line}" for line in str(answer["failed"]).strip().splitlines()))
    if len(tally.failed) <= NAMED:
        print(f"FAILED: {_again(attack.name, seed)}  # {what[:200]}", flush=True)


def _again(name: str, seed: int) -> str:
    return f"scripts/soak --repeat {name} {seed}"


def report(tallies: dict[str, Tally]) -> int:
    """Print what was tried and what failed, kind by kind; the exit status."""
    width = max(map(len, tallies))
    print(f"{'attack':{width}}  attempts    tried  failed  seconds")
    for name, tally in tallies.items():
        counts = f"{tally.attempts:8}  {tally.tried:7}  {len(tally.failed):6}  {tally.seconds:7.0f}"
        print(f"{name:{width}}  {counts}")
    failed = [name for name, tally in tallies.items() if tally.failed]
    for name in failed:
        for what, (number, seed) in tallies[name].what.items():
            print(f"{name}: {number} times {what[:300]}")
            print(f"    {_again(name, seed)}")
    tried = sum(tally.tried for tally in tallies.values())
    wrong = sum(len(tally.failed) for tally in tallies.values())
    attempts = sum(tally.attempts for tally in tallies.values())
    print(f"soak: {attempts} attempts, {tried} things tried, {wrong} failed")
    return 1 if failed else 0
