"""How often each PMU event has happened on one PE, whoever wants to know.

A total only ever grows. What follows from the number of executed operations costs nothing; other
totals are kept only while somebody wants them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.spe.feed import SampleEvent


@dataclass(frozen=True, slots=True)
class Source:
    """Where a total comes from, and by how much one operation moves it at most."""

    total: Callable[[], int]
    most: int = 1


class EventTotals:
    """The totals of one PE, exact while its engine stands, and where a hook has asked Python.

    CPU_CYCLES and CNT_CYCLES stand still while the PE waits in a WFI, as its clock does.
    """

    TRANSIT = ("hosted",)
    WIRING = ("aside",)

    def __init__(self, cpu: UnicornCPU, samples: EventJunction) -> None:
        self._cpu = cpu
        self._state = cpu.state
        self.hosted = 0
        """1 while the host carries out an operation, which has been counted as executed already."""
        self.aside: Callable[[], int] | None = None
        """Operations of a run that is somebody else's: they take cycles, and nothing else."""
        clock: dict[int, Source] = {
            E.CPU_CYCLES: Source(self._cycles),
            E.CNT_CYCLES: Source(lambda: cpu.rate.ticks(self._cycles())),
            E.INST_RETIRED: Source(self._retired),
            E.INST_SPEC: Source(self._retired),
        }
        sampling = {int(event): _of_sampling(samples, event) for event in SampleEvent}
        self.sources: Final[dict[int, Source]] = clock | sampling
        """By the number of the event."""

    def of(self, event: int) -> int:
        """The total of an event, 0 for one that nobody counts here."""
        source = self.sources.get(event)
        return 0 if source is None else source.total()

    def most(self, event: int) -> int:
        """By how much one operation moves a total at most; 0 for one that stands still."""
        source = self.sources.get(event)
        return 0 if source is None else source.most

    def _cycles(self) -> int:
        cycles = self._cpu.executed - self.hosted
        return cycles if self.aside is None else cycles + int(self._state.skipped)

    def _retired(self) -> int:
        aside = 0 if self.aside is None else self.aside()
        return self._cpu.executed - self.hosted - int(self._state.unretired) - aside


def _of_sampling(samples: EventJunction, event: SampleEvent) -> Source:
    return Source(lambda: samples.count_of(event))
