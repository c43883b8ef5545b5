"""Tells a watcher of operations that no hook sees: barriers and ERETs, which order SPE's work.

The engine does not stop for an ISB, a PSB CSYNC, a DSB or an ERET. While a :class:`Watcher` tracks
them, the runner stops before each block that holds one, and steps over it. An ISB or ERET that only
moves the watcher's counts is not stopped for: compiled code notes it. The same operations are
executed and sampled as without a watcher; it only takes longer.
"""

from __future__ import annotations

from spe_unicorn.arch.operation import Instruction, Mark
from spe_unicorn.host.ports import ORDERING, Watcher


class Watching:
    """The watcher of one PE's runner, if there is one."""

    WIRING = ("watcher", "_aside")

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self._aside: Watcher | None = None

    def mute(self, muted: bool) -> None:
        """Tell the watcher nothing from now on, or tell it again."""
        if muted and self.watcher is not None:
            self.watcher, self._aside = None, self.watcher
        elif not muted and self._aside is not None:
            self.watcher, self._aside = self._aside, None

    @property
    def tracking(self) -> bool:
        """Whether a watcher now wants to be told of the operations in ``ORDERING``."""
        return self.watcher is not None and self.watcher.tracking

    @property
    def at_once(self) -> bool:
        """Whether that watcher wants to be told of each context synchronization event at once."""
        return self.watcher is not None and self.watcher.at_once

    def distance(self, code: tuple[Instruction, ...]) -> int:
        """How many operations of ``code`` come before the first one that the watcher tracks."""
        if not self.tracking:
            return len(code)
        return next((k for k, i in enumerate(code) if i.mark in ORDERING), len(code))

    def executed(self, mark: Mark, pc: int) -> None:
        """Tell the watcher of the operation executed at ``pc``, if it tracks ``mark``."""
        if self.watcher is not None and mark in ORDERING:
            self.watcher.executed(mark, pc)

    def synchronized(self, executed: int, members: int) -> None:
        """Tell the watcher of the last context synchronization event that compiled code noted."""
        if self.watcher is not None:
            self.watcher.synchronized(executed, members)

    def controls_written(self, pc: int) -> None:
        """Tell the watcher that the operation at ``pc`` may have written a steering register."""
        if self.watcher is not None:
            self.watcher.controls_written(pc)

    def paused(self) -> None:
        """Tell the watcher that a run has ended."""
        if self.watcher is not None:
            self.watcher.paused()
