"""Tests on implementations that the architecture allows: ``spe_silicon`` and ``--spe-silicon``.

How trials are drawn and made small is for :mod:`spe_unicorn.session.torture.search`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.rules.choices import CHOICE
from spe_unicorn.cores.overrides import core_text
from spe_unicorn.pytest_plugin.evidence import plain
from spe_unicorn.pytest_plugin.machine import MachineOfTest
from spe_unicorn.pytest_plugin.settings import ElfTests
from spe_unicorn.session.torture.search import Choices, Search, Verdict, drawn, tried_names
from spe_unicorn.session.torture.trials import Trials, UsualError, searched, windows

KEY = "silicon"
"""The machine option of a marked test, which is a :class:`Trial`."""


class Trial:
    """One trial of a marked test: every machine that it makes has the same choices."""

    def __init__(self, number: int, seed: int, only: Sequence[str]) -> None:
        self.choices: Choices | None = None
        """None until they are drawn for the core of the first machine."""
        self.core = ""
        self.late: set[int] = set()
        """The operations at which something was late."""
        self._number = number
        self._seed = seed
        self._names = tried_names(only)

    def __repr__(self) -> str:
        return str(self._number)

    def core_of(self, core: object) -> str:
        """The core of a machine that was to have ``core``."""
        if not isinstance(core, str):
            raise TypeError("spe_silicon needs the name of a core")
        if self.choices is None:
            self.core = core
            self.choices = drawn(core, self._seed, self._number, self._names)
        return core_text(core, self.choices)

    def watch(self, machine: MachineOfTest) -> None:
        """Note when something is late."""
        for window in windows(machine.machine):
            window.used.connect(self.late.add)

    def smallest(self, run: Callable[[], int]) -> None:
        """Make the choices small, as long as ``run()`` fails with them. It gives its operations."""

        def verdicts(trials: Sequence[Choices]) -> Iterator[Verdict]:
            for choices in trials:
                self.choices = choices
                self.late.clear()
                try:
                    yield Verdict("", run())
                except (Exception, pytest.fail.Exception) as error:
                    yield Verdict(str(error) or type(error).__name__, 0)

        def when(choices: Choices) -> list[int]:
            list(verdicts([choices]))
            return sorted(self.late)

        first = dict(self.choices or {})
        (usual,) = verdicts([{}])
        if not usual.passed or not first:
            self.choices = {}
            return
        search = Search(self.core, verdicts, when=when)
        self.choices = search.shortest(*search.fewest(first, Verdict("it fails", 0)))[0]

    @property
    def told(self) -> str:
        """What the choices are, the rules that allow them, and what software does about it."""
        if not self.choices:
            return "it fails without any choice as well"
        lines = [core_text(self.core, self.choices)]
        for name in self.choices:
            if CHOICE[name].tried:
                lines += [f"choice: {name}", f"  rule: {CHOICE[name].rule}"]
                lines += [f"  do: {CHOICE[name].safe}"]
        return "\n".join(lines)


def trials_of(marker: pytest.Mark, node: str) -> list[Trial]:
    """The trials that ``spe_silicon(runs=50, seed=0, only=[...])`` asks for."""
    known = {"runs": 50, "seed": 0, "only": ()}
    asked = {**known, **marker.kwargs}
    try:
        if marker.args or asked.keys() != known.keys() or int(asked["runs"]) < 1:
            raise ValueError("it takes runs=N from 1 on, seed=N and only=[CHOICE, ...]")
        return [
            Trial(number, int(asked["seed"]), tuple(asked["only"]))
            for number in range(int(asked["runs"]))
        ]
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{node}: spe_silicon: {error}") from None


class SiliconError(Exception):
    """Firmware fails on some implementation; the text is all that is shown."""


class SiliconItem(pytest.Item):
    """The trials of one ELF file, as one test."""

    how: ElfTests
    runs: int

    @classmethod
    def of(cls, parent: Any, how: ElfTests, runs: int) -> SiliconItem:
        """The test as an item."""
        item: SiliconItem = cls.from_parent(parent, name="silicon")
        item.how = how
        item.runs = runs
        return item

    def runtest(self) -> None:
        """Run the trials; fail with what was found."""
        how = self.how
        if how.until is not None or how.input:
            pytest.skip("trials are of files that end by themselves and read no console")
        from spe_unicorn import __version__
        from spe_unicorn.machine.options import MachineOptions
        from spe_unicorn.session.campaigns.here import Workers
        from spe_unicorn.session.campaigns.plan import Limits

        options = MachineOptions(self.path, arguments=how.arguments, **how.machine)
        processes = 1 if hasattr(self.config, "workerinput") else os.cpu_count() or 1
        limits = Limits(how.max_insns, how.timeout)
        trials = Trials(options, limits, Workers(processes), __version__, None)
        try:
            search = searched(trials, self.runs, tried_names())
            texts = ["\n".join(trials.explain(finding)) for finding in search.findings]
            if search.undecided:
                seconds = f"{limits.timeout:g} s"
                texts.append(f"{len(search.undecided)} trials were given up after {seconds}")
        except UsualError as error:
            raise SiliconError(f"it {error}") from None
        finally:
            trials.close()
        if texts:
            raise SiliconError(plain("\n\n".join(texts)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text alone."""
        if isinstance(excinfo.value, SiliconError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it is said to be."""
        return self.path, None, f"{self.path.name}: {self.name}"
