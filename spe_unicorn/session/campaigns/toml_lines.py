"""Finds the line of a key in a TOML file, for messages about that key."""

from __future__ import annotations

import re
import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\"'-]+?)\s*\]\]?")


class TomlLines:
    """The lines of a file that is valid TOML."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def header(self, table: str, number: int = 0) -> int:
        """The line of ``[table]``, or of the ``[[table]]`` with a number; 1 if there is none."""
        seen = -1
        for index in range(len(self._lines)):
            if self._header(index) == table:
                seen += 1
                if seen == number:
                    return index + 1
        return 1

    def key(self, table: str, key: str, number: int = 0) -> int:
        """The line of a key in a table; the line of the table's header if the key is not found."""
        start = self.header(table, number)
        name = re.compile(rf"""\s*(["']?){re.escape(key)}\1\s*[=.]""")
        for index in range(start, len(self._lines)):
            if self._header(index) is not None:
                break
            if name.match(self._lines[index]) and self._starts(index):
                return index + 1
        return start

    def _header(self, index: int) -> str | None:
        """The name of the table whose header is on this line, None if the line is no header."""
        found = _HEADER.match(self._lines[index])
        return found[2] if found and self._starts(index) else None

    def _starts(self, index: int) -> bool:
        """Whether a line begins a header or a key. Lines within a value of several lines do not."""
        try:
            tomllib.loads("\n".join(self._lines[:index]))
        except tomllib.TOMLDecodeError:
            return False
        return True
