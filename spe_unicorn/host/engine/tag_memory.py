"""Allocation Tags of guest memory (FEAT_MTE2): 4 bits for each granule of 16 bytes.

They lie beside the memory, a byte each, so that compiled code reads one by its number. The host
provides memory only for those that were written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from spe_unicorn.arch.rules.tagging import GRANULE
from spe_unicorn.plain import Bits64
from spe_unicorn.stateful import Stateful, expect

_PAGE: Final = 4096
_IN_PAGE: Final = _PAGE // GRANULE
_PACKED: Final = _IN_PAGE // 2
"""Bytes that hold the tags of a page in a saved state."""


@dataclass
class TagState:
    """The tags that are not 0, by physical address of a page; the lower granule has bits 3:0."""

    pages: dict[Bits64, bytes] = field(default_factory=dict)


class _Region:
    """The tags of one region of memory."""

    DERIVED = ("tags", "used")

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self.size = size
        # zeros that nobody has written take no memory of the host
        self.tags = np.zeros(size // GRANULE, np.uint8)
        self.used = np.zeros(-(-size // _PAGE), np.uint8)
        """For each page, whether a tag that is not 0 was ever written there."""


class AllocationTags(Stateful[TagState]):
    """The tags of some regions of physical memory: first address and size of each, ascending.

    ``s`` is empty while the machine runs: a saved state is made of the tags. Raises MemoryError
    where the host has not that much.
    """

    def __init__(self, regions: Sequence[tuple[int, int]]) -> None:
        self.s = TagState()
        self._regions = [_Region(base, size) for base, size in regions]
        self._bases = [base for base, _ in regions]

    def largest(self) -> tuple[int, int, int, int]:
        """Of the largest region: its first address, its end, and where ``tags`` and ``used`` lie.

        Where there is no region all are 0.
        """
        if not self._regions:
            return 0, 0, 0, 0
        region = max(self._regions, key=lambda region: region.size)
        end = region.base + region.size
        return region.base, end, region.tags.ctypes.data, region.used.ctypes.data

    def _find(self, address: int) -> tuple[_Region, int] | None:
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        region = self._regions[index]
        offset = address - region.base
        return (region, offset) if offset < region.size else None

    def read(self, address: int) -> int | None:
        """The tag of a physical address; None where memory has none."""
        found = self._find(address)
        return None if found is None else int(found[0].tags[found[1] // GRANULE])

    def write(self, address: int, tag: int) -> None:
        """Set the tag of a physical address. Where memory has none it is lost."""
        found = self._find(address)
        if found is None:
            return
        region, offset = found
        region.tags[offset // GRANULE] = tag
        if tag:
            region.used[offset // _PAGE] = 1

    def clear(self) -> None:
        """All tags are 0 again."""
        for region in self._regions:
            for page in np.flatnonzero(region.used):
                region.tags[page * _IN_PAGE : (page + 1) * _IN_PAGE] = 0
            region.used[:] = 0

    def save(self) -> TagState:
        """A copy of the tags."""
        pages: dict[int, bytes] = {}
        for region in self._regions:
            for page in np.flatnonzero(region.used):
                tags = region.tags[page * _IN_PAGE : (page + 1) * _IN_PAGE]
                if tags.any():
                    pages[region.base + int(page) * _PAGE] = (tags[::2] | tags[1::2] << 4).tobytes()
        return TagState(pages)

    def check(self, state: TagState) -> None:
        """Raise StateError for tags of memory that there is not."""
        for address, packed in state.pages.items():
            found = self._find(address)
            expect(found is not None and address % _PAGE == 0, f"a page of tags at {address:#x}")
            expect(len(packed) == _PACKED, f"{len(packed)} bytes of tags at {address:#x}")

    def put(self, state: TagState) -> None:
        """Take tags that :meth:`save` gave."""
        self.clear()
        for address, packed in state.pages.items():
            found = self._find(address)
            if found is None:
                continue
            region, offset = found
            first, both = offset // GRANULE, np.frombuffer(packed, np.uint8)
            region.tags[first : first + _IN_PAGE : 2] = both & 0xF
            region.tags[first + 1 : first + _IN_PAGE : 2] = both >> 4
            region.used[offset // _PAGE] = 1
