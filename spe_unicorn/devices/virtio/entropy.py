"""A source of random numbers (Virtio 1.2, 5.4), which are those of whoever builds the board."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.devices.virtio.queue import Chain
from spe_unicorn.devices.virtio.transport import Device

_MOST: Final = 4096
"""Bytes that a request gets; the driver asks again."""


class Entropy(Device):
    """The device. ``random`` is where its numbers come from."""

    number = 4
    queues = 1
    features = 0

    def __init__(self, random: RandomStream) -> None:
        self._random = random

    def configuration(self) -> bytes:
        """It has none."""
        return b""

    def reset(self) -> None:
        """The driver has set up nothing."""

    def request(self, queue: int, chain: Chain) -> None:
        """Fill a buffer. Raises BrokenQueueError."""
        size = min(chain.room, _MOST)
        words = (self._random.bits64().to_bytes(8, "little") for _ in range(-(-size // 8)))
        chain.put(b"".join(words)[:size])
