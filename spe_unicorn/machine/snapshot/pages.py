"""Guest memory as it was: its pages that are not all zeros. Snapshots share equal pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.stateful import expect

PAGE: Final = 4096
"""Bytes of a page."""
_ZEROS: Final = bytes(PAGE)


@dataclass(frozen=True)
class Pages:
    """What memory held: pages by physical address; all others held zeros."""

    pages: dict[int, bytes]

    @property
    def size(self) -> int:
        """Bytes of the pages that there are."""
        return len(self.pages) * PAGE

    def since(self, earlier: Pages) -> dict[int, bytes]:
        """The pages that differ from those of ``earlier``: no bytes for one that is zeros now."""
        before = earlier.pages
        new = {at: page for at, page in self.pages.items() if before.get(at) != page}
        gone = before.keys() - self.pages.keys()
        return {**new, **dict.fromkeys(gone, b"")}


NO_PAGES: Final = Pages({})


def save_pages(memory: RamMemory, earlier: Pages = NO_PAGES) -> Pages:
    """What memory holds now.

    A page that is equal to the page in ``earlier`` is that same object, and so takes no more room.
    """
    known = earlier.pages
    pages: dict[int, bytes] = {}
    for region in memory.regions:
        base, data = region.base, region.bytes
        for first, end in region.used():
            for offset in range(first, end, PAGE):
                page = bytes(data[offset : offset + PAGE])
                before = known.get(base + offset, _ZEROS)
                if page != before:
                    pages[base + offset] = page
                elif before is not _ZEROS:
                    pages[base + offset] = before
    # a page that held something in `earlier` and is all zeros now is among them: leave it out
    return Pages({at: page for at, page in pages.items() if page != _ZEROS} if known else pages)


def check_pages(memory: RamMemory, saved: Pages) -> None:
    """Raise StateError for pages where there is no memory."""
    addresses = np.fromiter(saved.pages, np.uint64, len(saved.pages))
    there = np.zeros(len(addresses), bool)
    for region in memory.regions:
        there |= (addresses >= region.base) & (addresses < region.base + len(region.bytes))
    whole = set(map(len, saved.pages.values())) <= {PAGE} and not (addresses % PAGE).any()
    expect(whole and bool(there.all()), "a page of memory")


def restore_pages(memory: RamMemory, saved: Pages) -> None:
    """Have memory hold ``saved``, and zeros everywhere else."""
    for region in memory.regions:
        _clear_others(region, saved.pages)
    for at, page in saved.pages.items():
        memory.fill(at, page)


def _clear_others(region: Ram, pages: dict[int, bytes]) -> None:
    """Clear the pages of ``region`` that may hold something and are not in ``pages``.

    Pages in a row are cleared together.
    """
    for first, end in list(region.used()):
        begin = None
        for offset in range(first, end, PAGE):
            if region.base + offset in pages:
                if begin is not None:
                    region.clear(begin, offset - begin)
                begin = None
            elif begin is None:
                begin = offset
        if begin is not None:
            region.clear(begin, end - begin)
