"""Source files of a program: those that lie where the user has said that they may be read.

An ELF file names its sources by any path it likes, and may come from anybody. So a path of it is a
name to look for below some folders; no file outside of these is opened, whatever links lead there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from spe_unicorn.symbols.lines import Line
from spe_unicorn.symbols.table import printable

LARGEST: Final = 4 << 20
"""Bytes of the largest source file that is read."""
_STEPS: Final = 64
"""Steps of the longest path that is looked for."""


class Sources:
    """Lines of the source files below ``folders``, which stay as they were when first read.

    A file is looked for by its path, by the ends of its path, and by its name, in each folder.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(dict.fromkeys(Path(os.path.realpath(each)) for each in folders))
        self._files: dict[str, list[str] | None] = {}
        self.unread: dict[str, str] = {}
        """Why files were not read that were asked for: half a sentence by path."""

    def text(self, line: Line) -> str:
        """``main.c:12  the line``, or the place alone where the file cannot be read."""
        if line.path not in self._files:
            self._files[line.path] = self._read(line.path)
        lines = self._files[line.path]
        if lines is None or not 0 < line.number <= len(lines):
            return line.short
        return f"{line.short}  {lines[line.number - 1].strip()}".rstrip()

    def why_not(self, option: str) -> str | None:
        """A sentence about files that were not read; None if all were.

        ``option`` is how the user names another folder.
        """
        if not self.unread:
            return None
        (path, why), *others = self.unread.items()
        name, folder = printable(os.path.basename(path)), printable(os.path.dirname(path))
        more = f" and {len(others)} more" if others else ""
        folders = ", ".join(printable(str(each)) for each in self._folders)
        there = f" (the compiler had it in {folder})" if folder else ""
        return f"no source of {name}{more}: {why} {folders}; name its folder by {option}{there}"

    def _read(self, path: str) -> list[str] | None:
        why = "it is not in"
        for folder, name in self._candidates(path):
            text, refused = _text(folder, name)
            if text is not None:
                return text.splitlines()
            why = refused or why
        self.unread[path] = why
        return None

    def _candidates(self, path: str) -> Iterator[tuple[Path, str]]:
        """Folders and what to look for in them, likeliest first.

        Compilers that rewrite paths may write the first folders twice: a path is tried without
        them, down to its name.
        """
        parts = path.split("/")[-_STEPS:]
        if path.startswith("/"):
            yield from ((folder, path) for folder in self._folders)
        for start in range(len(parts)):
            below = "/".join(parts[start:])
            if below and not below.startswith(("/", "../")):
                yield from ((folder, below) for folder in self._folders)


def _text(folder: Path, name: str) -> tuple[str | None, str | None]:
    """The text of a file below a folder; or else why it is not read, None where it is not there."""
    try:
        real = os.path.realpath(folder / name)
        if not Path(real).is_relative_to(folder):
            return None, None
        # O_NONBLOCK: a FIFO would wait for its writer. O_NOFOLLOW: no link is left in a real path
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(real, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None, "it is no regular file in"
            data = file.read(LARGEST + 1)
    except (OSError, ValueError):
        return None, None
    if len(data) > LARGEST:
        return None, f"it is larger than {LARGEST >> 20} MiB in"
    return data.decode(errors="replace"), None
