"""What a server of files asks the folder that it serves. All raises OSError, as Linux would."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

Path = tuple[bytes, ...]
"""Names from the folder down; the folder itself is ()."""
BLOCK: Final = 4096
BLOCKS: Final = 1 << 28
"""Blocks that are said to be there, and free: the host's own would differ from run to run."""
NAME_MAX: Final = 255
Data = bytes | memoryview
_DEPTH, _PATH = 128, 4096


def named(folder: Path, name: bytes) -> Path:
    """What has that name in a folder. Raises OSError for what is no name, and for a long way."""
    if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
        raise OSError(errno.EINVAL, "")
    path = (*folder, name)
    if len(name) > NAME_MAX or len(path) > _DEPTH or sum(map(len, path)) + len(path) > _PATH:
        raise OSError(errno.ENAMETOOLONG, "")
    return path


def moved(path: Path, old: Path, new: Path) -> Path:
    """What a path is after something was renamed."""
    return new + path[len(old) :] if path[: len(old)] == old else path


@dataclass(frozen=True)
class Changes:
    """What of a file is to be set; None leaves it. Times are nanoseconds, -1 is the present."""

    mode: int | None = None
    size: int | None = None
    accessed: int | None = None
    modified: int | None = None


class Folder(Protocol):
    """A folder with all that is in it. ``handle`` is the server's number for an open file."""

    def status(self, path: Path) -> os.stat_result:
        """What is there; of a symbolic link, the link."""
        ...

    def open(self, handle: int, path: Path, flags: int) -> os.stat_result:
        """Open a regular file or a folder."""
        ...

    def create(self, handle: int, path: Path, flags: int, mode: int) -> os.stat_result:
        """Make a regular file and open it."""
        ...

    def read(self, handle: int, path: Path, flags: int, offset: int, count: int) -> bytes:
        """Bytes of a file, opened anew where it no longer is; fewer at its end."""
        ...

    def write(self, handle: int, path: Path, flags: int, offset: int, data: Data) -> int:
        """Store bytes; how many were."""
        ...

    def sync(self, handle: int, path: Path, flags: int) -> None:
        """Have what was written stored for good."""
        ...

    def opened(self, handle: int, path: Path, flags: int) -> os.stat_result:
        """What an open file is, wherever it is by now."""
        ...

    def close(self, handle: int) -> None:
        """Close it, if it is open."""
        ...

    def forget(self) -> None:
        """Close all that is open."""
        ...

    def entries(self, path: Path) -> Sequence[tuple[bytes, int, int]]:
        """Name, inode number and kind (``DT_`` of readdir) of what is in a folder, by name."""
        ...

    def link_target(self, path: Path) -> bytes:
        """Where a symbolic link leads to."""
        ...

    def make_folder(self, path: Path, mode: int) -> os.stat_result:
        """Make a folder."""
        ...

    def remove(self, path: Path, *, folder: bool) -> None:
        """Remove a folder, or something else."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Move something; what is there is replaced."""
        ...

    def link(self, old: Path, new: Path) -> None:
        """Another name for a file."""
        ...

    def change(self, path: Path, changes: Changes) -> None:
        """Change attributes."""
        ...
