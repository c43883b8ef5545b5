"""Searches what the architecture allows for an implementation on which firmware fails.

A trial is a set of choices (:mod:`spe_unicorn.arch.rules.choices`) that is drawn by a seed alone.
One that fails is made as small as it can be: fewer choices, and a shorter time in which something
is late. How a trial is run, and whether it passed, is for :class:`Search`'s caller to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.arch.rules.choices import CHOICE, ROWS, Choice, Numbers
from spe_unicorn.cores.overrides import core_text
from spe_unicorn.cores.profile import CoreError, load_core

Choices = Mapping[str, Any]
"""Values by the names of choices, as ``arch.features.ImpDef`` has them."""
Drawn = dict[str, Any]
"""The same, which a search makes."""
_LATE: Final = (
    "late_writes",
    "late_pmu_writes",
    "late_records",
    "late_bytes",
    "late_interrupt",
    "late_overflow",
    "stale_status",
    "stale_counter",
)
"""Choices that ``late_from`` and ``late_until`` narrow."""
_ORDER: Final = {row.name: number for number, row in enumerate(ROWS)}
_BATCH: Final = 8
"""Trials of each process that run before those of them that failed are made small."""
_ODDS: Final = 4
"""One in so many of the choices is another than the core's in a trial."""
_MOST_DRAWS: Final = 1000
"""After so many draws without a choice a core has none."""


class NoChoiceError(ValueError):
    """A core has no other value of any of the choices that are to be drawn."""


@dataclass(frozen=True)
class Verdict:
    """What a run came to."""

    what: str
    """Why it failed, in a sentence; empty where it passed."""
    operations: int
    """How many operations it executed."""
    undecided: str = ""
    """Why nobody knows whether it would have passed, in a sentence."""

    @property
    def passed(self) -> bool:
        """Whether it did not fail, as far as is known."""
        return not self.what


When = Callable[[Choices], Sequence[int]]
"""The operations, in order, at which something was late in a run with these choices."""
Run = Callable[[Sequence[Choices]], Iterable[Verdict]]
"""Runs the firmware once with each of several choices, several at a time. The verdicts come in the
order of the choices."""


@dataclass
class Finding:
    """Choices with which the firmware fails, and nothing of them can be left out."""

    choices: Drawn
    verdict: Verdict
    trials: list[int]
    """The numbers of the trials that failed with these choices, or more; the first found it."""

    @property
    def rows(self) -> list[Choice]:
        """What is known of the choices."""
        return [CHOICE[name] for name in self.choices if CHOICE[name].tried]


def tried_names(only: Iterable[str] = ()) -> tuple[str, ...]:
    """The choices that a search draws; ``only`` these. Raises ValueError for an unknown one."""
    wanted = tuple(only)
    names = tuple(row.name for row in ROWS if row.tried)
    for name in wanted:
        if name not in names:
            raise ValueError(f"{name}: no such choice; there are {', '.join(names)}")
    return wanted or names


def drawn(core: str, seed: int, number: int, names: Sequence[str]) -> Drawn:
    """The choices of a trial: some of ``names``, each with a value that ``core`` can have.

    Raises NoChoiceError where it has none but its own.
    """
    random = RandomStream((seed << 32) + number)
    usual = load_core(core).impdef
    choices: Drawn = {}
    for _ in range(_MOST_DRAWS):
        for name in names:
            wanted = not random.bits64() % _ODDS or len(names) == 1
            value = CHOICE[name].values.draw(random)
            other = wanted and value != getattr(usual, name)
            if other and _can_be(core, {**choices, name: value}):
                choices[name] = value
        if choices:
            return choices
    raise NoChoiceError(f"{core} has no other value of {', '.join(names)}")


def _can_be(core: str, choices: Choices) -> bool:
    """Whether a core can have these values."""
    try:
        load_core(core_text(core, choices))
    except CoreError:
        return False
    return True


class Search:
    """Runs trials, and makes those that fail small.

    ``told`` hears of each thing that was done, in a line. While a trial is made small, ``at_once``
    runs are asked for together. Without ``when`` something may be late at any operation.
    """

    def __init__(
        self,
        core: str,
        run: Run,
        told: Callable[[str], None] = lambda _: None,
        *,
        when: When | None = None,
        at_once: int = 1,
    ) -> None:
        self._core = core
        self._run = run
        self._told = told
        self._when = when
        self._at_once = at_once
        self.findings: list[Finding] = []
        self.trials = 0
        """How many have been run."""
        self.undecided: list[int] = []
        """The numbers of those of which nobody knows whether they pass."""

    def search(self, seed: int, runs: int, names: Sequence[str]) -> list[Finding]:
        """Run ``runs`` trials. Return what was found, in the order in which it was.

        Raises NoChoiceError.
        """
        trials = [drawn(self._core, seed, number, names) for number in range(runs)]
        batch = _BATCH * self._at_once
        for first in range(0, runs, batch):
            verdicts = self._run(trials[first : first + batch])
            for number, verdict in enumerate(verdicts, first):
                self.trials += 1
                if verdict.undecided:
                    self._told(f"trial {number} was given up: {verdict.undecided}")
                    self.undecided.append(number)
                elif not verdict.passed:
                    self._failed(number, trials[number], verdict)
        return self.findings

    def _failed(self, number: int, choices: Choices, verdict: Verdict) -> None:
        for finding in self.findings:
            if finding.choices.keys() - {"late_from", "late_until"} <= choices.keys():
                finding.trials.append(number)
                return
        self._told(f"trial {number} fails: {verdict.what}; {core_text('with', choices)}")
        fewest, verdict = self.fewest(dict(choices), verdict)
        shortest, verdict = self.shortest(fewest, verdict)
        self.findings.append(Finding(shortest, verdict, [number]))

    def fewest(self, choices: Drawn, verdict: Verdict) -> tuple[Drawn, Verdict]:
        """Leave out choices as long as it fails without them."""
        # most findings are of one choice: all are tried alone, at once
        if len(choices) > 1:
            alone = [{name: value} for name, value in choices.items()]
            for one, found in zip(alone, self._run(alone), strict=True):
                if not found.passed:
                    return one, found
        for name in list(choices):
            less = {other: value for other, value in choices.items() if other != name}
            if less:
                (found,) = self._run([less])
                if not found.passed:
                    choices, verdict = less, found
        return choices, verdict

    def shortest(self, choices: Drawn, verdict: Verdict) -> tuple[Drawn, Verdict]:
        """Make fewer things late, and less late, as long as it fails.

        The end is brought forward first, so what is left is the earliest deviation that fails; then
        the beginning is moved to it, and the delay is made short.
        """
        late = [name for name in _LATE if name in choices]
        if not late:
            return choices, verdict
        when = range(verdict.operations + 1) if self._when is None else self._when(choices)
        if when:
            ends = [operation + 1 for operation in when]
            choices, verdict = self._narrowed(choices, verdict, "late_until", ends)
            begins = [operation for operation in when if operation < choices["late_until"]]
            choices, verdict = self._narrowed(choices, verdict, "late_from", begins[::-1])
        for name in late:
            if isinstance(CHOICE[name].values, Numbers):
                delays = range(1, choices[name] + 1)
                choices, verdict = self._narrowed(choices, verdict, name, delays)
        return dict(sorted(choices.items(), key=lambda one: _ORDER[one[0]])), verdict

    def _narrowed(
        self, choices: Drawn, verdict: Verdict, name: str, values: Sequence[int]
    ) -> tuple[Drawn, Verdict]:
        """Find the first of ``values`` with which it fails. With the last it does, as it is now."""
        passes, fails = -1, len(values) - 1
        found = {**choices, name: values[-1]}, verdict
        while fails - passes > 1:
            parts = min(self._at_once, fails - passes - 1) + 1
            middles = [passes + (fails - passes) * part // parts for part in range(1, parts)]
            tried = [{**choices, name: values[middle]} for middle in middles]
            for middle, one, verdict in zip(middles, tried, self._run(tried), strict=True):
                if not verdict.passed:
                    fails, found = middle, (one, verdict)
                    break
                passes = middle
        return found
