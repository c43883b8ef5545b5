"""A disk whose writes are kept in the machine, so that the file beneath stays and runs repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.devices.virtio.block import Disk
from spe_unicorn.plain import Count
from spe_unicorn.stateful import Stateful, expect

_PAGE: Final = 4096


@dataclass(slots=True)
class OverlayState:
    """What has been written."""

    pages: dict[Count, bytes] = field(default_factory=dict)
    """Pages by number: no more of them than the disk has."""


class Overlay(Stateful[OverlayState]):
    """Reads as ``beneath`` where nothing has been written."""

    read_only = False

    def __init__(self, beneath: Disk) -> None:
        self._beneath = beneath
        self.size = beneath.size
        self.s = OverlayState()

    def check(self, state: OverlayState) -> None:
        """Raise StateError for pages that the disk has not."""
        sizes = ((at, min(_PAGE, self.size - at * _PAGE)) for at in state.pages)
        expect(all(len(state.pages[at]) == size > 0 for at, size in sizes), "a page of the disk")

    def read(self, offset: int, size: int) -> bytes | None:
        """Bytes, None where those beneath cannot be read."""
        data = self._beneath.read(offset, size)
        if data is None:
            return None
        result = bytearray(data)
        for page in range(offset // _PAGE, -(-(offset + size) // _PAGE)):
            kept = self.s.pages.get(page)
            if kept is not None:
                first, end = max(offset, page * _PAGE), min(offset + size, (page + 1) * _PAGE)
                part = kept[first - page * _PAGE : end - page * _PAGE]
                result[first - offset : end - offset] = part
        return bytes(result)

    def write(self, offset: int, data: bytes) -> bool:
        """Keep bytes; False where the rest of their pages cannot be read."""
        first = offset // _PAGE * _PAGE
        end = min(-(-(offset + len(data)) // _PAGE) * _PAGE, self.size)
        whole = self.read(first, end - first)
        if whole is None:
            return False
        at = offset - first
        whole = whole[:at] + data + whole[at + len(data) :]
        for place in range(0, len(whole), _PAGE):
            self.s.pages[(first + place) // _PAGE] = whole[place : place + _PAGE]
        return True

    def flush(self) -> bool:
        """There is nothing to store."""
        return True
