"""How far the profiling unit's work is certain to be seen (Arm ARM D17.9).

The unit works beside the program. This counts, in members of the sample population, which of the
unit's work the program may rely on. A PSB CSYNC synchronizes the members before the last context
synchronization event. A direct read shows the members that were synchronized before the last such
event. Memory holds the records that were synchronized before the last DSB.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Synchronization:
    """Each field is a number of members: those before are certain in the field's sense."""

    fenced: int = 0
    """Members before the last context synchronization event."""
    drained: int = 0
    """Members whose records a PSB CSYNC has forced out."""
    visible: int = 0
    """Members whose effect on registers a direct read shows."""
    written: int = 0
    """Members whose records a load finds."""
    dsb_came_early: bool = False
    """Whether the last DSB came before a PSB CSYNC that had members to synchronize."""

    def context_synchronization(self, population: int) -> None:
        """An ISB, an exception entry or return, after ``population`` members."""
        self.visible = self.drained
        self.fenced = population

    def psb_csync(self) -> None:
        """A PSB CSYNC."""
        self.drained = self.fenced

    def dsb(self, population: int) -> None:
        """A DSB of loads and stores, after ``population`` members."""
        self.written = self.drained
        self.dsb_came_early = self.drained != population

    @property
    def swapped(self) -> bool:
        """Whether a DSB stands before the PSB CSYNC that it was to follow."""
        return self.dsb_came_early and self.drained > self.written

    def everything(self, population: int) -> None:
        """All ``population`` members are certain: an event has ordered everything."""
        self.fenced = self.drained = self.visible = self.written = population
        self.dsb_came_early = False
