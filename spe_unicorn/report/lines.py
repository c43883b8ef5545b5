"""Source lines of addresses; each file's table is read once."""

from __future__ import annotations

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
        name = str(place.file.path)
        if name not in self._tables:
            self._tables[name] = read_lines(place.file)
        line = self._tables[name].at(place.linked)
        return "" if line is None else line.short
