"""Counts events of a run from outside, without a counter of the guest."""

from __future__ import annotations

from collections.abc import Sequence

from spe_unicorn.host.counting.outside import Contexts, OutsideCounts
from spe_unicorn.pmu.names import EventError, NamedEvent, why_not
from spe_unicorn.session.machine import Machine


class Counters:
    """Counts events on each PE of a machine from now on.

    Only operations with a CONTEXTIDR among ``contexts`` are counted, None for all operations.
    Raises ``pmu.names.EventError`` for an event that this machine cannot know.
    """

    def __init__(
        self,
        machine: Machine,
        events: Sequence[NamedEvent],
        contexts: frozenset[int] | None = None,
    ) -> None:
        self._events = events
        self._outside: list[OutsideCounts] = []
        numbers = {event.number for event in events}
        by_level = any(event.levels is not None for event in events)
        for pe in machine.board.pes:
            totals = pe.counting.totals
            for event in events:
                reason = why_not(event.number, totals.sources)
                if reason is not None:
                    raise EventError(f"{event.text} cannot be counted: {reason}")
            of_pe = None if contexts is None else Contexts(pe.cpu, contexts)
            outside = OutsideCounts(totals, numbers, by_level=by_level, contexts=of_pe)
            pe.counting.observe(outside)
            self._outside.append(outside)

    def counts(self) -> list[list[int]]:
        """For each event the count of each PE."""
        return [
            [
                sum(
                    count
                    for el, count in enumerate(outside.s.counts[event.number])
                    if event.levels is None or el in event.levels
                )
                for outside in self._outside
            ]
            for event in self._events
        ]
