"""The Event Register of a PE, as far as a WFE can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from spe_unicorn.host.native.state.transit import is_event, put_event, set_event, take_event
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.plain import Within
from spe_unicorn.stateful import Stateful


@dataclass(slots=True)
class EventState:
    """What is saved of an Event Register."""

    event: bool = True
    """There was one, and no WFE since."""
    level: Annotated[int, Within(0, 3)] = 0
    """The Exception level of the last WFE."""


class EventRegister(Stateful[EventState]):
    """Whether the next WFE of a PE completes at once. Compiled code reads and sets it as well.

    An exception return sets it. The engine executes those without a word, but each of them leads
    back from an exception that we have entered, or down to a level where no WFE was since.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.reset()

    @property
    def s(self) -> EventState:
        """What is saved."""
        state = self._state
        return EventState(bool(state.event | state.entered), int(state.event_level))

    @s.setter
    def s(self, state: EventState) -> None:
        put_event(self._state, int(state.event), state.level)

    def reset(self) -> None:
        """The PE is reset: the first WFE does not wait."""
        self.s = EventState()

    def set(self) -> None:
        """An event: SEV of any PE, SEVL of this one, or an exception return."""
        set_event(self._state)

    def take(self, el: int) -> bool:
        """A WFE at an Exception level: whether there was an event, of which nothing is left."""
        happened = is_event(self._state, el)
        take_event(self._state, el)
        return bool(happened)
