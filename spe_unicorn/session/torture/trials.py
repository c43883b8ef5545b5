"""Runs firmware once with each of several choices, by the workers of campaigns, and tells why.

The search that wants the runs is :mod:`spe_unicorn.session.torture.search`.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.overrides import core_text, value_text
from spe_unicorn.debug.places import place
from spe_unicorn.host.counting.late import LateMonitors
from spe_unicorn.machine.options import MachineOptions, OptionError
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.session.campaigns.ends import why_failed
from spe_unicorn.session.campaigns.jobs import Job, Jobs, Row, jobs_of
from spe_unicorn.session.campaigns.plan import Limits, Plan, PlannedRun
from spe_unicorn.session.campaigns.store import Store
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.reproduce import command_words
from spe_unicorn.session.torture.search import Choices, Finding, Search, Verdict
from spe_unicorn.spe.lateness.parts import DirectWrites
from spe_unicorn.spe.lateness.whole import Lateness
from spe_unicorn.spe.lateness.window import Window
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_MOST_TOLD: Final = 4
"""The most late writes that an explanation names."""
_MOST_LATE: Final = 1 << 16
"""The most operations at which something is late that a search looks at."""
_SLACK: Final = 1_000_000
"""Operations that a trial may take beyond four times those of the usual run."""
_CHECK_SECONDS: Final = 60


class Runners(Protocol):
    """Who runs jobs: processes of this host, or a cluster."""

    @property
    def workers(self) -> int:
        """How many jobs run at a time."""
        ...

    def run(self, jobs: list[Job], store: Store) -> Iterator[tuple[Job, Row]]:
        """Run jobs, whose files ``store`` has. Yield each with its row, in any order."""
        ...

    def close(self) -> None:
        """Run no more of them."""
        ...


class Trials:
    """Runs of the machine of ``options`` that differ in the choices of its core.

    ``runners`` run jobs, and end with :meth:`close`. ``limits`` are those of each run, ``version``
    is the package's. ``check`` is a command that is given the console on its standard input; a run
    passes if the command ends with 0. Without it a run passes if the guest ends itself with status
    0 and prints no line of TAP that begins with "not ok".
    """

    def __init__(
        self,
        options: MachineOptions,
        limits: Limits,
        runners: Runners,
        version: str,
        check: str | None,
    ) -> None:
        if not isinstance(options.core, str):
            raise OptionError("`core`: name it, so that the command that repeats a trial can")
        if options.sampling is not None:
            raise OptionError("`sampling` is from outside: the guest's own SPE would be hidden")
        self.options = options
        self.limits = limits
        self.at_once = runners.workers
        """How many trials run at a time."""
        self._core = options.core
        self._runners = runners
        self._version = version
        self._check = check

    def __call__(self, trials: Sequence[Choices]) -> Iterator[Verdict]:
        """The verdict of each trial, in their order. Equal ones run once."""
        with tempfile.TemporaryDirectory(prefix="spe-unicorn-") as folder:
            store = Store(Path(folder), lambda *_: 0)
            keys: list[str] = []
            jobs: dict[str, Job] = {}
            paths: dict[str, Path] = {}
            for choices in trials:
                plan = Plan("torture", self.limits, [PlannedRun.of(self.machine(choices))])
                made = jobs_of(plan, self._version)
                (job,) = made.runs
                keys.append(job.key)
                jobs[job.key] = job
                paths |= made.paths
            store.keep_files(Jobs(list(jobs.values()), paths))
            rows = {}
            for job, row in self._runners.run(list(jobs.values()), store):
                rows[job.key] = self._verdict(row, store.console(job.key))
            yield from (rows[key] for key in keys)

    def close(self) -> None:
        """Run no more trials."""
        self._runners.close()

    def misuses(self) -> list[str]:
        """Mistakes in how the guest programs SPE, as its usual machine shows them; the rule first.

        Nothing is late or locked in this run, so they are mistakes whatever the implementation is.
        """
        with Machine(self.options, records=False, misuse=True) as machine:
            machine.run(self.limits.max_insns, timeout=self.limits.timeout)
            return [str(misuse) for misuse in machine.misuses]

    def when(self, choices: Choices) -> list[int]:
        """The operations at which something is late in a run with ``choices``, the first ones."""
        found: set[int] = set()

        def used(operation: int) -> None:
            if len(found) < _MOST_LATE:
                found.add(operation)

        with Machine(self.machine(choices), records=False) as machine:
            for window in windows(machine):
                window.used.connect(used)
            machine.run(self.limits.max_insns, timeout=self.limits.timeout)
        return sorted(found)

    def machine(self, choices: Choices) -> MachineOptions:
        """The machine of a trial."""
        return replace(self.options, core=core_text(self._core, choices))

    def _verdict(self, row: Mapping[str, Any], console: str) -> Verdict:
        operations = int(row.get("operations") or 0)
        if row["ending"] == "timeout":  # how far it came depends on the host
            return Verdict("", operations, str(row["cause"]))
        if self._check is not None:
            done = subprocess.run(
                self._check,
                shell=True,
                input=console,
                text=True,
                capture_output=True,
                timeout=_CHECK_SECONDS,
                check=False,
            )
            what = f"the check ended with status {done.returncode}" if done.returncode else ""
            return Verdict(what, operations)
        return Verdict(why_failed(row, console), operations)

    def explain(self, finding: Finding) -> list[str]:
        """What a finding means, in lines: the rule, where the guest relies on more, what to do."""
        lines = []
        for row in finding.rows:
            lines.append(f"choice: {row.name} = {value_text(finding.choices[row.name])}")
            lines.append(f"  rule: {row.rule}")
            lines.append(f"  do: {row.safe}")
        lines += self._where(finding.choices)
        lines.append(f"  fails: {finding.verdict.what}")
        repeat = command_words(self.machine(finding.choices), ("--gdb", "1234"))
        lines.append(f"  repeat: {shlex.join(repeat)}")
        return lines

    def _where(self, choices: Choices) -> Iterator[str]:
        """Where the guest's operations were that the choices make matter, of a run with them."""
        told: deque[str] = deque(maxlen=_MOST_TOLD)
        with Machine(self.machine(choices), records=False) as machine:
            for pe, late in _lateness(machine):
                if late.writes is not None:
                    _listen(machine, pe, late.writes, told)
            for pe in machine.board.pes:
                if pe.counting.late is not None:
                    _listen(machine, pe, pe.counting.late, told)
            first = int(choices.get("late_from", 0))
            last = int(choices.get("late_until", 0))
            if last and len(machine.board.pes) == 1:
                limit = max(0, last - 1)
                machine.run(limit, timeout=self.limits.timeout)
                at = place(machine.board, machine.board.pes[0].cpu.pc)
                long = last - first
                yield (
                    f"  where: late from operation {first}, for {long} operation"
                    f"{'' if long == 1 else 's'}; it matters first at {at}, operation {last}"
                )
            machine.run(self.limits.max_insns, timeout=self.limits.timeout)
        yield from (f"  where: {line}" for line in told)


def windows(machine: Machine) -> list[Window]:
    """The times in which something of a machine's PEs may be late."""
    found = [late.window for _, late in _lateness(machine) if late.window is not None]
    counters = [part for pe in machine.board.pes for part in (pe.pmuirq, pe.counting.late)]
    return found + [part.window for part in counters if part is not None]


class UsualError(Exception):
    """Firmware that does not pass as it is. The text says why."""


def prepared_search(trials: Trials, told: Callable[[str], None] = lambda _: None) -> Search:
    """A search that has run no trial yet, but the firmware as it is.

    Raises UsualError for firmware that fails without any choice.
    """
    (usual,) = trials([{}])
    if usual.undecided:
        raise UsualError(f"takes too long: {usual.undecided}")
    if not usual.passed:
        raise UsualError(f"fails without any of this: {usual.what}")
    trials.limits = replace(trials.limits, max_insns=4 * usual.operations + _SLACK)
    core = str(trials.options.core)
    return Search(core, trials, told, when=trials.when, at_once=trials.at_once)


def searched(trials: Trials, runs: int, names: Sequence[str]) -> Search:
    """A search over ``runs`` trials by the seed of their machine, made to its end.

    Raises UsualError for firmware that fails without any choice.
    """
    search = prepared_search(trials)
    search.search(trials.options.seed, runs, names)
    return search


def _lateness(machine: Machine) -> Iterator[tuple[ProcessingElement, Lateness]]:
    """The PEs of a machine that have SPE, and what of it is late."""
    for pe in machine.board.pes:
        if isinstance(pe.unit, StatisticalProfilingUnit):
            yield pe, pe.unit.lateness


def _listen(
    machine: Machine,
    pe: ProcessingElement,
    writes: DirectWrites | LateMonitors,
    told: deque[str],
) -> None:
    def here() -> str:
        return f"{place(machine.board, pe.cpu.pc)}, operation {pe.cpu.executed}"

    def put_off(register: type[SysReg], due: int) -> None:
        late = due - pe.cpu.executed
        told.append(f"write of {register.__name__} at {here()}: {late} operations late")

    def ignored(register: type[SysReg]) -> None:
        if len(told) < _MOST_TOLD:
            told.append(f"write of {register.__name__} at {here()}: ignored, PMBLIMITR_EL1.E is 1")

    writes.put_off.connect(put_off)
    if isinstance(writes, DirectWrites):
        writes.ignored.connect(ignored)
