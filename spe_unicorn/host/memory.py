"""Physical memory as Python sees it: the regions that an engine has mapped."""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right

from unicorn import UC_PROT_ALL, Uc, UcError


class Ram:
    """Memory of ours, mapped into one or more engines. ``base`` and ``size`` are in bytes.

    Raises ValueError for a size or base that is not a multiple of the host's page size, and
    MemoryError when the host has not that much.
    """

    def __init__(self, base: int, size: int) -> None:
        if size <= 0 or base % mmap.PAGESIZE or size % mmap.PAGESIZE:
            raise ValueError(f"memory {base:#x}+{size:#x} is not a multiple of {mmap.PAGESIZE}")
        self.base = base
        self.size = size
        try:
            self._map = mmap.mmap(-1, size)
        except (OSError, OverflowError, ValueError) as error:
            raise MemoryError(f"the host has no {size} bytes for guest memory") from error
        self.bytes = memoryview(self._map)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def map_into(self, uc: Uc) -> None:
        """Let an engine execute from, read and write this memory."""
        uc.mem_map_ptr(self.base, self.size, UC_PROT_ALL, self._address)


class RamMemory:
    """Physical memory made of :class:`Ram` regions; implements ``arch.ports.PhysicalMemory``."""

    def __init__(self, *regions: Ram) -> None:
        self._regions = sorted(regions, key=lambda r: r.base)
        self._bases = [r.base for r in self._regions]

    def gaps(self) -> list[tuple[int, int]]:
        """The ranges of physical addresses, first to last, where there is no memory."""
        gaps = []
        free = 0
        for region in self._regions:
            if region.base > free:
                gaps.append((free, region.base - 1))
            free = region.base + region.size
        gaps.append((free, (1 << 64) - 1))
        return gaps

    def _find(self, address: int, size: int) -> tuple[memoryview, int] | None:
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        region = self._regions[index]
        offset = address - region.base
        return (region.bytes, offset) if offset + size <= region.size else None

    def read(self, address: int, size: int) -> bytes | None:
        """``size`` bytes at a physical address, None where there is no memory."""
        found = self._find(address, size)
        return None if found is None else bytes(found[0][found[1] : found[1] + size])

    def write(self, address: int, data: bytes) -> bool:
        """Store ``data`` at a physical address; False where there is no memory."""
        found = self._find(address, len(data))
        if found is None:
            return False
        found[0][found[1] : found[1] + len(data)] = data
        return True


class EngineMemory:
    """Physical memory that somebody else mapped into an engine."""

    def __init__(self, uc: Uc) -> None:
        self._uc = uc

    def read(self, address: int, size: int) -> bytes | None:
        """``size`` bytes at a physical address, None where there is no memory."""
        try:
            return bytes(self._uc.mem_read(address, size))
        except UcError:
            return None

    def write(self, address: int, data: bytes) -> bool:
        """Store ``data`` at a physical address; False where there is no memory."""
        try:
            self._uc.mem_write(address, data)
        except UcError:
            return False
        return True
