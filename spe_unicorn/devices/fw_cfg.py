"""QEMU's firmware configuration device in memory: named and numbered blobs that firmware reads.

The interface is that of QEMU's specification ``fw_cfg``: selector, data register and DMA. Nothing
can be written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, Protocol

from spe_unicorn.plain import Bits16, Bits32, Count
from spe_unicorn.stateful import Stateful

SIZE: Final = 0x18
"""Bytes of address space that the device takes."""
NAME_MAX: Final = 55
"""Bytes of a file's name."""
FILES_MAX: Final = 256

_FIRST_FILE: Final = 0x20
_KEY_MASK: Final = 0x3FFF
"""The two highest bits of a key choose channels that are of no matter here."""
_SIGNATURE: Final = b"QEMU CFG"
_TRADITIONAL_AND_DMA: Final = 3
_PIECE: Final = 1 << 20


class Key(IntEnum):
    """Numbered items."""

    SIGNATURE = 0x00
    ID = 0x01
    UUID = 0x02
    NOGRAPHIC = 0x04
    CPUS = 0x05
    KERNEL_SIZE = 0x08
    INITRD_SIZE = 0x0B
    BOOT_MENU = 0x0E
    KERNEL_DATA = 0x11
    INITRD_DATA = 0x12
    COMMAND_LINE_SIZE = 0x14
    COMMAND_LINE_DATA = 0x15
    FILES = 0x19


class Control(IntFlag):
    """Bits of the first word of a DMA request."""

    ERROR = 1
    READ = 2
    SKIP = 4
    SELECT = 8
    WRITE = 16


class Offset(IntEnum):
    """Where the registers are, in bytes from the start of the device."""

    DATA = 0x00
    SELECTOR = 0x08
    DMA = 0x10


class DMAMemory(Protocol):
    """Physical memory as the device reaches it."""

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes, None where there is no memory."""
        ...

    def write(self, address: int, data: bytes) -> bool:
        """False where there is no memory."""
        ...

    def clear(self, address: int, size: int) -> bool:
        """Fill memory with zeros; False where there is none."""
        ...


@dataclass(slots=True)
class FwCfgState:
    """What is saved of the device."""

    key: Bits16 = 0
    """The item that is selected."""
    offset: Count = 0
    """How much of it has been read."""
    request: Bits32 = 0
    """The upper half of the address of a DMA request."""


def items_of(
    cpus: int,
    kernel: bytes = b"",
    initrd: bytes = b"",
    command_line: bytes | None = None,
    files: Mapping[str, bytes] | None = None,
) -> dict[int, bytes]:
    """What there is to read, by key. ``files`` are by their names, of at most 55 bytes."""
    command = b"" if command_line is None else command_line + b"\0"
    items: dict[int, bytes] = {
        Key.SIGNATURE: b"QEMU",
        Key.ID: struct.pack("<I", _TRADITIONAL_AND_DMA),
        Key.UUID: bytes(16),
        Key.NOGRAPHIC: struct.pack("<H", 1),
        Key.CPUS: struct.pack("<H", cpus),
        Key.BOOT_MENU: struct.pack("<H", 0),
        Key.KERNEL_SIZE: struct.pack("<I", len(kernel)),
        Key.KERNEL_DATA: kernel,
        Key.INITRD_SIZE: struct.pack("<I", len(initrd)),
        Key.INITRD_DATA: initrd,
        Key.COMMAND_LINE_SIZE: struct.pack("<I", len(command)),
        Key.COMMAND_LINE_DATA: command,
    }
    listed = sorted((files or {}).items())
    items[Key.FILES] = _directory(listed)
    for number, (_, data) in enumerate(listed):
        items[_FIRST_FILE + number] = data
    return items


def _directory(files: Sequence[tuple[str, bytes]]) -> bytes:
    rows = [
        struct.pack(">IHH56s", len(data), _FIRST_FILE + number, 0, name.encode())
        for number, (name, data) in enumerate(files)
    ]
    return struct.pack(">I", len(rows)) + b"".join(rows)


class FwCfg(Stateful[FwCfgState]):
    """The device, with ``items`` by key; ``memory`` is what DMA reaches."""

    def __init__(self, items: Mapping[int, bytes], memory: DMAMemory) -> None:
        self._items = items
        self._memory = memory
        self.reset()

    def reset(self) -> None:
        """Reset: the first item is selected."""
        self.s = FwCfgState()

    def read(self, offset: int, size: int) -> int:
        """A read of ``size`` bytes; those of the data register go on to the bytes that follow."""
        if offset < Offset.SELECTOR:
            return int.from_bytes(self._take(size), "little")
        if offset >= Offset.DMA:
            at = offset - Offset.DMA
            return int.from_bytes(_SIGNATURE[at : at + size], "little")
        return 0

    def write(self, offset: int, size: int, value: int) -> None:
        """A write of ``size`` bytes; registers are big-endian."""
        swapped = int.from_bytes(value.to_bytes(size, "little"), "big")
        if offset == Offset.SELECTOR and size == 2:
            self._select(swapped)
        elif offset == Offset.DMA and size == 8:
            self._transfer(swapped)
        elif offset == Offset.DMA and size == 4:
            self.s.request = swapped
        elif offset == Offset.DMA + 4 and size == 4:
            self._transfer(self.s.request << 32 | swapped)

    def _select(self, key: int) -> None:
        self.s.key, self.s.offset = key & _KEY_MASK, 0

    @property
    def _item(self) -> bytes:
        return self._items.get(self.s.key, b"")

    def _take(self, size: int) -> bytes:
        """The next bytes of the item; zeros behind its end."""
        item = self._item
        found = item[self.s.offset : self.s.offset + size]
        self.s.offset = min(self.s.offset + size, len(item))
        return found.ljust(size, b"\0")

    def _transfer(self, request: int) -> None:
        """A DMA request at a physical address: read or skip, after a selection or without."""
        self.s.request = 0
        words = self._memory.read(request, 16)
        if words is None:
            return
        control, length, address = struct.unpack(">IIQ", words)
        if control & Control.SELECT:
            self._select(control >> 16)
        done = True
        if control & Control.READ:
            done = self._copy(address, length)
        elif control & Control.WRITE:
            done = False
        elif control & Control.SKIP:
            self.s.offset = min(self.s.offset + length, len(self._item))
        self._memory.write(request, struct.pack(">I", 0 if done else Control.ERROR))

    def _copy(self, address: int, length: int) -> bool:
        """Copy bytes of the item to memory, in pieces, and zeros behind its end."""
        item = self._item
        end = min(self.s.offset + length, len(item))
        while self.s.offset < end:
            piece = item[self.s.offset : min(end, self.s.offset + _PIECE)]
            if not self._memory.write(address, piece):
                return False
            self.s.offset += len(piece)
            address += len(piece)
            length -= len(piece)
        return not length or self._memory.clear(address, length)
