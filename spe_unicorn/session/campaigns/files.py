"""Files that options of a machine name: where a name stands in a value, and who may write."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILES: Final = ("firmware", "kernel", "initrd", "dtb", "bios")
"""Options that are the name of a file."""
WITHIN: Final = ("core", "pflash", "fw_cfg", "drive", "load")
"""Options that have the name of a file within a text, all but ``core`` in each of several."""
FOLDERS: Final = ("semihosting_dir", "share")
"""Options that are a folder, or have the names of several, in which a run may change everything."""
MOST_IN_FOLDER: Final = 10_000
_SUFFIXES: Final = {
    "pflash": (",readonly",),
    "drive": (",readonly", ",write"),
    "share": (",readonly",),
}


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
    """The name of a file or folder in a value of an option of :data:`WITHIN` or :data:`FOLDERS`.

    Empty where none is.
    """
    if option == "core":
        name, comma, behind = text.partition(",")
        return Named("", name, comma + behind)
    if option == "fw_cfg":
        name, equals, file = text.partition("=")
        return Named(name + equals, file, "")
    if option == "load":
        file, at, address = text.rpartition("@")
        return Named("", file, at + address)
    for suffix in _SUFFIXES.get(option, ()):
        if text.endswith(suffix):
            return Named("", text.removesuffix(suffix), suffix)
    return Named("", text, "")


def is_written(option: str, behind: str) -> bool:
    """Whether a run may change the file that an option names so."""
    return (option == "pflash" and not behind) or (option == "drive" and behind == ",write")


@dataclass(frozen=True)
class Below:
    """What is in a folder, by names below it, in order: folders, files, and which can be run."""

    folders: list[str]
    files: list[str]
    programs: list[str]


def what_is_below(folder: Path) -> Below:
    """All that is in a folder and its folders.

    Raises OSError, and ValueError for what is neither a regular file nor a folder, and for more
    than :data:`MOST_IN_FOLDER`.
    """
    found = Below([], [], [])

    def refuse(error: OSError) -> None:
        raise error

    for here, folders, names in os.walk(folder, onerror=refuse):
        for name in (*folders, *names):
            path = Path(here, name)
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise ValueError(f"{path} is no regular file")
            below = path.relative_to(folder).as_posix()
            (found.folders if stat.S_ISDIR(mode) else found.files).append(below)
            if stat.S_ISREG(mode) and mode & stat.S_IXUSR:
                found.programs.append(below)
        if len(found.files) + len(found.folders) > MOST_IN_FOLDER:
            raise ValueError(f"{folder} has more than {MOST_IN_FOLDER} files and folders")
    for names in (found.folders, found.files, found.programs):
        names.sort()
    return found
