"""Being told of operations that no hook sees: what puts SPE's work in order with the program.

An ISB, a PSB CSYNC, a DSB and an ERET do nothing that the engine would stop for. A :class:`Watcher`
has the runner stop before blocks that hold one, while it cares, and step over it. Which
operations are executed and sampled stays the same, it only takes longer.
"""

from __future__ import annotations

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.host.ports import ORDERING, Watcher


def distance(watcher: Watcher | None, code: tuple[Instruction, ...]) -> int:
    """How many operations of ``code`` come before the first one that the watcher waits for."""
    if watcher is None or not watcher.tracking:
        return len(code)
    return next((k for k, i in enumerate(code) if i.mark in ORDERING), len(code))
