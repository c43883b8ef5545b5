"""Physical memory as Python sees it: the regions that an engine has mapped."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from unicorn import UC_PROT_ALL, UC_PROT_EXEC, UC_PROT_NONE, UC_PROT_READ, Uc, UcError
from unicorn.unicorn_const import UC_CTL_IO_WRITE, UC_CTL_TLB_FLUSH

from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.host.engine.tag_memory import AllocationTags
from spe_unicorn.signals import Signal

_PIECE: Final = 1 << 20
"""Bytes of zeros that are written at once."""
_HAS_NAMELESS_FILES: Final = hasattr(os, "memfd_create")


class Ram:
    """Memory that Python allocates and maps into engines. ``base`` and ``size`` are in bytes.

    If it is not ``writable``, the bus answers the guest's stores. While it is not ``readable``, the
    bus answers loads and fetches, too. If it is ``secure``, it is only in the Secure physical
    address space.

    Raises ValueError for a size or base that is not a multiple of the host's page size, and
    MemoryError when the host has not that much.
    """

    DERIVED = ("readable", "_given")
    WIRING = ("_file", "_map")

    def __init__(
        self, base: int, size: int, *, writable: bool = True, secure: bool = False
    ) -> None:
        if size <= 0 or base % mmap.PAGESIZE or size % mmap.PAGESIZE:
            raise ValueError(f"memory {base:#x}+{size:#x} is not a multiple of {mmap.PAGESIZE}")
        self.base = base
        self.size = size
        self.writable = writable
        self.secure = secure
        self.readable = True
        self._given: weakref.WeakKeyDictionary[Uc, int] = weakref.WeakKeyDictionary()
        self._file = -1
        try:
            self._map = mmap.mmap(-1, size)
            if _HAS_NAMELESS_FILES:
                self._be_a_file()
        except (OSError, OverflowError, ValueError) as error:
            raise MemoryError(f"the host has no {size} bytes for guest memory") from error
        self.bytes = memoryview(self._map)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        """Where the host has it."""

    def _be_a_file(self) -> None:
        """Use a file without a name, which can tell which of its pages are in use.

        Where a limit of file sizes (``ulimit -f``) forbids that, the memory has no file.
        """
        file = os.memfd_create("guest memory")
        try:
            os.ftruncate(file, self.size)
        except OSError as error:
            os.close(file)
            if error.errno != errno.EFBIG:
                raise
            return
        self._file = file
        weakref.finalize(self, os.close, file)
        self._map = mmap.mmap(file, self.size)

    def map_into(self, uc: Uc) -> None:
        """Let an engine execute from and read this memory, and write it if that is allowed."""
        uc.mem_map_ptr(self.base, self.size, self.rights, self.address)
        self._given[uc] = UC_PROT_ALL

    def give(self, uc: Uc, rights: int) -> None:
        """Restrict what an engine may do with it to ``rights``."""
        self._given[uc] = rights
        uc.mem_protect(self.base, self.size, self.rights & rights)

    def let_read(self, readable: bool) -> None:
        """Set whether loads and fetches reach it."""
        self.readable = readable
        for uc, rights in self._given.items():
            uc.mem_protect(self.base, self.size, self.rights & rights)
        self.keep_back()

    def keep_back(self) -> None:
        """Have engines check its rights anew, which they do not do after an access was refused."""
        for uc in self._given:
            uc.ctl(UC_CTL_TLB_FLUSH, UC_CTL_IO_WRITE)

    def clear(self, offset: int, size: int) -> None:
        """Fill a part with zeros. Its whole pages then take no memory of the host."""
        first = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
        if first >= end:
            self.bytes[offset : offset + size] = bytes(size)
            return
        self.bytes[offset:first] = bytes(first - offset)
        self.bytes[end : offset + size] = bytes(offset + size - end)
        try:
            self._map.madvise(mmap.MADV_REMOVE, first, end - first)
        except (AttributeError, OSError):  # not Linux, or the file cannot have holes
            for at in range(first, end, _PIECE):
                self.bytes[at : min(at + _PIECE, end)] = bytes(min(_PIECE, end - at))

    def used(self) -> Iterator[tuple[int, int]]:
        """The parts that may hold anything but zeros: first offset and end, in ascending order.

        Nothing was ever stored elsewhere. Finding that out reads nothing, so the host need not
        provide memory for those parts.
        """
        if self._file < 0:
            yield 0, self.size
            return
        end = 0
        while True:
            try:
                first = os.lseek(self._file, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return  # there is no further part in use
                raise
            end = os.lseek(self._file, first, os.SEEK_HOLE)
            yield first, end

    @property
    def rights(self) -> int:
        """What an engine may do with it: ``UC_PROT_*``."""
        if not self.readable:
            return int(UC_PROT_NONE)
        return int(UC_PROT_ALL if self.writable else UC_PROT_READ | UC_PROT_EXEC)


class RamMemory:
    """Physical memory made of :class:`Ram` regions; implements ``arch.ports.PhysicalMemory``.

    Without an address space all regions are accessible, Secure ones included.
    """

    WIRING = ("_tags",)

    def __init__(self, *regions: Ram) -> None:
        self.filled: Signal[[int, int]] = Signal()
        """Told of the address and the size of what is written here, but not of what PEs store."""
        self.regions = sorted(regions, key=lambda r: r.base)
        self._bases = [r.base for r in self.regions]
        self._tags: AllocationTags | None = None

    def with_tags(self) -> AllocationTags:
        """The Allocation Tags of memory that can be written: the same for all PEs that ask."""
        if self._tags is None:
            self._tags = AllocationTags([(r.base, r.size) for r in self.regions if r.writable])
        return self._tags

    def ranges(self) -> list[tuple[int, int]]:
        """The ranges of physical addresses, first to last, where there is memory."""
        return [(region.base, region.base + region.size - 1) for region in self.regions]

    def gaps(self) -> list[tuple[int, int]]:
        """The ranges of physical addresses, first to last, where there is no memory."""
        gaps = []
        free = 0
        for region in self.regions:
            if region.base > free:
                gaps.append((free, region.base - 1))
            free = region.base + region.size
        gaps.append((free, (1 << 64) - 1))
        return gaps

    def read_only(self) -> list[tuple[int, int]]:
        """The ranges of physical addresses, first to last, where stores may be refused."""
        return [(r.base, r.base + r.size - 1) for r in self.regions if not r.writable or r.secure]

    def secure(self) -> list[Ram]:
        """The regions that are only in the Secure physical address space."""
        return [region for region in self.regions if region.secure]

    def _find(
        self, address: int, size: int, space: PASpace = PASpace.Secure
    ) -> tuple[Ram, int] | None:
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        region = self.regions[index]
        if region.secure and space is not PASpace.Secure:
            return None
        offset = address - region.base
        return (region, offset) if offset + size <= region.size else None

    def read(self, address: int, size: int, space: PASpace = PASpace.Secure) -> bytes | None:
        """``size`` bytes at a physical address, None where there is no memory."""
        found = self._find(address, size, space)
        if found is None:
            return None
        region, offset = found
        return bytes(region.bytes[offset : offset + size])

    def write(self, address: int, data: bytes, space: PASpace = PASpace.Secure) -> bool:
        """Store ``data`` at a physical address; False where there is no memory.

        What is stored to read-only memory is lost.
        """
        found = self._find(address, len(data), space)
        return found is not None and (not found[0].writable or self.fill(address, data))

    def plain(self, address: int, size: int, *, write: bool) -> memoryview | None:
        """The bytes at a physical address, where a PE's access reaches them and nothing else.

        None where there is none, where a device answers, and where it is Secure.
        """
        found = self._find(address, size)
        if found is None:
            return None
        region, offset = found
        if region.secure or not region.readable or (write and not region.writable):
            return None
        return region.bytes[offset : offset + size]

    def host_address(self, address: int, size: int) -> int | None:
        """Where the host has ``size`` bytes at a physical address; None where there are none."""
        found = self._find(address, size)
        return None if found is None else found[0].address + found[1]

    def clear(self, address: int, size: int, space: PASpace = PASpace.Secure) -> bool:
        """Fill memory of any kind with zeros, from outside; False where there is none."""
        found = self._find(address, size, space)
        if found is None:
            return False
        region, offset = found
        region.clear(offset, size)
        if self.filled:
            self.filled(address, size)
        return True

    def fill(self, address: int, data: bytes) -> bool:
        """Put ``data`` into memory of any kind, from outside; False where there is none."""
        found = self._find(address, len(data))
        if found is None:
            return False
        region, offset = found
        region.bytes[offset : offset + len(data)] = data
        if self.filled:
            self.filled(address, len(data))
        return True


class EngineMemory:
    """Physical memory that another program mapped into an engine; address spaces do not matter."""

    def __init__(self, uc: Uc) -> None:
        self._uc = uc

    def read(self, address: int, size: int, space: PASpace = PASpace.NonSecure) -> bytes | None:
        """``size`` bytes at a physical address, None where there is no memory."""
        try:
            return bytes(self._uc.mem_read(address, size))
        except UcError:
            return None

    def write(self, address: int, data: bytes, space: PASpace = PASpace.NonSecure) -> bool:
        """Store ``data`` at a physical address; False where there is no memory."""
        try:
            self._uc.mem_write(address, data)
        except UcError:
            return False
        return True
