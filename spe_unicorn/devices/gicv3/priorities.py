"""Priorities as a CPU interface reckons with them: 8 bits, lower is more urgent.

Both interfaces, physical and virtual, implement 32 levels of priority and of preemption.
"""

from __future__ import annotations

from typing import Final

PRIORITY_BITS: Final = 5
"""Implemented priority bits of a CPU interface, the upper ones of eight."""
IMPLEMENTED: Final = 0xFF & ~((1 << 8 - PRIORITY_BITS) - 1)
LEAST_POINT: Final = 7 - PRIORITY_BITS
"""The least binary point of Group 0. That of Non-secure Group 1 is one more."""
IDLE: Final = 0xFF
"""The running priority while nothing is active."""

_UNIMPLEMENTED_BITS: Final = 8 - PRIORITY_BITS


def group_mask(point: int) -> int:
    """The bits of a priority that decide on preemption, by a Group 0 binary point."""
    return 0xFF & ~((2 << point) - 1)


def active_bit(priority: int) -> int:
    """The bit of a group priority in an active priorities register."""
    return 1 << (priority >> _UNIMPLEMENTED_BITS)


def lowest_bit(bits: int) -> int:
    """The number of the lowest bit that is set; one is."""
    number = 0
    while bits & 0xFF == 0:
        bits >>= 8
        number += 8
    while bits & 1 == 0:
        bits >>= 1
        number += 1
    return number


def running(active: int) -> int:
    """The running priority: the most urgent of the active priorities."""
    return lowest_bit(active) << _UNIMPLEMENTED_BITS if active else IDLE


def preempts(priority: int, active: int, mask: int) -> bool:
    """Whether an interrupt preempts what is active; ``mask`` is its :func:`group_mask`."""
    return active == 0 or priority & mask < running(active) & mask
