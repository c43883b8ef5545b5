"""When something may be late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.signals import Signal

NEVER: Final = (1 << 62) - 1
"""A count of operations that no PE reaches."""


class Window:
    """The operations of a PE, by number, at which something may be late."""

    def __init__(self, first: int, last: int, executed: Callable[[], int]) -> None:
        self._first = first
        self._last = last
        self.executed = executed
        """How many operations the PE has executed."""
        self.used: Signal[[int]] = Signal()
        """Told of each operation at which something was late, by its number."""

    @classmethod
    def of(cls, choices: ImpDef, executed: Callable[[], int]) -> Window:
        """The window that the choices ask for."""
        return cls(choices.late_from, choices.late_until or NEVER, executed)

    def allows(self) -> bool:
        """Whether something is late now, as it can be."""
        now = self.executed()
        if not self._first <= now < self._last:
            return False
        self.used(now)
        return True
