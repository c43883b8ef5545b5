"""Guest memory, read and written from Python by physical or by virtual address."""

from __future__ import annotations

from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.memory_map import region_at
from spe_unicorn.machine.pe import ProcessingElement


class GuestMemoryError(LookupError):
    """Guest memory cannot be accessed; the message is one line with the address."""


class _Memory:
    """Memory by some kind of address."""

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes. Raises GuestMemoryError where they cannot be read."""
        raise NotImplementedError

    def write(self, address: int, data: bytes) -> None:
        """Store ``data``. Raises GuestMemoryError where it cannot be written."""
        raise NotImplementedError

    def read_int(self, address: int, size: int = 8) -> int:
        """A little-endian number of ``size`` bytes."""
        return int.from_bytes(self.read(address, size), "little")

    def write_int(self, address: int, value: int, size: int = 8) -> None:
        """Store a number as ``size`` bytes, little-endian. Raises ValueError if it does not fit."""
        if not 0 <= value < 1 << 8 * size:
            raise ValueError(f"{size} bytes do not hold {value:#x}")
        self.write(address, value.to_bytes(size, "little"))


def _check_size(size: int) -> None:
    if size < 0:
        raise ValueError(f"a size is a number of bytes from 0 on, got {size}")


class PhysicalMemory(_Memory):
    """Memory of the machine by physical address: RAM, flash, Secure RAM. Devices are no memory."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes. Raises GuestMemoryError where no memory is."""
        _check_size(size)
        data = self._board.memory.read(address, size, PASpace.Secure)
        if data is None:
            raise GuestMemoryError(self._missing(address, size))
        return data

    def write(self, address: int, data: bytes) -> None:
        """Store ``data``, in flash as well. Raises GuestMemoryError where no memory is."""
        if not self._board.memory.fill(address, data):
            raise GuestMemoryError(self._missing(address, len(data)))
        for pe in self._board.pes:
            pe.resync()

    def _missing(self, address: int, size: int) -> str:
        ram = self._board.ram
        region = region_at(address)
        device = f" (there is {region.name}, which is no memory here)" if region else ""
        return (
            f"no memory at physical address {address:#x}, {size} bytes{device}:"
            f" RAM is {ram.base:#x} to {ram.base + ram.size - 1:#x}"
        )


class VirtualMemory(_Memory):
    """Memory as one PE sees it now: through its translation, at its Exception level."""

    def __init__(self, board: Board, pe: ProcessingElement) -> None:
        self._board = board
        self._pe = pe

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes. Raises GuestMemoryError where they are not mapped, or are a device's."""
        _check_size(size)
        data = self._pe.cpu.virtual.read(address, size)
        if data is None:
            raise GuestMemoryError(self._missing(address, size, "read"))
        return data

    def write(self, address: int, data: bytes) -> None:
        """Store ``data``. Raises GuestMemoryError where that is not allowed."""
        if not self._pe.cpu.virtual.write(address, data):
            raise GuestMemoryError(self._missing(address, len(data), "written"))
        for pe in self._board.pes:
            pe.resync()

    def physical(self, address: int) -> int:
        """The physical address behind a virtual one. Raises GuestMemoryError for none."""
        physical = self._pe.cpu.virtual.translate(address, write=False)
        if physical is None:
            raise GuestMemoryError(self._missing(address, 1, "translated"))
        return physical

    def _missing(self, address: int, size: int, what: str) -> str:
        pe = self._pe
        return (
            f"{size} bytes at virtual address {address:#x} cannot be {what}"
            f" by cpu {pe.number} at EL{pe.cpu.el}"
        )
