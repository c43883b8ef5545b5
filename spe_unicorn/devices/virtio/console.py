"""A console of one port (Virtio 1.2, 5.3): bytes in both directions, and the emergency write."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final

from spe_unicorn.devices.virtio.queue import BrokenQueueError, Chain
from spe_unicorn.devices.virtio.transport import Device
from spe_unicorn.plain import Within
from spe_unicorn.stateful import Stateful

_EMERGENCY_WRITE: Final = 1 << 2
_EMERG_WR: Final = 8
"""Where that field is in the configuration space."""
_CONFIGURATION: Final = struct.pack("<HHII", 0, 0, 1, 0)
"""Columns, rows, ports, emerg_wr. The first two mean nothing without VIRTIO_CONSOLE_F_SIZE."""
_AT_ONCE: Final = 4096
"""Bytes that are taken from the line at a time."""
_LONGEST: Final = 64 << 10
"""Bytes that one request may print; larger ones are broken, so that no guest floods its host."""


class _Queue(IntEnum):
    RECEIVE = 0
    TRANSMIT = 1


@dataclass(slots=True)
class ConsoleState:
    """What is saved of one console."""

    received: Annotated[bytes, Within(0, 4096)] = b""
    """What has come in and is in no buffer yet."""


class Console(Device, Stateful[ConsoleState]):
    """The device. ``transmit`` takes output.

    ``arrived`` gives bytes that wait on the line, at most so many, without waiting for any. They
    are taken when the driver has a buffer for them, so that input that is all there from the
    beginning, as from a file, arrives at the same operations each time.
    """

    number = 3
    queues = len(_Queue)
    features = _EMERGENCY_WRITE

    def __init__(
        self, transmit: Callable[[bytes], None], arrived: Callable[[int], bytes] = lambda size: b""
    ) -> None:
        self._transmit = transmit
        self._arrived = arrived
        self.s = ConsoleState()

    def configuration(self) -> bytes:
        """A console without a size, of one port."""
        return _CONFIGURATION

    def configure(self, offset: int, size: int, value: int) -> None:
        """A store to emerg_wr prints its lowest byte, whatever else the driver has set up."""
        if offset == _EMERG_WR:
            self._transmit(bytes((value & 0xFF,)))

    def reset(self) -> None:
        """The driver has set up nothing. What has come in stays: nobody has read it."""

    def ready(self, queue: int) -> bool:
        """Whether there is input for a buffer; output can go at any time."""
        s = self.s
        if queue == _Queue.RECEIVE and not s.received:
            s.received = self._arrived(_AT_ONCE)
        return queue != _Queue.RECEIVE or bool(s.received)

    def request(self, queue: int, chain: Chain) -> None:
        """Fill a buffer with what there is, or print one. Raises BrokenQueueError."""
        if queue == _Queue.RECEIVE:
            part = self.s.received[: chain.room]
            chain.put(part)
            self.s.received = self.s.received[len(part) :]
        elif chain.left > _LONGEST:
            raise BrokenQueueError
        else:
            self._transmit(chain.take(chain.left))
