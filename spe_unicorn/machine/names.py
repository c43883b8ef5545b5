"""Names and source lines for the addresses of what a board runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from spe_unicorn.machine.boot.image import Image
from spe_unicorn.symbols.elf import ElfError, ElfFile, read_elf
from spe_unicorn.symbols.frames import FrameRule, FrameTables
from spe_unicorn.symbols.lines import Line, SourceLines
from spe_unicorn.symbols.places import Places

_KNOWN = 1 << 16
"""The most addresses whose lines are remembered."""


class Names:
    """Names addresses by the image that ``image()`` gives, and by files that users add.

    Symbols are there at once. Source lines are read from an ELF file when one is first asked for.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("_frames", "_lines", "_known")

    def __init__(self, image: Callable[[], Image | None]) -> None:
        self._image = image
        self._added = Places()
        self._lines: dict[Path, SourceLines | None] = {}
        self._frames: dict[Path, FrameTables | None] = {}
        self._known: dict[int, Line | None] = {}

    def add(self, file: ElfFile, address: int | None = None) -> None:
        """A file is in memory, its lowest byte at ``address``: by default where it is linked."""
        self._added.add_file(file, address)
        self._known.clear()

    def symbol(self, address: int) -> str | None:
        """``address`` as ``name+0x10``, None where no symbol covers it."""
        image = self._image()
        found = None if image is None else image.symbolize(address)
        return found if found is not None else self._added.symbolize(address)

    def extents(self, name: str) -> list[tuple[int, int]]:
        """The first and last address of each place that bears a name, virtual or physical."""
        image = self._image()
        found = set(self._added.extents(name))
        if image is not None:
            for first, last in image.symbols.extents(name):
                found.add((first, last))
                for segment in image.segments:
                    if segment.vaddr <= first < segment.vaddr + segment.size:
                        moved = segment.address - segment.vaddr
                        found.add((first + moved, last + moved))
        return sorted(found)

    def line(self, address: int) -> Line | None:
        """The source line of the instruction at ``address``, None if it is unknown."""
        if address not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[address] = self._line(address)
        return self._known[address]

    def _line(self, address: int) -> Line | None:
        image = self._image()
        linked = None if image is None else image.linked(address)
        if image is not None and linked is not None:
            lines = self._lines_of(image.path)
            found = None if lines is None else lines.at(linked)
            if found is not None:
                return found
        place = self._added.at(address)
        if place is None:
            return None
        lines = self._lines_of(place.file.path, place.file)
        return None if lines is None else lines.at(place.linked)

    def frame(self, address: int) -> FrameRule | None:
        """How to find the caller of the function at ``address``, None if it is unknown."""
        image = self._image()
        linked = None if image is None else image.linked(address)
        if image is not None and linked is not None:
            tables = self._frames_of(image.path)
            found = None if tables is None else tables.at(linked)
            if found is not None:
                return found
        place = self._added.at(address)
        if place is None:
            return None
        tables = self._frames_of(place.file.path, place.file)
        return None if tables is None else tables.at(place.linked)

    def _frames_of(self, path: Path, file: ElfFile | None = None) -> FrameTables | None:
        if path not in self._frames:
            try:
                self._frames[path] = FrameTables(read_elf(path) if file is None else file)
            except ElfError:
                self._frames[path] = None
        return self._frames[path]

    def _lines_of(self, path: Path, file: ElfFile | None = None) -> SourceLines | None:
        if path not in self._lines:
            try:
                self._lines[path] = SourceLines(read_elf(path) if file is None else file)
            except ElfError:  # a kernel image, or one that was made in memory
                self._lines[path] = None
        return self._lines[path]
