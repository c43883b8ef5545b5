"""A power button on a GPIO pin: pressed from outside, it comes up again by itself after 0.1 s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.ports import Clock
from spe_unicorn.plain import Count
from spe_unicorn.stateful import Stateful

_SHARE_OF_SECOND: Final = 10
"""It stays down for this part of a second of the guest, as QEMU's does."""


@dataclass(slots=True)
class PowerKeyState:
    """What is saved of the key."""

    up_at: Count | None = None
    """The count at which it comes up; None while it is up."""


class PowerKey(Stateful[PowerKeyState]):
    """The key. ``pin`` is driven high while it is down.

    ``frequency`` is that of ``clock``, in Hz.
    """

    def __init__(self, clock: Clock, frequency: int, pin: Callable[[bool], None]) -> None:
        self._clock = clock
        self._held = frequency // _SHARE_OF_SECOND
        self._pin = pin
        self.s = PowerKeyState()

    def press(self) -> None:
        """Press it now; one that is down stays down longer."""
        self.s.up_at = self._clock.physical_count() + self._held
        self._derive()

    def next_deadline(self) -> int | None:
        """The count at which it comes up, None while it is up."""
        return self.s.up_at

    def update(self) -> None:
        """Let it come up if its time has come."""
        if self.s.up_at is not None and self._clock.physical_count() >= self.s.up_at:
            self.s.up_at = None
        self._derive()

    def _derive(self) -> None:
        self._pin(self.s.up_at is not None)
