"""Firmware as the loader hands it to the machine: what goes where, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spe_unicorn.symbols.table import SymbolTable

EXECUTE, WRITE, READ = 1, 2, 4
"""The bits of :attr:`Segment.flags`, as ELF numbers them."""


class LoadError(ValueError):
    """A firmware file that cannot be loaded; the message is one line with the file's name."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of memory that the image fills: ``data``, then zeros up to ``size`` bytes.

    ``address`` is physical, ``vaddr`` the address that the code was linked for, ``flags`` are
    :data:`READ`, :data:`WRITE` and :data:`EXECUTE`, ``offset`` is the place in the file.
    """

    address: int
    data: bytes
    size: int
    vaddr: int
    flags: int
    offset: int

    @property
    def end(self) -> int:
        """The first physical address after the segment."""
        return self.address + self.size


@dataclass(frozen=True)
class Image:
    """Firmware ready to be copied into RAM.

    ``entry`` is physical. Symbols carry link addresses, moved by ``bias`` when ``is_pie``.
    """

    path: Path
    entry: int
    segments: tuple[Segment, ...]
    symbols: SymbolTable
    is_pie: bool = False
    bias: int = 0

    def symbolize(self, address: int) -> str | None:
        """A virtual or physical address as ``name+0x10``, or None where no symbol covers it.

        The physical reading is for code that runs before it turns the MMU on.
        """
        place = self._virtual(address)
        return None if place is None else self.symbols.symbolize(place)

    def linked(self, address: int) -> int | None:
        """The address that the file was linked for, of a virtual or physical one; None outside."""
        place = self._virtual(address)
        return None if place is None else place - self.bias

    def _virtual(self, address: int) -> int | None:
        for segment in self.segments:
            if segment.vaddr <= address < segment.vaddr + segment.size:
                return address
        for segment in self.segments:
            if segment.address <= address < segment.end:
                return address - segment.address + segment.vaddr
        return None
