"""All of a unit that is late, as its machine drives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.ports import IRQLine, PhysicalMemory
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.spe.lateness.parts import (
    DirectWrites,
    LateLine,
    WaitingBytes,
    WaitingRecords,
)
from spe_unicorn.spe.lateness.stale import StaleReads
from spe_unicorn.spe.lateness.window import NEVER, Window


@dataclass(frozen=True)
class Lateness:
    """What of a unit is late; None for what is not."""

    window: Window | None = None
    writes: DirectWrites | None = None
    records: WaitingRecords | None = None
    data: WaitingBytes | None = None
    line: LateLine | None = None

    @property
    def stale(self) -> StaleReads | None:
        """What of the unit's own writes a read may not show yet."""
        return None if self.writes is None else self.writes.stale

    @property
    def pending(self) -> bool:
        """Whether a context synchronization event, a PSB CSYNC or a DSB would do something."""
        return bool(
            (self.writes is not None and self.writes.s.pending)
            or (self.records is not None and self.records.s.records)
            or (self.data is not None and self.data.s.pieces)
            or (self.stale is not None and self.stale.pending)
        )

    @property
    def orders(self) -> bool:
        """Whether barriers order anything of it."""
        return not (self.writes is None and self.records is None and self.data is None)

    @property
    def due(self) -> int:
        """The number of executed operations at which something happens by itself."""
        return min(
            NEVER if self.writes is None else self.writes.due,
            NEVER if self.line is None else self.line.due,
        )

    def happen(self) -> None:
        """Do what is due by now."""
        if self.writes is not None:
            self.writes.happen()
        if self.line is not None:
            self.line.happen()

    def settle(self) -> None:
        """The PE waits as long as it takes: do what would be due later."""
        if self.writes is not None:
            self.writes.synchronize()
        if self.line is not None:
            self.line.settle()

    def context_synchronization(self) -> None:
        """An ISB, an exception entry or return."""
        if self.writes is not None:
            self.writes.synchronize()
        if self.records is not None:
            self.records.fence()
        if self.stale is not None:
            self.stale.context_synchronization()

    def psb_csync(self) -> None:
        """A PSB CSYNC."""
        if self.records is not None:
            self.records.psb_csync()
        if self.data is not None:
            self.data.psb_csync()
        if self.stale is not None:
            self.stale.psb_csync()

    def dsb(self) -> None:
        """A DSB of loads and stores."""
        if self.data is not None:
            self.data.dsb()

    def forget(self) -> None:
        """The PE was reset."""
        for part in (self.writes, self.stale, self.records, self.data):
            if part is not None:
                part.forget()


ON_TIME: Final = Lateness()
"""Of a unit that does everything at once."""


def late_line(
    choices: ImpDef, most: int, line: IRQLine, executed: Callable[[], int], random: RandomStream
) -> LateLine | None:
    """A line that rises up to ``most`` operations late, in front of ``line``; None for at once."""
    return LateLine(line, most, Window.of(choices, executed), random) if most else None


def lateness_of(
    pe: PE,
    executed: Callable[[], int],
    stream: Callable[[str], RandomStream],
    memory: PhysicalMemory,
    pmbirq: IRQLine,
) -> Lateness:
    """What the choices of a PE have be late.

    ``executed()`` is how many operations the PE has executed, ``stream(name)`` gives random numbers
    that nobody else draws.
    """
    choices = pe.impdef
    window = Window.of(choices, executed)
    # without FEAT_SPEv1p5 a fault is reported before another operation is sampled
    late_faults = Feature.FEAT_SPEv1p5 in pe.features
    records = choices.late_records if late_faults else min(choices.late_records, 1)
    writes = choices.late_writes or choices.buffer_locked
    writes = writes or choices.stale_status or choices.stale_counter
    line = choices.late_interrupt
    if not (writes or line or records or choices.late_bytes):
        return ON_TIME
    return Lateness(
        window,
        DirectWrites(pe.registers, choices, window, stream("late writes")) if writes else None,
        WaitingRecords(records, window) if records else None,
        WaitingBytes(memory, window) if choices.late_bytes else None,
        LateLine(pmbirq, line, window, stream("late interrupt")) if line else None,
    )
