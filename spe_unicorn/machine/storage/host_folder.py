"""A host folder that a guest has as a file system: it, what is in it, and nothing beside it.

Every step of a path is opened relative to the one before it, without following symbolic links, so
that no name, and no change on the host in between, leads outside. Devices, FIFOs and sockets that
are there can be seen but not opened, and the guest makes none, nor symbolic links.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from spe_unicorn.devices.virtio.folder import Changes, Data, Path
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.files import naming
from spe_unicorn.machine.storage.backing import split_share

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_ACCESS, _TRUNCATE, _APPEND, _EXCLUSIVE = 0o3, 0o1000, 0o2000, 0o200
"""Flags of an open, as Linux numbers them on arm64 and x86."""
_OPEN_MAX: Final = 256
"""Files that the guest may have open at once."""
_PERMISSIONS: Final = 0o777


class HostFolder:
    """One folder of ``--share``. Methods raise OSError; the constructor LoadError, with its name.

    Files stay open while the guest has them open, so that one that is removed can still be read.
    """

    DERIVED = ("_open",)
    WIRING = ("_root",)

    def __init__(self, text: str) -> None:
        name, self.read_only, self.virtiofs = split_share(text)
        self._open: dict[int, int] = {}
        self._root = -1
        with naming(name):
            try:
                self._root = os.open(name, _FOLDER)
            except OSError as error:
                raise LoadError(error.strerror or "cannot be opened") from None
            except ValueError:  # the name holds a NUL
                raise LoadError("is not a file name") from None

    def give_back(self) -> None:
        """Close everything, the folder as well."""
        self.forget()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def __del__(self) -> None:
        self.give_back()

    # devices.virtio.folder.Folder

    def status(self, path: Path) -> os.stat_result:
        """What is there."""
        if not path:
            return os.fstat(self._root)
        with self._parent(path) as (parent, last):
            return os.stat(last, dir_fd=parent, follow_symlinks=False)

    def open(self, handle: int, path: Path, flags: int) -> os.stat_result:
        """Open a regular file or a folder."""
        status = self.status(path)
        if stat.S_ISDIR(status.st_mode):
            if flags & _ACCESS:
                raise _error(errno.EISDIR)
            return status
        self._keep(handle, self._file(path, flags))
        return self.status(path)

    def create(self, handle: int, path: Path, flags: int, mode: int) -> os.stat_result:
        """Make a regular file and open it."""
        self._may_write()
        how = os.O_CREAT | (os.O_EXCL if flags & _EXCLUSIVE else 0)
        self._keep(handle, self._file(path, flags, how, mode & _PERMISSIONS))
        return os.fstat(self._open[handle])

    def read(self, handle: int, path: Path, flags: int, offset: int, count: int) -> bytes:
        """Bytes of a file, fewer at its end."""
        return os.pread(self._descriptor(handle, path, flags), count, _offset(offset))

    def write(self, handle: int, path: Path, flags: int, offset: int, data: Data) -> int:
        """Store bytes; how many were."""
        self._may_write()
        return os.pwrite(self._descriptor(handle, path, flags), data, _offset(offset))

    def sync(self, handle: int, path: Path, flags: int) -> None:
        """Have what was written stored for good."""
        if not stat.S_ISDIR(self.status(path).st_mode):
            os.fsync(self._descriptor(handle, path, flags))

    def opened(self, handle: int, path: Path, flags: int) -> os.stat_result:
        """What an open file is, wherever it is by now."""
        return os.fstat(self._descriptor(handle, path, flags))

    def close(self, handle: int) -> None:
        """Close it, if it is open."""
        descriptor = self._open.pop(handle, None)
        if descriptor is not None:
            os.close(descriptor)

    def forget(self) -> None:
        """Close all that is open."""
        for handle in tuple(self._open):
            self.close(handle)

    def entries(self, path: Path) -> list[tuple[bytes, int, int]]:
        """Name, inode number and kind of what is in a folder, by name."""
        with self._folder(path) as folder, os.scandir(folder) as there:
            return sorted((os.fsencode(e.name), e.inode(), _kind(e)) for e in there)

    def link_target(self, path: Path) -> bytes:
        """Where a symbolic link leads to: for the guest to follow, in its own file system."""
        with self._parent(path) as (parent, last):
            return os.readlink(last, dir_fd=parent)

    def make_folder(self, path: Path, mode: int) -> os.stat_result:
        """Make a folder."""
        self._may_write()
        with self._parent(path) as (parent, last):
            os.mkdir(last, mode & _PERMISSIONS, dir_fd=parent)
        return self.status(path)

    def remove(self, path: Path, *, folder: bool) -> None:
        """Remove a folder, or something else."""
        self._may_write()
        with self._parent(path) as (parent, last):
            (os.rmdir if folder else os.unlink)(last, dir_fd=parent)

    def rename(self, old: Path, new: Path) -> None:
        """Move something; what is there is replaced."""
        self._may_write()
        with self._parent(old) as (source, last), self._parent(new) as (target, new_last):
            os.rename(last, new_last, src_dir_fd=source, dst_dir_fd=target)

    def link(self, old: Path, new: Path) -> None:
        """Another name for a regular file."""
        self._may_write()
        if not stat.S_ISREG(self.status(old).st_mode):
            raise _error(errno.EPERM)
        with self._parent(old) as (source, last), self._parent(new) as (target, new_last):
            os.link(last, new_last, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)

    def change(self, path: Path, changes: Changes) -> None:
        """Change attributes; nobody is given a file, and no file runs as somebody else."""
        self._may_write()
        if changes.size is not None:
            descriptor = self._file(path, os.O_WRONLY)
            try:
                os.ftruncate(descriptor, _offset(changes.size))
            finally:
                os.close(descriptor)
        if changes.mode is not None:
            self._set_mode(path, changes.mode & _PERMISSIONS)
        if changes.accessed is not None or changes.modified is not None:
            self._set_times(path, changes)

    def _set_mode(self, path: Path, mode: int) -> None:
        status = self.status(path)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise _error(errno.EPERM)
        with self._parent(path) as (parent, last):
            descriptor = os.open(last, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                os.chmod(f"/proc/self/fd/{descriptor}", mode)
        finally:
            os.close(descriptor)

    def _set_times(self, path: Path, changes: Changes) -> None:
        status = self.status(path)
        now = time.time_ns()
        times = tuple(
            old if new is None else now if new < 0 else _time(new)
            for new, old in (
                (changes.accessed, status.st_atime_ns),
                (changes.modified, status.st_mtime_ns),
            )
        )
        with self._parent(path) as (parent, last):
            os.utime(last, ns=(times[0], times[1]), dir_fd=parent, follow_symlinks=False)

    # What is open

    def _may_write(self) -> None:
        if self.read_only:
            raise _error(errno.EROFS)

    def _file(self, path: Path, flags: int, how: int = 0, mode: int = 0) -> int:
        """A regular file, open; ``how`` may make it."""
        access = flags & _ACCESS
        if access or flags & _TRUNCATE:
            self._may_write()
        how |= access | (os.O_TRUNC if flags & _TRUNCATE else 0)
        how |= os.O_APPEND if flags & _APPEND else 0
        with self._parent(path) as (parent, last):
            try:  # look first: opening a device can do something
                there = os.stat(last, dir_fd=parent, follow_symlinks=False).st_mode
            except FileNotFoundError:
                there = stat.S_IFREG
            if not stat.S_ISREG(there):
                raise _error(errno.ELOOP if stat.S_ISLNK(there) else errno.EACCES)
            descriptor = os.open(last, how | _SAFE, mode, dir_fd=parent)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _error(errno.EACCES)
        return descriptor

    def _keep(self, handle: int, descriptor: int) -> None:
        self.close(handle)
        if len(self._open) >= _OPEN_MAX:
            os.close(descriptor)
            raise _error(errno.EMFILE)
        self._open[handle] = descriptor

    def _descriptor(self, handle: int, path: Path, flags: int) -> int:
        """That of an open file; after a snapshot it is opened again, where it is by then."""
        if handle not in self._open:
            again = flags & (_ACCESS | _APPEND)
            self._keep(handle, self._file(path, again))
        return self._open[handle]

    # Ways

    @contextmanager
    def _parent(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """The open folder that holds something, and its name."""
        if not path:
            raise _error(errno.EPERM)
        with self._folder(path[:-1]) as folder:
            yield folder, path[-1]

    @contextmanager
    def _folder(self, path: Path) -> Iterator[int]:
        here = os.open(b".", _FOLDER, dir_fd=self._root)
        try:
            for step in path:
                below = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)


def _kind(entry: os.DirEntry[str]) -> int:
    """The kind of an entry as readdir tells it (``DT_``), 0 for devices and the like."""
    if entry.is_symlink():
        return stat.S_IFLNK >> 12
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR >> 12
    return stat.S_IFREG >> 12 if entry.is_file(follow_symlinks=False) else 0


def _offset(number: int) -> int:
    """A place in a file. Raises OSError for one that no file has."""
    if number >> 63:
        raise _error(errno.EFBIG)
    return number


def _time(nanoseconds: int) -> int:
    """Nanoseconds since 1970. Raises OSError for seconds that are more than the host can name."""
    if nanoseconds // 1_000_000_000 >> 63:
        raise _error(errno.EINVAL)
    return nanoseconds


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
