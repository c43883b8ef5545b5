"""The shadow effect of synchronous counters, for cores that are to have one (Arm ARM D13.2.2).

In a shadow, the operation that overflows a counter goes by, and one of the next that make the same
event observes the overflow. None is allowed after a context synchronisation event or MSR PM, where
by then the counter has reached a threshold or has overflowed, as long as the exception stays
unmasked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.operation import Instruction, Mark
from spe_unicorn.arch.registers.system import PM
from spe_unicorn.plain import Bits64, Count, Within
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.stateful import Stateful

HIGHEST_THRESHOLD: Final = (1 << 64) - 1
"""From there one event overflows; the architecture allows no higher one."""
_ENCODING: Final = 0xFFFF
_MSR_PM: Final = 0xD501_421F
"""MSR PM, #0."""
_MSR_PM_IMMEDIATE: Final = 1 << 8


@dataclass(slots=True)
class ShadowState:
    """What is saved of a shadow."""

    unseen: dict[Annotated[int, Within(0, 32)], Count] = field(default_factory=dict)
    """By counter: how many more operations with its event do not observe its overflow."""
    precise: Bits64 = 0
    """The map of the counters that have no shadow now."""


class Shadow(Stateful[ShadowState]):
    """Decides which operations observe an overflow.

    ``lengths`` are by event how many operations with the event after the one that overflows it
    takes until one observes it; ``thresholds`` are by event the values from which there is none
    after synchronisation, by default the highest that is allowed.
    """

    def __init__(self, lengths: Mapping[int, int], thresholds: Mapping[int, int]) -> None:
        self.s = ShadowState()
        self._lengths = lengths
        self._thresholds = thresholds

    @classmethod
    def of(cls, impdef: ImpDef) -> Shadow | None:
        """That of a core; None where each overflow is observed at once."""
        lengths = {int(PMUEvent[name]): length for name, length in impdef.pmu_shadow if length}
        thresholds = {int(PMUEvent[name]): value for name, value in impdef.pmu_threshold}
        return cls(lengths, thresholds) if lengths else None

    def overflowed(self, counter: int, event: int) -> None:
        """A synchronous counter has overflowed whose flag was 0."""
        length = 0 if self.s.precise >> counter & 1 else self._lengths.get(event, 0)
        self.s.unseen[counter] = length

    def observing(self, counted: int) -> int:
        """Those of the counters ``counted`` whose overflow the operation that made the events sees.

        To be asked once for each operation.
        """
        unseen = self.s.unseen
        for counter, left in list(unseen.items()):
            if left and counted >> counter & 1:
                counted &= ~(1 << counter)
                unseen[counter] = left - 1
        return counted

    def synchronized(self, values: Sequence[int], events: Sequence[int], overflowed: int) -> None:
        """A context synchronisation event or MSR PM is complete.

        ``values`` and ``events`` are those of the counters, ``overflowed`` is PMOVSSET_EL0.
        """
        for counter, (value, event) in enumerate(zip(values, events, strict=True)):
            threshold = self._thresholds.get(event, HIGHEST_THRESHOLD)
            if value >= threshold or overflowed >> counter & 1:
                self.s.precise |= 1 << counter
                self.s.unseen.pop(counter, None)

    def masked(self) -> None:
        """The exception is masked or disabled: what was synchronised before says nothing more."""
        self.s.precise = 0


def synchronizes(instruction: Instruction) -> bool:
    """Whether an instruction is an ISB, or an MSR that writes PSTATE.PM.

    Exceptions and their returns synchronise, too; who enters and returns says so.
    """
    if instruction.mark is Mark.ISB:
        return True
    if instruction.mark is Mark.MSR:
        return instruction.word >> 5 & _ENCODING == PM.encoding.key
    return instruction.word & ~_MSR_PM_IMMEDIATE == _MSR_PM
