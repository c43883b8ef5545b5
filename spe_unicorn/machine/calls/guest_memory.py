"""The virtual memory of the code that makes a semihosting call."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.machine.pe import ProcessingElement


class GuestMemory:
    """Memory as the PE that ``running`` returns sees it, by virtual address.

    ``size`` is that of all physical memory, in bytes. ``stored`` is told of the virtual address and
    the bytes of each write.
    """

    def __init__(
        self,
        size: int,
        running: Callable[[], ProcessingElement],
        stored: Callable[[int, bytes], None],
    ) -> None:
        self.size = size
        self._running = running
        self._stored = stored

    def read(self, address: int, size: int) -> bytes | None:
        """The ``size`` bytes at ``address``, None where they cannot be read."""
        return self._running().cpu.virtual.read(address, size)

    def write(self, address: int, data: bytes) -> bool:
        """Store ``data`` at ``address``; False where it cannot be written."""
        written = self._running().cpu.virtual.write(address, data)
        if written:
            self._stored(address, data)
        return written
