"""Events of the Performance Monitors as options name them, those of sampling among them."""

from __future__ import annotations

from typing import Final

from spe_unicorn.pmu.names import EventError, NamedEvent, parse_events
from spe_unicorn.spe.feed import SampleEvent

SAMPLING_EVENTS: Final = {f"SAMPLE_{event.name}": int(event) for event in SampleEvent}
"""Names of the events of sampling."""


def one_event(text: str) -> NamedEvent:
    """The event that ``text`` names. Raises ``pmu.names.EventError``."""
    events = parse_events(text, SAMPLING_EVENTS)
    if len(events) > 1:
        raise EventError(f"{text!r} are {len(events)} events, and samples are taken by one")
    return events[0]
