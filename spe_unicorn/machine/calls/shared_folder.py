"""The one host folder that a guest may use through semihosting, and nothing beside it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

_PIECE = 1 << 20
_CREATE, _APPEND = os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_APPEND
_FLAGS = (
    os.O_RDONLY,  # "r"
    os.O_RDWR,  # "r+"
    os.O_WRONLY | _CREATE,  # "w"
    os.O_RDWR | _CREATE,  # "w+"
    os.O_WRONLY | _APPEND,  # "a"
    os.O_RDWR | _APPEND,  # "a+"
)
"""What the modes of ISO C mean, in the order in which semihosting numbers them."""


class SharedFile:
    """An open regular file. All methods raise OSError as the host's calls do."""

    is_terminal = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes from the current position; none at the end of the file."""
        return os.read(self._descriptor, size)

    def write(self, data: bytes) -> None:
        """Store all of ``data`` at the current position."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def seek(self, position: int) -> None:
        """Go to a byte counted from the start."""
        os.lseek(self._descriptor, position, os.SEEK_SET)

    def position(self) -> int:
        """Where the next byte is read or written, counted from the start."""
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def length(self) -> int:
        """The size of the file in bytes."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class SharedFolder:
    """A folder whose files, and those of its sub-folders, the guest may open, rename and remove.

    Every step of a name is opened relative to the one before it, without following symbolic
    links, so that no name and no change on the host in between can lead outside.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, name: bytes, mode: int, *, again: bool = False) -> SharedFile:
        """Open a regular file; ``mode`` counts r, r+, w, w+, a, a+ from 0. Raises OSError.

        ``again`` leaves what is in it, and makes no new one.
        """
        with self._parent(name) as (parent, last):
            # O_NONBLOCK: a FIFO would wait for its other end before we can see what it is.
            how = _FLAGS[mode] & ~(os.O_TRUNC | os.O_CREAT) if again else _FLAGS[mode]
            flags = how | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(last, flags, 0o644, dir_fd=parent)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _error(errno.EACCES)
        return SharedFile(descriptor)

    def digest(self, name: bytes) -> str:
        """A digest of what is in a file, in hexadecimal; empty where it cannot be read."""
        try:
            file = self.open(name, 0)
        except OSError:
            return ""
        found = blake2b(digest_size=16)
        try:
            while data := file.read(_PIECE):
                found.update(data)
        except OSError:
            return ""
        finally:
            file.close()
        return found.hexdigest()

    def remove(self, name: bytes) -> None:
        """Remove a file. Raises OSError."""
        with self._parent(name) as (parent, last):
            os.unlink(last, dir_fd=parent)

    def rename(self, old: bytes, new: bytes) -> None:
        """Rename or move a file inside the folder. Raises OSError."""
        with self._parent(old) as (source, last), self._parent(new) as (target, new_last):
            os.rename(last, new_last, src_dir_fd=source, dst_dir_fd=target)

    @contextmanager
    def _parent(self, name: bytes) -> Iterator[tuple[int, bytes]]:
        """The open folder that holds ``name``, and the last part of the name."""
        steps = [step for step in name.split(b"/") if step not in (b"", b".")]
        if not steps or name.startswith(b"/") or b".." in steps or b"\0" in name:
            raise _error(errno.EACCES)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        here = os.open(self._directory, flags)
        try:
            for step in steps[:-1]:
                below = os.open(step, flags | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = below
            yield here, steps[-1]
        finally:
            os.close(here)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
