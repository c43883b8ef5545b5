"""Thresholds (FEAT_PMUv3_TH): what a counter counts of the events of one cycle (Arm ARM D13.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.registers.pmu import PMEVTYPER

WIDTH: Final = 12
"""PMMIR_EL1.THWIDTH: all bits of PMEVTYPER<n>_EL0.TH are there."""
_NOT_EQUAL, _EQUAL, _AT_LEAST = range(3)


@dataclass(frozen=True, slots=True)
class Threshold:
    """PMEVTYPER<n>_EL0.TC and TH, not both 0."""

    control: int
    limit: int

    @classmethod
    def of(cls, type_: int) -> Threshold | None:
        """That of a value of PMEVTYPER<n>_EL0; None for none."""
        bits = PMEVTYPER(type_)
        return cls(bits.TC, bits.TH) if bits.TC or bits.TH else None

    def counted(self, events: int) -> int:
        """By how much a cycle counts in which so many events happened."""
        condition = self.control >> 1
        if condition == _NOT_EQUAL:
            met = events != self.limit
        elif condition == _EQUAL:
            met = events == self.limit
        else:
            met = (events >= self.limit) == (condition == _AT_LEAST)
        if not met:
            return 0
        return 1 if self.control & 1 else events

    def counted_of(self, events: int, cycles: int) -> int:
        """By how much so many cycles count, in each of which the event happened once or not.

        An event that is in none of the cycles is a cycle of its own.
        """
        return events * self.counted(1) + max(0, cycles - events) * self.counted(0)
