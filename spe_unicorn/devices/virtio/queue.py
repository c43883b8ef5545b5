"""Split virtqueues (Virtio 1.2, 2.7), as a device reads and writes them.

Whatever the driver has put into them: nothing is followed further than the queue has entries, and
what makes no sense is a :class:`BrokenQueueError`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Protocol

from spe_unicorn.plain import Bits16, Bits32, Bits64

SIZE_MAX: Final = 256
"""Entries of the largest queue."""
CHAIN_MAX: Final = 256 << 20
"""Bytes of one request; larger ones are broken. UEFI reads a whole file by one."""

_DESCRIPTOR: Final = struct.Struct("<QIHH")
_NO_INTERRUPT: Final = 1
"""Bit of the driver's flags."""
_INDICES: Final = 1 << 16


_NEXT: Final = 1
_WRITE: Final = 2
_INDIRECT: Final = 4
"""Bits of a descriptor's flags."""


class BrokenQueueError(Exception):
    """The driver has put something into a queue that no device can follow."""


class Memory(Protocol):
    """Physical memory as the device reaches it."""

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes, None where there is no memory."""
        ...

    def write(self, address: int, data: bytes) -> bool:
        """False where there is no memory."""
        ...


@dataclass(slots=True)
class Queue:
    """One queue as the driver has set it up, and how far the device is in it."""

    size: Bits32 = 0
    ready: bool = False
    descriptors: Bits64 = 0
    """Physical address of the descriptor table."""
    driver: Bits64 = 0
    """That of the driver's area: what is available."""
    device: Bits64 = 0
    """That of the device's area: what is used."""
    seen: Bits16 = 0
    """How many entries have been taken, modulo 65536."""


class Chain:
    """The buffers of one request: those that the device reads, then those that it writes."""

    def __init__(self, memory: Memory, head: int) -> None:
        self.head = head
        self.written = 0
        """Bytes that the device has stored."""
        self._memory = memory
        self._readable: list[tuple[int, int]] = []
        self._writable: list[tuple[int, int]] = []
        self._added = 0

    def add(self, address: int, size: int, *, writable: bool) -> None:
        """One more buffer. Raises BrokenQueueError."""
        if self._writable and not writable:
            raise BrokenQueueError
        buffers = self._writable if writable else self._readable
        if buffers and sum(buffers[-1]) == address:  # one piece of memory: read or written at once
            buffers[-1] = (buffers[-1][0], buffers[-1][1] + size)
        else:
            buffers.append((address, size))
        self._added += size
        if self._added > CHAIN_MAX:
            raise BrokenQueueError

    @property
    def left(self) -> int:
        """Bytes that are still to be read."""
        return sum(size for _, size in self._readable)

    @property
    def room(self) -> int:
        """Bytes that can still be written."""
        return sum(size for _, size in self._writable)

    def take(self, size: int) -> bytes:
        """The next bytes, at most ``size``. Raises BrokenQueueError where no memory is."""
        pieces = []
        while size and self._readable:
            address, length = self._readable.pop(0)
            part = min(size, length)
            data = self._memory.read(address, part)
            if data is None:
                raise BrokenQueueError
            pieces.append(data)
            size -= part
            if part < length:
                self._readable.insert(0, (address + part, length - part))
        return b"".join(pieces)

    def put(self, data: bytes) -> None:
        """Store bytes where the next ones go. Raises BrokenQueueError where there is no room."""
        while data:
            if not self._writable:
                raise BrokenQueueError
            address, length = self._writable.pop(0)
            part = data[:length]
            if not self._memory.write(address, part):
                raise BrokenQueueError
            self.written += len(part)
            data = data[len(part) :]
            if len(part) < length:
                self._writable.insert(0, (address + len(part), length - len(part)))

    def skip_to_last(self, size: int) -> None:
        """Leave out all room but the last ``size`` bytes, which are as good as written."""
        while self.room > size:
            address, length = self._writable.pop(0)
            over = min(length, self.room + length - size)
            self.written += over
            if over < length:
                self._writable.insert(0, (address + over, length - over))


def waiting(queue: Queue, memory: Memory) -> int:
    """How many requests are in a queue. Raises BrokenQueueError for more than have room."""
    count = (_half(memory, queue.driver + 2) - queue.seen) % _INDICES
    if count > queue.size:
        raise BrokenQueueError
    return count


def take_request(queue: Queue, memory: Memory) -> Chain:
    """The next request of a queue that has one. Raises BrokenQueueError."""
    head = _half(memory, queue.driver + 4 + 2 * (queue.seen % queue.size))
    queue.seen = (queue.seen + 1) % _INDICES
    chain = Chain(memory, head)
    table = _bytes(memory, queue.descriptors, queue.size * _DESCRIPTOR.size)
    number = head
    for _ in range(queue.size):
        if number >= queue.size:
            raise BrokenQueueError
        address, size, flags, number = _DESCRIPTOR.unpack_from(table, number * _DESCRIPTOR.size)
        if flags & _INDIRECT:
            raise BrokenQueueError
        chain.add(address, size, writable=bool(flags & _WRITE))
        if not flags & _NEXT:
            return chain
    raise BrokenQueueError


def give_back(queue: Queue, memory: Memory, chain: Chain) -> bool:
    """A request is done; whether the driver wants an interrupt for it. Raises BrokenQueueError."""
    used = _half(memory, queue.device + 2)
    entry = struct.pack("<II", chain.head, chain.written)
    if not memory.write(queue.device + 4 + 8 * (used % queue.size), entry):
        raise BrokenQueueError
    memory.write(queue.device + 2, struct.pack("<H", (used + 1) % _INDICES))
    return not _half(memory, queue.driver) & _NO_INTERRUPT


def _bytes(memory: Memory, address: int, size: int) -> bytes:
    data = memory.read(address, size)
    if data is None:
        raise BrokenQueueError
    return data


def _half(memory: Memory, address: int) -> int:
    return int.from_bytes(_bytes(memory, address, 2), "little")
