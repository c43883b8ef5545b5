"""The engine's TLB is flushed now and then, so that it can grow.

The engine chooses the size of its TLB when the TLB is flushed. It doubles the number of entries if
more than 70 of 100 were in use. It takes as many as were used lately if less than 30 of 100 were in
use, and a tenth of a second of the host's clock has gone by. A guest that never flushes the TLB, as
most bare programs, keeps the size of when the MMU came on: 256 entries, or 64. If it works on more
pages than that, each access misses, and the guest takes five times as long. So the TLB is flushed
at fixed numbers of executed operations. To a guest this is like an entry that was displaced.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.engine import Engine

FIRST: Final = 1 << 18
"""Operations before the first flush. Each of those that follow doubles the number."""
MOST: Final = 1 << 26
"""The most operations between two flushes. They take tens of milliseconds. A flush,
with filling the TLB again, takes some tenths of one."""


def next_flush(executed: int) -> int:
    """The first number of operations after ``executed`` at which the TLB is flushed."""
    if executed < FIRST:
        return FIRST
    if executed < MOST:
        return 1 << executed.bit_length()
    return (executed // MOST + 1) * MOST


class RoomyTLB:
    """The flushes of one engine's TLB."""

    DERIVED = ("due",)

    def __init__(self, engine: Engine, executed: int) -> None:
        self._engine = engine
        self.due = next_flush(executed)
        """Executed operations at which the next flush is due."""

    def begin(self, executed: int) -> None:
        """Begin anew at ``executed`` operations, as after a restore."""
        self.due = next_flush(executed)

    def flush(self) -> None:
        """Flush the TLB, and work out when the next flush is due."""
        self._engine.flush_tlb()
        self.due = next_flush(self.due)
