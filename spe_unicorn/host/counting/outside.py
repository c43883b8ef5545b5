"""Counts from outside: events of one PE by Exception level, without the guest's counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from spe_unicorn.arch.pe import EL0, EL2, EL3, PE
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL1, CONTEXTIDR_EL2
from spe_unicorn.arch.rules.effective import el_is_in_host
from spe_unicorn.host.counting.totals import EventTotals
from spe_unicorn.plain import Bits16, Count
from spe_unicorn.stateful import Stateful


@dataclass(slots=True)
class OutsideState:
    """What is saved: by event, how often it has happened at each Exception level."""

    counts: dict[Bits16, list[Count]] = field(default_factory=dict)


@dataclass(frozen=True)
class Contexts:
    """The values of CONTEXTIDR for which ``pe`` is counted: an operating system's processes."""

    pe: PE
    values: frozenset[int]

    @property
    def now(self) -> bool:
        """Whether CONTEXTIDR has one of these values now."""
        return context_of(self.pe) in self.values


def context_of(pe: PE) -> int | None:
    """CONTEXTIDR of the operating system whose code or process a PE executes; None for none.

    An operating system at EL2 with HCR_EL2.E2H has CONTEXTIDR_EL2.
    """
    if pe.el == EL3 or (pe.el == EL2 and not el_is_in_host(pe, EL2)):
        return None
    host = pe.el == EL2 or (pe.el == EL0 and el_is_in_host(pe, EL0))
    if host:
        return pe.registers.read(CONTEXTIDR_EL2).PROCID
    return pe.registers.read(CONTEXTIDR_EL1).PROCID


class OutsideCounts(Stateful[OutsideState]):
    """Counts ``events``, by Exception level if ``by_level``, else only their sum.

    With ``contexts`` it counts only while CONTEXTIDR has one of their values.
    """

    DERIVED = ("_seen", "_counts")

    def __init__(
        self,
        totals: EventTotals,
        events: Iterable[int],
        *,
        by_level: bool,
        contexts: Contexts | None = None,
    ) -> None:
        self.s = OutsideState({event: [0] * 4 for event in events})
        self.by_level = by_level or contexts is not None
        self.contexts = contexts
        self._totals = totals
        self._seen: dict[int, int] = {}
        self._counts = True
        """Whether the PE executes for one of the contexts."""

    @property
    def events(self) -> frozenset[int]:
        """What is counted."""
        return frozenset(self.s.counts)

    def begin(self) -> None:
        """Count from here on."""
        self._seen = {event: self._totals.of(event) for event in self.s.counts}
        self._read_context()

    def _read_context(self) -> None:
        """Find out whether the PE executes for one of the contexts now."""
        self._counts = self.contexts is None or self.contexts.now

    def _derive(self) -> None:
        self._seen = {}

    def count(self, el: int) -> None:
        """Count for ``el`` what has happened since the last call."""
        if not self._seen:
            self.begin()
        for event, counts in self.s.counts.items():
            total = self._totals.of(event)
            if self._counts:
                counts[el] += total - self._seen[event]
            self._seen[event] = total
        self._read_context()
