"""Samples that the compiled hook has noted: described all at once, for ``spe.batch``.

The descriptions are those that ``host.pe.description.OperationDescriber.sampled`` gives one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from spe_unicorn.arch.counter import Rate
from spe_unicorn.arch.operation import Family, Instruction
from spe_unicorn.compiled import array_at, entry, pointer_to, record_at, routine
from spe_unicorn.host.native.flow import FLOW_VALID
from spe_unicorn.host.native.rules import ticks
from spe_unicorn.host.native.state import SAMPLE, SAMPLE_BYTES, SAMPLE_PA, SAMPLES
from spe_unicorn.host.pe.description import condition_failed, held_by, misaligned
from spe_unicorn.spe.batch import (
    COLUMNS,
    CONDITION_FAILED,
    EL,
    HAS,
    KIND,
    MISALIGNED,
    PA,
    PC,
    PREVIOUS_EL,
    PREVIOUS_TARGET,
    SELECTED_AT,
    TARGET,
    TIME,
    VA,
    WAY,
    Kind,
)
from spe_unicorn.spe.sample import (
    HAS_DATA_SOURCE,
    HAS_PA,
    HAS_PREVIOUS_TARGET,
    HAS_TARGET,
    HAS_VA,
)

_ELEMENT, _BRANCH, _CONDITIONAL, _HOLDS = range(4)
"""Columns of traits of an instruction: bytes of an accessed element or 0, whether it is a branch,
whether it is conditional, and the set of values of NZCV with which its condition holds."""
_TRAITS: Final = 4
_UNBOUNDED: Final = 1 << 30


routine(misaligned)
routine(condition_failed)


@entry("void", "int64", "pointer", "int64", "int64", "int64", "pointer", "int64")
def _describe(
    rows: Any, traits: Any, skipped: Any, ticks_of: Any, cycles_of: Any, out: Any, count: Any
) -> None:
    """Describe ``count`` rows of the hook's ring in ``out``."""
    trait_of = array_at(traits, (_UNBOUNDED, _TRAITS), np.int64)
    sample_of = array_at(out, (count, COLUMNS), np.int64)
    for n in range(count):
        row = record_at(pointer_to(rows + n * SAMPLE_BYTES), SAMPLE)
        sample = sample_of[n]
        trait = trait_of[row.instruction]
        element, branch = trait[_ELEMENT], trait[_BRANCH]
        has = HAS_DATA_SOURCE
        way = 0
        if element != 0:
            has |= HAS_VA
            if row.level & SAMPLE_PA:
                has |= HAS_PA
            if misaligned(row.va, element):
                way |= MISALIGNED
        else:
            if condition_failed(
                branch, trait[_CONDITIONAL], trait[_HOLDS], row.pc, row.following, row.flags
            ):
                way |= CONDITION_FAILED
            if branch:
                has |= HAS_TARGET  # also of a branch that is not taken, where the core records that
        if row.flow & FLOW_VALID:
            has |= HAS_PREVIOUS_TARGET
        sample[KIND] = row.instruction
        sample[WAY] = way
        sample[PC] = row.pc
        sample[EL] = row.level & 3
        sample[TIME] = ticks(row.cycles, ticks_of, cycles_of)
        sample[VA] = row.va
        sample[PA] = row.pa
        sample[TARGET] = row.following
        sample[PREVIOUS_TARGET] = row.flow_target
        sample[PREVIOUS_EL] = row.flow & 3
        sample[HAS] = has
        sample[SELECTED_AT] = row.cycles - skipped + 1


class Noted:
    """Describes samples, whose instructions are numbers in ``instructions``, a list that grows.

    ``rate`` is that of the system counter, for the times of samples. ``modelled`` says that a core
    model notes what each sample did. Each pair of an instruction and what it did is then a kind.
    """

    DERIVED = ("_known", "_numbers", "_traits", "_instructions", "_samples", "kinds")

    def __init__(
        self, instructions: Sequence[Instruction], rate: Rate, *, modelled: bool = False
    ) -> None:
        self.kinds: list[Kind] = []
        """The kinds of samples, by number."""
        self._modelled = modelled
        self._numbers: dict[tuple[int, int], int] = {}
        self._instructions = instructions
        self._rate = rate
        self._traits = np.zeros((1024, _TRAITS), np.int64)
        self._known = 0
        self._samples = np.zeros((SAMPLES, COLUMNS), np.int64)

    def described(self, rows: Any, skipped: int) -> Any:
        """Describe rows of the hook's ring. The next call overwrites what is returned.

        ``skipped`` is the number of cycles that the PE has slept.
        """
        if self._known < len(self._instructions):
            self._learn()
        samples = self._samples[: len(rows)]
        rate = self._rate.ticks_of, self._rate.cycles_of
        table, out = self._traits.ctypes.data, samples.ctypes.data
        _describe(rows.ctypes.data, table, skipped, *rate, out, len(rows))
        if self._modelled:
            samples[:, KIND] = self._kinds_of(rows)
        return samples

    def _kinds_of(self, rows: Any) -> list[int]:
        """The number of the kind of each row."""
        found = []
        pairs = zip(rows["instruction"].tolist(), rows["did"].tolist(), strict=True)
        for pair in pairs:
            number = self._numbers.setdefault(pair, len(self.kinds))
            if number == len(self.kinds):
                self.kinds.append(Kind(self._instructions[pair[0]], pair[1]))
            found.append(number)
        return found

    def _learn(self) -> None:
        if len(self._instructions) > len(self._traits):
            more = np.zeros((len(self._instructions), _TRAITS), np.int64)
            self._traits = np.concatenate((self._traits, more))
        for number in range(self._known, len(self._instructions)):
            self._traits[number] = _traits(self._instructions[number])
            if not self._modelled:
                self.kinds.append(Kind(self._instructions[number]))
        self._known = len(self._instructions)


def _traits(instruction: Instruction) -> tuple[int, ...]:
    access = instruction.access
    return (
        0 if access is None else access.element,
        instruction.family is Family.BRANCH,
        instruction.conditional,
        held_by(instruction),
    )
