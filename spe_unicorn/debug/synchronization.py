"""How far the profiling unit's work is certain to be seen (Arm ARM D17.9).

The unit works beside the program. Counted in members of the sample population, this follows what
the program may rely on: a PSB CSYNC synchronizes what came before the last context
synchronization event, a direct read shows what was synchronized before the next one, and memory
holds what was synchronized before a DSB.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Synchronization:
    """Numbers of members, counted from the start."""

    fenced: int = 0
    """Before the last context synchronization event."""
    drained: int = 0
    """Whose records a PSB CSYNC has forced out."""
    visible: int = 0
    """Whose effect on registers a direct read shows."""
    written: int = 0
    """Whose records a load finds."""

    def context_synchronization(self, population: int) -> None:
        """An ISB, an exception entry or return, after ``population`` members."""
        self.visible = self.drained
        self.fenced = population

    def psb_csync(self) -> None:
        """A PSB CSYNC."""
        self.drained = self.fenced

    def dsb(self) -> None:
        """A DSB of loads and stores."""
        self.written = self.drained

    def everything(self, population: int) -> None:
        """All is certain: something happened that orders everything."""
        self.fenced = self.drained = self.visible = self.written = population
