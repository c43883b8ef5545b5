"""Source lines and inlined calls of addresses; each file's table is read once."""

from __future__ import annotations

from spe_unicorn.report.spaces import function_or_nothing
from spe_unicorn.symbols.elf import ElfFile
from spe_unicorn.symbols.inlined import Frame, InlinedCalls
from spe_unicorn.symbols.lines import LineTable, read_lines
from spe_unicorn.symbols.places import Places


class Lines:
    """Names the source lines of addresses."""

    def __init__(self) -> None:
        self._tables: dict[str, LineTable] = {}

    def at(self, places: Places, address: int) -> str:
        """The source line of an address as ``main.c:12``, empty where it is not known."""
        place = places.at(address)
        if place is None:
            return ""
        line = self.table(place.file).at(place.linked)
        return "" if line is None else line.short

    def table(self, file: ElfFile) -> LineTable:
        """The line table of a file."""
        name = str(file.path)
        if name not in self._tables:
            self._tables[name] = read_lines(file)
        return self._tables[name]


class Calls:
    """Names the functions that addresses are in: inlined ones, and those that hold these."""

    def __init__(self) -> None:
        self._files: dict[str, InlinedCalls] = {}

    def at(self, places: Places, address: int) -> tuple[Frame, ...]:
        """The frames at an address, the innermost first; none where no symbol covers it.

        The last one is called as its symbol is.
        """
        place = places.at(address)
        name = function_or_nothing(places, address)
        if place is None or not name:
            return ()
        path = str(place.file.path)
        if path not in self._files:
            self._files[path] = InlinedCalls(place.file)
        frames = self._files[path].at(place.linked)
        if not frames:
            return (Frame(name, None),)
        return (*frames[:-1], frames[-1]._replace(function=name))
