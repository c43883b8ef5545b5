"""Names of files in the values of options, and which of those files a run may change."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILES: Final = ("firmware", "kernel", "initrd", "dtb", "bios")
"""Options whose whole value is the name of a file."""
WITHIN: Final = ("core", "pflash", "fw_cfg", "drive", "load")
"""Options whose value is a text with the name of a file in it. All but ``core`` have a list of such
texts."""
FOLDERS: Final = ("semihosting_dir", "share")
"""Options that name folders, ``share`` several of them. A run gets copies of these folders."""
MOST_IN_FOLDER: Final = 10_000
"""The most files and folders that a folder may contain."""
_SUFFIXES: Final = {
    "pflash": (",readonly",),
    "drive": (",readonly", ",write"),
    "share": (",readonly,virtiofs", ",virtiofs", ",readonly"),
}
"""What the value of an option may have after the name of its file."""


@dataclass(frozen=True)
class Named:
    """A text with the name of a file in it: what is before the name, the name, what is after it."""

    before: str
    file: str
    behind: str

    def of(self, file: object) -> str:
        """The text, with ``file`` in place of the name."""
        return f"{self.before}{file}{self.behind}"


def named(option: str, text: str) -> Named:
    """Split a value of an option of :data:`WITHIN` or :data:`FOLDERS` at the name of its file.

    The name is empty if the value has none.
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
    """Whether a run may change the file of an option that has ``behind`` after the file's name."""
    return (option == "pflash" and not behind) or (option == "drive" and behind == ",write")


class FileError(Exception):
    """A file or a folder that a campaign cannot take. The message is one line."""


@dataclass(frozen=True)
class Below:
    """The contents of a folder: sorted names relative to it. ``programs`` are executable files."""

    folders: list[str]
    files: list[str]
    programs: list[str]


def what_is_below(folder: Path) -> Below:
    """The contents of a folder, and of the folders in it.

    Raises OSError. Raises FileError if something is neither a regular file nor a folder, or if
    there are more than :data:`MOST_IN_FOLDER` files and folders.
    """
    found = Below([], [], [])

    def refuse(error: OSError) -> None:
        raise error

    for here, folders, names in os.walk(folder, onerror=refuse):
        for name in (*folders, *names):
            path = Path(here, name)
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise FileError(f"{path} is no regular file")
            below = path.relative_to(folder).as_posix()
            (found.folders if stat.S_ISDIR(mode) else found.files).append(below)
            if stat.S_ISREG(mode) and mode & stat.S_IXUSR:
                found.programs.append(below)
        if len(found.files) + len(found.folders) > MOST_IN_FOLDER:
            raise FileError(f"{folder} has more than {MOST_IN_FOLDER} files and folders")
    for names in (found.folders, found.files, found.programs):
        names.sort()
    return found
