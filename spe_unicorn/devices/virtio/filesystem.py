"""A host folder as a file system for the guest, by FUSE (Virtio 1.2, 5.11: device 26)."""

from __future__ import annotations

import struct
from typing import Final

from spe_unicorn.devices.virtio.folder import Folder
from spe_unicorn.devices.virtio.fuse.messages import IN_HEADER
from spe_unicorn.devices.virtio.fuse.server import WRITE_MAX, Server
from spe_unicorn.devices.virtio.queue import Chain
from spe_unicorn.devices.virtio.share import Answers
from spe_unicorn.devices.virtio.transport import Device

_CONFIGURATION: Final = struct.Struct("<36sI")
"""The tag, and how many queues for requests there are besides the urgent one."""
_REQUEST_MAX: Final = WRITE_MAX + 4096


class FileSystem(Device):
    """The device. ``tag`` is the name by which the guest mounts it."""

    number = 26
    queues = 2
    features = 0
    latency = 0

    def __init__(self, tag: bytes, folder: Folder, answers: Answers = lambda ask: ask()) -> None:
        self._tag = tag
        self._server = Server(folder)
        self._answers = answers

    def configuration(self) -> bytes:
        """The tag and the number of queues."""
        return _CONFIGURATION.pack(self._tag, 1)

    def reset(self) -> None:
        """The driver has forgotten all that it had open."""
        self._server.reset()

    def request(self, queue: int, chain: Chain) -> None:
        """A message and its answer, if it wants one. Raises BrokenQueueError."""
        request = chain.take(min(chain.left, _REQUEST_MAX))
        if len(request) < IN_HEADER.size:
            return
        answer = self._answers(lambda: self._server.answer(request))
        self._server.follow(request, answer)
        chain.put(answer)
