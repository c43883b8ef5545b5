"""Events of the Performance Monitors as options name them, those of sampling among them."""

from __future__ import annotations

from typing import Final

from spe_unicorn.pmu.countable import countable
from spe_unicorn.pmu.names import EventError, NamedEvent, parse_events, why_not
from spe_unicorn.spe.feed import SampleEvent

SAMPLING_EVENTS: Final = {f"SAMPLE_{event.name}": int(event) for event in SampleEvent}
"""Names of the events of sampling."""


def one_event(text: str) -> NamedEvent:
    """The event that ``text`` names. Raises ``pmu.names.EventError``."""
    events = parse_events(text, SAMPLING_EVENTS)
    if len(events) > 1:
        raise EventError(f"{text!r} are {len(events)} events, and samples are taken by one")
    return events[0]


def why_not_counted(event: NamedEvent, *, with_model: bool) -> str | None:
    """Why an event cannot be counted with or without a model of caches; None if it can."""
    return why_not(event.number, {*countable(with_model=with_model), *SampleEvent})


def why_not_sampled(event: NamedEvent, *, with_model: bool) -> str | None:
    """Why operations cannot be sampled by an event; None if they can."""
    if event.number in set(SampleEvent):
        return "there is no SPE beside sampling from outside"
    return why_not(event.number, countable(with_model=with_model))
