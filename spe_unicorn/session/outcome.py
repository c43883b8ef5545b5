"""What a run came to: why it ended, where, and what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spe_unicorn.debug.misuse import Misuse
from spe_unicorn.spe.sampler import Statistics

Ending = Literal["exit", "until", "limit", "timeout", "interrupted", "asleep", "failed"]
"""Why a run ended.

exit: the guest ended itself. until: the point was reached. limit: so many operations were executed.
timeout: so much time of the host went by. interrupted: somebody stopped it. asleep: all PEs wait
for an interrupt that nothing can raise. failed: the guest did what cannot go on.
"""


@dataclass(frozen=True)
class Share:
    """What one PE came to. ``pmu_events`` are counts by the events' numbers."""

    operations: int
    statistics: Statistics
    pmu_events: Mapping[int, int]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, where, and what was counted of each PE since reset.

    ``cause`` is a sentence, None if the guest ended itself. ``pc`` and ``symbol`` are where the PE
    stands that ran last. ``seconds`` are the host's, and those of this run alone.
    """

    ending: Ending
    cause: str | None
    exit_status: int | None
    """What the guest ended with, 0 to 255; None while it has not."""
    pc: int
    symbol: str | None
    seconds: float
    shares: tuple[Share, ...]
    misuses: tuple[Misuse, ...] | None = None
    """None where nobody watched for any."""

    @property
    def operations(self) -> int:
        """Those of all PEs."""
        return sum(share.operations for share in self.shares)

    @property
    def statistics(self) -> Statistics:
        """Those of all PEs."""
        return sum((share.statistics for share in self.shares), Statistics())

    @property
    def pmu_events(self) -> dict[int, int]:
        """Those of all PEs."""
        total: Counter[int] = Counter()
        for share in self.shares:
            total.update(share.pmu_events)
        return dict(sorted(total.items()))
