"""The engine's TLB is flushed now and then, so that it can grow.

The engine chooses how many entries its TLB has whenever it is flushed: twice as many if more than
70 of 100 were in use; as few as were used lately if that was less than 30 of 100, and a tenth of a
second of the host's clock has gone by. A guest that never flushes it, as most bare programs, keeps
what there was when the MMU came on: 256 entries, or 64. One that works on more pages than that
misses it at each access, and takes five times as long. So it is flushed at fixed numbers of
executed operations, which no guest can tell from an entry that was displaced.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.engine import Engine

FIRST: Final = 1 << 18
"""Operations before the first flush. Each of those that follow doubles the number."""
MOST: Final = 1 << 26
"""Operations between two flushes at most: tens of milliseconds, while one flush and filling the TLB
again take some tenths of one."""


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
        """The PE has executed another number of operations than it had."""
        self.due = next_flush(executed)

    def flush(self) -> None:
        """What is due is done."""
        self._engine.flush_tlb()
        self.due = next_flush(self.due)
