"""A host folder as a file system for the guest (Virtio's 9P transport, device 9)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from spe_unicorn.devices.virtio.folder import Folder
from spe_unicorn.devices.virtio.ninep.messages import HEADER
from spe_unicorn.devices.virtio.ninep.server import MESSAGE_MAX, Server
from spe_unicorn.devices.virtio.queue import Chain
from spe_unicorn.devices.virtio.transport import Device

_MOUNT_TAG: Final = 1
Answers = Callable[[Callable[[], bytes]], bytes]
"""Asks the outside, or gives again what it answered before."""


class Share(Device):
    """The device. ``tag`` is the name by which the guest mounts it."""

    number = 9
    queues = 1
    features = _MOUNT_TAG
    latency = 0

    def __init__(self, tag: bytes, folder: Folder, answers: Answers = lambda ask: ask()) -> None:
        self._tag = tag
        self._server = Server(folder)
        self._answers = answers

    def configuration(self) -> bytes:
        """The tag's length and the tag."""
        return struct.pack("<H", len(self._tag)) + self._tag

    def reset(self) -> None:
        """The driver has forgotten all that it had open."""
        self._server.reset()

    def request(self, queue: int, chain: Chain) -> None:
        """A message and its answer. Raises BrokenQueueError."""
        request = chain.take(min(chain.left, MESSAGE_MAX))
        if len(request) < HEADER.size:
            return
        answer = self._answers(lambda: self._server.answer(request))
        self._server.follow(request, answer)
        chain.put(answer)
