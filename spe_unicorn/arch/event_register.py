"""The Event Register of a PE, as far as a WFE can tell."""

from __future__ import annotations


class EventRegister:
    """Whether the next WFE of a PE completes at once.

    An exception return sets it. The engine executes those without a word, but each of them leads
    back from an exception that we have entered, or down to a level where no WFE was since.
    """

    def __init__(self) -> None:
        self._set = True
        self._level = 0

    def set(self) -> None:
        """An event: SEV of any PE, SEVL of this one, or an exception return."""
        self._set = True

    def take(self, el: int) -> bool:
        """A WFE at an Exception level: whether there was an event, of which nothing is left."""
        happened = self._set or el < self._level
        self._set = False
        self._level = el
        return happened
