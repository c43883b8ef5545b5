"""A disk (Virtio 1.2, 5.2): sectors of 512 bytes, of whatever is handed in."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, Protocol

from spe_unicorn.devices.virtio.queue import Chain
from spe_unicorn.devices.virtio.transport import Device

SECTOR: Final = 512
_SEGMENTS, _SEGMENT = 126, 64 << 10
_SIZE_MAX, _SEG_MAX, _READ_ONLY, _BLK_SIZE, _FLUSH = (1 << bit for bit in (1, 2, 5, 6, 9))
_PIECE: Final = 1 << 20
"""Bytes that are held at a time."""
_HEADER: Final = struct.Struct("<IIQ")
_ID: Final = b"spe-unicorn disk".ljust(20, b"\0")


class _Type(IntEnum):
    IN = 0
    OUT = 1
    FLUSH = 4
    GET_ID = 8


class _Answer(IntEnum):
    OK = 0
    ERROR = 1
    UNSUPPORTED = 2


class Disk(Protocol):
    """Where the bytes are."""

    size: int
    """In bytes."""
    read_only: bool

    def read(self, offset: int, size: int) -> bytes | None:
        """Bytes, None where they cannot be read."""
        ...

    def write(self, offset: int, data: bytes) -> bool:
        """Store bytes; False where that fails."""
        ...

    def flush(self) -> bool:
        """Have them stored for good; False where that fails."""
        ...


class Block(Device):
    """The device. What of the disk is behind its last whole sector is not seen."""

    number = 2
    queues = 1

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._sectors = disk.size // SECTOR
        self.features = _SIZE_MAX | _SEG_MAX | _BLK_SIZE | _FLUSH
        if disk.read_only:
            self.features |= _READ_ONLY

    def configuration(self) -> bytes:
        """Capacity, largest segment, segments, geometry, size of a block."""
        head = struct.pack("<QII4xI", self._sectors, _SEGMENT, _SEGMENTS, SECTOR)
        return head.ljust(0x100, b"\0")

    def reset(self) -> None:
        """The driver has set up nothing."""

    def request(self, queue: int, chain: Chain) -> None:
        """A read, a write, a flush or the name. Raises BrokenQueueError."""
        header = chain.take(_HEADER.size)
        if len(header) < _HEADER.size or not chain.room:
            return
        kind, _, sector = _HEADER.unpack(header)
        answer = self._carry_out(kind, sector, chain)
        chain.skip_to_last(1)
        chain.put(bytes((answer,)))

    def _carry_out(self, kind: int, sector: int, chain: Chain) -> _Answer:
        if kind == _Type.IN:
            done = self._read(sector, chain)
        elif kind == _Type.OUT:
            done = self._write(sector, chain)
        elif kind == _Type.FLUSH:
            done = self._disk.flush()
        elif kind == _Type.GET_ID:
            chain.put(_ID[: chain.room - 1])
            done = True
        else:
            return _Answer.UNSUPPORTED
        return _Answer.OK if done else _Answer.ERROR

    def _read(self, sector: int, chain: Chain) -> bool:
        size = chain.room - 1
        if not self._has(sector, size):
            return False
        for at in range(0, size, _PIECE):
            data = self._disk.read(sector * SECTOR + at, min(_PIECE, size - at))
            if data is None:
                return False
            chain.put(data)
        return True

    def _write(self, sector: int, chain: Chain) -> bool:
        size = chain.left
        if self._disk.read_only or not self._has(sector, size):
            return False
        return all(
            self._disk.write(sector * SECTOR + at, chain.take(min(_PIECE, size - at)))
            for at in range(0, size, _PIECE)
        )

    def _has(self, sector: int, size: int) -> bool:
        return size % SECTOR == 0 and sector + size // SECTOR <= self._sectors
