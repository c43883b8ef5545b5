"""Being told of operations that no hook sees: what puts SPE's work in order with the program.

An ISB, a PSB CSYNC, a DSB and an ERET do nothing that the engine would stop for. A :class:`Watcher`
has the runner stop in front of blocks that hold one, while it cares, and step over it. Which
operations are executed and sampled stays the same, it only takes longer.
"""

from __future__ import annotations

from typing import Final, Protocol

from spe_unicorn.arch.operation import Instruction, Mark

ORDERING: Final = frozenset({Mark.PSB_CSYNC, Mark.DSB, Mark.ISB, Mark.ERET})
"""Marks of the operations that a watcher is told of."""


class Watcher(Protocol):
    """Whoever wants to know in which order things happen on a PE. It changes nothing."""

    @property
    def tracking(self) -> bool:
        """Whether it cares now. What makes it care is something that it is told of."""
        ...

    def reset(self) -> None:
        """The PE was reset."""
        ...

    def executed(self, mark: Mark, pc: int) -> None:
        """An operation with one of the marks in :data:`ORDERING` was executed at ``pc``."""
        ...

    def paused(self) -> None:
        """A run has come to its end."""
        ...

    def steered(self, pc: int) -> None:
        """A register that steers SPE or its addresses may have been written, at ``pc``."""
        ...


def distance(watcher: Watcher | None, code: tuple[Instruction, ...]) -> int:
    """How many operations of ``code`` come before the first one that the watcher waits for."""
    if watcher is None or not watcher.tracking:
        return len(code)
    return next((k for k, i in enumerate(code) if i.mark in ORDERING), len(code))
