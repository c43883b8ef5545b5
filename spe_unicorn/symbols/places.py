"""Names for the addresses of a running program, whose pieces come from several ELF files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spe_unicorn.symbols.elf import ElfFile
from spe_unicorn.symbols.lines import SourceLines
from spe_unicorn.symbols.table import Symbol, printable


class Place(NamedTuple):
    """An address in a program: its file, the address that it was linked for, and its symbol."""

    file: ElfFile
    linked: int
    symbol: Symbol | None

    @property
    def name(self) -> str | None:
        """``name+0x10``, None without a symbol. It can be printed."""
        if self.symbol is None:
            return None
        offset = self.linked - self.symbol.address
        name = printable(self.symbol.name)
        return f"{name}+{offset:#x}" if offset else name


class _Range(NamedTuple):
    start: int
    end: int
    file: ElfFile
    bias: int


class Places:
    """Which file is where. What was added first is found first where ranges overlap."""

    def __init__(self) -> None:
        self._ranges: list[_Range] = []
        self._sorted: list[_Range] | None = None
        self._starts: list[int] = []
        self._lines: dict[Path, SourceLines] = {}

    def __bool__(self) -> bool:
        return bool(self._ranges)

    @property
    def files(self) -> list[ElfFile]:
        """The files, each once."""
        return list({str(r.file.path): r.file for r in self._ranges}.values())

    def add_file(self, file: ElfFile, address: int | None = None) -> None:
        """A whole file is in memory, its lowest byte at ``address``: by default where it is linked.

        Its load addresses count too: firmware runs there before it turns the MMU on.
        """
        bias = 0 if address is None else address - file.lowest
        for piece in file.pieces:
            self._add(piece.vaddr + bias, piece.size, file, bias)
        for piece in file.pieces:
            self._add(piece.paddr + bias, piece.size, file, bias + piece.paddr - piece.vaddr)

    def add_mapping(self, file: ElfFile, address: int, size: int, offset: int) -> bool:
        """Bytes of a file from ``offset`` on are in memory at ``address``.

        Returns False where the file has no load segment there.
        """
        for piece in file.pieces:
            if (offset, size) == (piece.offset, piece.size):  # all of a segment, zeros included
                self._add(address, size, file, address - piece.vaddr)
                return True
        for piece in file.pieces:
            # The kernel maps pages: one begins before the segment does.
            if offset < piece.offset + piece.file_size and offset + size > piece.offset:
                self._add(address, size, file, address - offset + piece.offset - piece.vaddr)
                return True
        return False

    def at(self, address: int) -> Place | None:
        """What is at an address, None where no file is."""
        ranges = self._sort() if self._sorted is None else self._sorted
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= ranges[index].end:
            return None
        found = ranges[index]
        linked = address - found.bias
        return Place(found.file, linked, found.file.symbols.at(linked))

    def symbolize(self, address: int) -> str | None:
        """``address`` as ``name+0x10``, None where no symbol covers it."""
        place = self.at(address)
        return None if place is None else place.name

    def described(self, address: int) -> str | None:
        """``address`` as ``name+0x10 (main.c:42)``, as far as that is known. It can be printed."""
        place = self.at(address)
        if place is None:
            return None
        if place.file.path not in self._lines:
            self._lines[place.file.path] = SourceLines(place.file)
        line = self._lines[place.file.path].at(place.linked)
        said = [place.name, None if line is None else f"({line.short})"]
        return " ".join(word for word in said if word) or None

    def extents(self, name: str) -> Iterator[tuple[int, int]]:
        """The first and last address of each place that bears a name."""
        for row in self._ranges:
            for first, last in row.file.symbols.extents(name):
                if row.start <= first + row.bias < row.end:
                    yield first + row.bias, last + row.bias

    def _add(self, start: int, size: int, file: ElfFile, bias: int) -> None:
        self._ranges.append(_Range(start, start + size, file, bias))
        self._sorted = None

    def _sort(self) -> list[_Range]:
        """Make ranges that do not overlap of those that were added, the first ones whole."""
        free: list[_Range] = []
        for new in self._ranges:
            parts = [(new.start, new.end)]
            for old in free:
                parts = [
                    part
                    for start, end in parts
                    for part in ((start, min(end, old.start)), (max(start, old.end), end))
                    if part[0] < part[1]
                ]
            free += [_Range(start, end, new.file, new.bias) for start, end in parts]
        self._sorted = sorted(free, key=lambda r: r.start)
        self._starts = [r.start for r in self._sorted]
        return self._sorted
