"""ELF files as tests: each is run once, by whoever comes first, and its lines become tests."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.pytest_plugin import tap
from spe_unicorn.pytest_plugin.evidence import plain
from spe_unicorn.pytest_plugin.settings import ElfTests

COVERED = ".covered"
"""The suffix of a file with the coverage of a run, or of a process of pytest."""
_CONSOLE: int = 1 << 20
"""Characters of console output that are kept of a run, the last ones."""


@dataclass(frozen=True)
class Run:
    """What running one ELF file came to. ``problem`` is a sentence where it could not be run."""

    ending: str = ""
    exit_status: int | None = None
    console: str = ""
    cause: str = ""
    places: str = ""
    command: str = ""
    problem: str = ""
    until: str | None = None
    """The POINT at which it was to end."""

    @property
    def how_it_ended(self) -> str:
        """A sentence without its end."""
        ended = self.cause or f"the run ended by {self.ending}"
        if self.ending == "exit":
            ended = f"the guest ended with status {self.exit_status}"
        missed = self.until is not None and self.ending != "until"
        return f"{ended}, and {self.until} was not reached" if missed else ended

    @property
    def came_to_its_end(self) -> bool:
        """Whether it ended where it was to end, with whatever status."""
        return self.ending == ("exit" if self.until is None else "until")


def run_elf(path: Path, how: ElfTests, covered: Path | None = None) -> Run:
    """Run a file to its end, or to its limits.

    ``covered`` is a file for the coverage of the run, None for none.
    """
    from spe_unicorn.compiled import interruptible
    from spe_unicorn.debug.whereabouts import whereabouts_text
    from spe_unicorn.machine.options import MachineOptions
    from spe_unicorn.output.coverage.json_file import to_json
    from spe_unicorn.session.machine import Machine
    from spe_unicorn.session.reproduce import command_words, piped

    try:
        options = MachineOptions(path, arguments=how.arguments, **how.machine)
        until = () if how.until is None else ("--until", how.until)
        words = command_words(options, (*until, "--max-insns", str(how.max_insns)))
        command = piped(how.input.encode(), shlex.join(words))
        with interruptible():
            machine = Machine(options, records=False)
        with machine:
            if covered is not None:
                machine.cover()
            machine.as_one_console().type(how.input)
            outcome = machine.run(how.max_insns, how.until, how.timeout, time.process_time)
            console = machine.console.text.replace("\r\n", "\n")[-_CONSOLE:]
            if covered is not None:
                covered.write_text(to_json(machine.coverage))
    except (ValueError, OSError) as error:
        return Run(problem=str(error))
    places = whereabouts_text(outcome.places)
    cause = outcome.cause or ""
    return Run(
        outcome.ending, outcome.exit_status, console, cause, places, command, until=how.until
    )


class Results:
    """The runs of this test session, shared by its processes through a folder."""

    def __init__(self, folder: Path, *, covers: bool = False) -> None:
        self._folder = folder
        self._covers = covers
        """Whether each run leaves its coverage, too."""
        folder.mkdir(parents=True, exist_ok=True)

    def of(self, path: Path, how: ElfTests) -> Run:
        """The run of a file: made now, or by another process before."""
        key = hashlib.sha256(repr((str(path), how)).encode()).hexdigest()[:32]
        kept = self._folder / f"{key}.json"
        with _locked(self._folder / f"{key}.lock"):
            if kept.exists():
                return Run(**json.loads(kept.read_text()))
            covered = kept.with_suffix(COVERED) if self._covers else None
            run = run_elf(path, how, covered)
            new = kept.with_suffix(".new")
            new.write_text(json.dumps(asdict(run)))
            new.replace(kept)
            return run


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class ElfTestError(Exception):
    """A test of an ELF file failed; the text is all that is shown."""


class ElfFile(pytest.File):
    """One ELF file: a test for each line of TAP, else one by its exit status."""

    how: ElfTests
    results: Results
    silicon: int = 0
    """How many implementations it is tried on besides."""

    @classmethod
    def of(cls, parent: Any, path: Path, how: ElfTests, results: Results) -> ElfFile:
        """The file as a collector."""
        file: ElfFile = cls.from_parent(parent, path=path)
        file.how = how
        file.results = results
        return file

    def collect(self) -> Iterator[pytest.Item]:
        """Run the file, or read what another process saw, and make its tests."""
        if not self.how.seeds:
            yield from self._tests(self.how)
        for seed in self.how.seeds:
            for item in self._tests(self.how.with_seed(seed)):
                yield ElfItem.of(self, f"{item.name}[seed={seed}]", item.run, item.test)
        if self.silicon:
            from spe_unicorn.pytest_plugin.silicon import SiliconItem

            yield SiliconItem.of(self, self.how, self.silicon)

    def _tests(self, how: ElfTests) -> Iterator[ElfItem]:
        """The tests of one run."""
        run = self.results.of(self.path, how)
        report = tap.parse(run.console)
        if run.problem or not report.speaks:
            yield ElfItem.of(self, "exit status", run, _plain(run))
            return
        if report.skipped is not None:
            skipped = tap.Test(0, "", "skipped", report.skipped)
            yield ElfItem.of(self, "plan", run, skipped)
            return
        names: set[str] = set()
        for place, test in enumerate(report.tests, 1):
            name = test.name if test.name not in names else f"{test.name} (line {place})"
            names.add(name)
            yield ElfItem.of(self, name, run, test)
        yield from self._besides(run, report)

    def _besides(self, run: Run, report: tap.Report) -> Iterator[ElfItem]:
        """Tests for what no line says: a plan that was not kept, an end that is none."""
        bad = list(report.problems)
        if report.bailed_out is not None:
            bad.append(f"Bail out! {report.bailed_out}")
        failed = any(test.verdict == "failed" for test in report.tests)
        if not run.came_to_its_end or (run.exit_status and not failed):
            bad.append(run.how_it_ended)
        if bad and report.half:
            bad.append(f"the last line is not whole: {report.half!r}")
        if bad:
            yield ElfItem.of(self, "to its end", run, tap.Test(0, "; ".join(bad), "failed"))


def _plain(run: Run) -> tap.Test:
    if run.problem:
        return tap.Test(0, run.problem, "failed")
    passed = run.came_to_its_end and not run.exit_status
    return tap.Test(0, run.how_it_ended, "passed" if passed else "failed")


class ElfItem(pytest.Item):
    """One test of an ELF file, which has been run already."""

    run: Run
    test: tap.Test

    @classmethod
    def of(cls, parent: ElfFile, name: str, run: Run, test: tap.Test) -> ElfItem:
        """The test as an item."""
        item: ElfItem = cls.from_parent(parent, name=plain(name))
        item.run = run
        item.test = test
        return item

    def runtest(self) -> None:
        """Say what the line says."""
        test = self.test
        if test.verdict == "skipped":
            pytest.skip(plain(test.reason) or "skipped by the firmware")
        if test.verdict == "todo":
            pytest.xfail(plain(test.reason) or "to do")
        if test.verdict == "todo-passed":
            raise ElfTestError(f"it passes, though it is still to do: {plain(test.reason)}")
        if test.verdict == "failed":
            raise ElfTestError(self._why())

    def _why(self) -> str:
        run, test = self.run, self.test
        lines = [f"not ok: {test.description}" if test.number else test.description]
        lines += test.diagnostics
        if run.command:
            lines += ["", f"to see it again: {run.command}"]
        if run.ending not in ("exit", "until") and run.places:
            lines += ["", run.places.rstrip()]
        if not test.diagnostics and run.console:
            lines += ["", "console:", *run.console.splitlines()[-20:]]
        return plain("\n".join(lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text alone: no traceback of ours explains a firmware's failure."""
        if isinstance(excinfo.value, ElfTestError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it is said to be."""
        return self.path, None, f"{self.path.name}: {self.name}"
