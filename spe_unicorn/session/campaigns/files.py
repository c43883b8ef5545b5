"""Files that options of a machine name: where a name stands in a value, and who may write."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILES: Final = ("firmware", "kernel", "initrd", "dtb", "bios")
"""Options that are the name of a file."""
WITHIN: Final = ("core", "pflash", "fw_cfg", "drive", "load")
"""Options that have the name of a file within a text, all but ``core`` in each of several."""
FOLDER: Final = "semihosting_dir"
MOST_IN_FOLDER: Final = 10_000
_SUFFIXES: Final = {"pflash": (",readonly",), "drive": (",readonly", ",write")}


@dataclass(frozen=True)
class Named:
    """A text with the name of a file in it, and what stands before and behind that name."""

    before: str
    file: str
    behind: str

    def of(self, file: object) -> str:
        """The text with another name."""
        return f"{self.before}{file}{self.behind}"


def named(option: str, text: str) -> Named:
    """The name of a file in a value of an option of :data:`WITHIN`, empty where none is."""
    if option == "core":
        name, comma, behind = text.partition(",")
        return Named("", name, comma + behind)
    if option == "fw_cfg":
        name, equals, file = text.partition("=")
        return Named(name + equals, file, "")
    if option == "load":
        file, at, address = text.rpartition("@")
        return Named("", file, at + address)
    for suffix in _SUFFIXES[option]:
        if text.endswith(suffix):
            return Named("", text.removesuffix(suffix), suffix)
    return Named("", text, "")


def is_written(option: str, behind: str) -> bool:
    """Whether a run may change the file that an option names so."""
    return (option == "pflash" and not behind) or (option == "drive" and behind == ",write")


def files_below(folder: Path) -> list[str]:
    """The files in a folder and its folders, by their names below it, in order.

    Raises ValueError for what is no regular file, and for more than :data:`MOST_IN_FOLDER`.
    """
    found: list[str] = []
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = Path(here, name)
            if path.is_symlink() or not path.is_file():
                raise ValueError(f"{path} is no regular file")
            found.append(path.relative_to(folder).as_posix())
            if len(found) > MOST_IN_FOLDER:
                raise ValueError(f"{folder} has more than {MOST_IN_FOLDER} files")
    return sorted(found)
