"""A driver for the transport, written after Virtio 1.2 by hand."""

from __future__ import annotations

import struct

from spe_unicorn.devices.virtio.transport import LATENCY, Device, Transport
from tests.support.fakes import FakeClock, FakeLine

BASE = 0x4000_0000
DESCRIPTORS, DRIVER, DEVICE, BUFFERS = BASE, BASE + 0x1000, BASE + 0x2000, BASE + 0x3000
NEXT, WRITE, INDIRECT = 1, 2, 4
VERSION_1 = 1 << 32


class Ram:
    """Memory at BASE."""

    def __init__(self, size: int = 0x10000) -> None:
        self.bytes = bytearray(size)

    def read(self, address: int, size: int) -> bytes | None:
        at = address - BASE
        return bytes(self.bytes[at : at + size]) if 0 <= at <= len(self.bytes) - size else None

    def write(self, address: int, data: bytes) -> bool:
        if self.read(address, len(data)) is None:
            return False
        self.bytes[address - BASE : address - BASE + len(data)] = data
        return True


class Driver:
    """A transport with ``device``, set up with one queue of ``size`` entries."""

    def __init__(
        self, device: Device, size: int = 8, set_up: bool = True, ram: int = 0x10000
    ) -> None:
        self.ram, self.clock, self.line = Ram(ram), FakeClock(), FakeLine()
        self.transport = Transport(device, self.ram, self.clock, self.line)
        self.size = size
        self.sent = 0
        if set_up:
            self.set_up()

    def __getitem__(self, offset: int) -> int:
        return self.transport.read(offset, 4)

    def __setitem__(self, offset: int, value: int) -> None:
        self.transport.write(offset, 4, value)

    def set_up(self, features: int = VERSION_1) -> None:
        """What a driver does before its first request."""
        self[0x70] = 0
        self[0x70] = 1 | 2
        for half in range(2):
            self[0x24] = half
            self[0x20] = features >> 32 * half & 0xFFFF_FFFF
        self[0x70] = 1 | 2 | 8
        self[0x30] = 0
        self[0x38] = self.size
        for register, address in ((0x80, DESCRIPTORS), (0x90, DRIVER), (0xA0, DEVICE)):
            self[register] = address & 0xFFFF_FFFF
            self[register + 4] = address >> 32
        self[0x44] = 1
        self[0x70] = 1 | 2 | 4 | 8

    def describe(self, *buffers: tuple[int, int, int], first: int = 0) -> None:
        """Put descriptors into the table: address, size and flags; each leads to the next."""
        for n, (address, size, flags) in enumerate(buffers, first):
            row = struct.pack("<QIHH", address, size, flags, (n + 1) % self.size)
            self.ram.write(DESCRIPTORS + 16 * n, row)

    def send(self, head: int = 0) -> None:
        """Make a chain available, and say so."""
        self.ram.write(DRIVER + 4 + 2 * (self.sent % self.size), struct.pack("<H", head))
        self.sent += 1
        self.ram.write(DRIVER + 2, struct.pack("<H", self.sent))
        self[0x50] = 0

    def later(self, ticks: int = LATENCY) -> None:
        """Let time pass."""
        self.clock.count += ticks
        self.transport.update()

    @property
    def used(self) -> tuple[int, int, int]:
        """How many requests are done; head and bytes of the last one."""
        raw = self.ram.read(DEVICE + 2, 2) or b""
        count = int.from_bytes(raw, "little")
        at = DEVICE + 4 + 8 * ((count - 1) % self.size)
        return (count, *struct.unpack("<II", self.ram.read(at, 8) or b""))
