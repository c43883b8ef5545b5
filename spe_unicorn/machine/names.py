"""Names and source lines for the addresses of what a board runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from spe_unicorn.machine.boot.image import Image
from spe_unicorn.symbols.elf import ElfError, ElfFile, read_elf
from spe_unicorn.symbols.frames import FrameRule, FrameTables
from spe_unicorn.symbols.inlined import Frame, InlinedCalls
from spe_unicorn.symbols.lines import Line, SourceLines
from spe_unicorn.symbols.places import Places

_KNOWN = 1 << 16
"""The most addresses whose lines are remembered."""

_Found = TypeVar("_Found")
_Told = TypeVar("_Told", covariant=True)


class _Tables(Protocol[_Told]):
    """What an ELF file tells of its addresses."""

    def at(self, address: int) -> _Told | None:
        """What it tells of ``address``, as it is linked; None for nothing."""


_Read = dict[Path, _Tables[_Found] | None]
"""The tables of the files that have been read, None for one that has none."""


class Names:
    """Names addresses by the image that ``image()`` gives, and by files that users add.

    Symbols are there at once. Source lines are read from an ELF file when one is first asked for.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("_frames", "_inlined", "_lines", "_known")

    def __init__(self, image: Callable[[], Image | None]) -> None:
        self._image = image
        self._added = Places()
        self._lines: _Read[Line] = {}
        self._frames: _Read[FrameRule] = {}
        self._inlined: _Read[tuple[Frame, ...]] = {}
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

    def function(self, address: int) -> str | None:
        """The name alone of :meth:`symbol`, None where no symbol covers ``address``."""
        symbol = self.symbol(address)
        return None if symbol is None else symbol.partition("+")[0]

    def located(self, address: int) -> tuple[Path, int] | None:
        """The file that has ``address``, and the address that it was linked for; None for none."""
        image = self._image()
        linked = None if image is None else image.linked(address)
        if image is not None and linked is not None:
            return image.path, linked
        place = self._added.at(address)
        return None if place is None else (place.file.path, place.linked)

    @property
    def files(self) -> list[Path]:
        """The files that name addresses, each once; the image is the first."""
        image = self._image()
        own = [] if image is None else [image.path]
        return list(dict.fromkeys([*own, *(file.path for file in self._added.files)]))

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
            self._known[address] = self._found(address, self._lines, SourceLines)
        return self._known[address]

    def frame(self, address: int) -> FrameRule | None:
        """How to find the caller of the function at ``address``, None if it is unknown."""
        return self._found(address, self._frames, FrameTables)

    def inlined(self, address: int) -> tuple[str, ...]:
        """The functions that the compiler has inlined there, that of the instruction first.

        The function of the symbol, which they were inlined into, is not among them.
        """
        frames = self._found(address, self._inlined, InlinedCalls) or ()
        return tuple(frame.function for frame in frames[:-1])

    def _found(
        self, address: int, read: _Read[_Found], make: Callable[[ElfFile], _Tables[_Found]]
    ) -> _Found | None:
        """What the image tells of an address, or else an added file does. Tables are kept."""
        image = self._image()
        linked = None if image is None else image.linked(address)
        if image is not None and linked is not None:
            tables = _tables_of(image.path, None, read, make)
            found = None if tables is None else tables.at(linked)
            if found is not None:
                return found
        place = self._added.at(address)
        if place is None:
            return None
        tables = _tables_of(place.file.path, place.file, read, make)
        return None if tables is None else tables.at(place.linked)


def _tables_of(
    path: Path,
    file: ElfFile | None,
    read: _Read[_Found],
    make: Callable[[ElfFile], _Tables[_Found]],
) -> _Tables[_Found] | None:
    """The tables of the file at ``path``, which ``file`` is if it has been opened."""
    if path not in read:
        try:
            read[path] = make(read_elf(path) if file is None else file)
        except ElfError:  # a kernel image, or one that was made in memory
            read[path] = None
    return read[path]
