"""The outcome of a run: why it ended, where, and what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spe_unicorn.debug.misuse_found import Misuse
from spe_unicorn.debug.whereabouts import Whereabouts
from spe_unicorn.host.engine.known import Counted
from spe_unicorn.session.point import Place
from spe_unicorn.spe.sampler import Statistics

Ending = Literal["exit", "until", "limit", "timeout", "interrupted", "asleep", "failed"]
"""Why a run ended.

exit: the guest ended itself. until: a point was reached. limit: so many operations were executed.
timeout: so much time of the host went by. interrupted: somebody stopped it. asleep: all PEs wait
for an interrupt that nothing can raise. failed: the guest did what cannot go on.
"""


@dataclass(frozen=True)
class Share:
    """What was counted of one PE since reset. ``pmu_events`` are counts by the events' numbers."""

    operations: int
    statistics: Statistics
    pmu_events: Mapping[int, int]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, where, and what was counted of each PE since reset.

    ``cause`` is a sentence, None if the guest ended itself. ``running`` is the number of the PE
    that ran last. ``places`` and ``shares`` are by PE. ``seconds`` of the host and ``executed``
    operations of all PEs are those of this run alone. The time in which machine code of ours was
    compiled or loaded is not among the seconds.
    """

    ending: Ending
    cause: str | None
    exit_status: int | None
    """The status with which the guest ended, 0 to 255; None if it has not ended."""
    running: int
    places: tuple[Whereabouts, ...]
    seconds: float
    shares: tuple[Share, ...]
    executed: int
    misuses: tuple[Misuse, ...] | None = None
    """None if the machine does not look for mistakes."""
    reached: Place | None = None
    """The point that was reached, where the run ended by ``until``."""
    inline: Counted | None = field(default=None, compare=False)
    """Whether blocks counted themselves, and how many. The host decides that, not the guest."""

    @property
    def pc(self) -> int:
        """The PC of the PE that ran last; the address of the WFI if it waits in one."""
        return self.places[self.running].place.pc

    @property
    def symbol(self) -> str | None:
        """The symbol at :attr:`pc`, as ``name+0x10``; None without a symbol."""
        return self.places[self.running].place.symbol

    @property
    def operations(self) -> int:
        """Operations of all PEs since reset."""
        return sum(share.operations for share in self.shares)

    @property
    def statistics(self) -> Statistics:
        """The statistics of sampling of all PEs together."""
        return sum((share.statistics for share in self.shares), Statistics())

    @property
    def pmu_events(self) -> dict[int, int]:
        """Counts of all PEs together, by the events' numbers."""
        total: Counter[int] = Counter()
        for share in self.shares:
            total.update(share.pmu_events)
        return dict(sorted(total.items()))
