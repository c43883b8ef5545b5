"""Choices of a core that are a number for each synchronous event of the Performance Monitors."""

from __future__ import annotations

from collections.abc import Mapping

from spe_unicorn.arch.features import SYNCHRONOUS_EVENTS


def per_event(value: int | Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Pairs of event and number; one number is that of all events. Nothing is checked."""
    numbers = dict.fromkeys(SYNCHRONOUS_EVENTS, value) if isinstance(value, int) else value
    return tuple(sorted(numbers.items()))
