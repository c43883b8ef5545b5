"""What a guest has left on a disk, put into a folder of the host.

The disk is the guest's: whatever stands on it, nothing is written outside of that folder, no more
than the disk has is copied, and this comes to an end. Bitmaps are not looked at, as a kernel that
panics may not have written them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from spe_unicorn.session.linux.disks import layout
from spe_unicorn.session.linux.disks.layout import BLOCK

_DEEPEST: Final = 64
"""Folders in each other; the names of a host are no longer."""
_MOST_ENTRIES: Final = 1 << 20
_LONGEST: Final = 1 << 44
"""Bytes of a file, with its holes."""
_TOLD: Final = 20
"""Names that are told of those that were left out."""


class DiskError(Exception):
    """The disk holds no file system as it was made; the message is part of a sentence."""


@dataclass(frozen=True)
class _Inode:
    mode: int
    size: int
    pointers: tuple[int, ...]

    @property
    def kind(self) -> int:
        """What it is."""
        return self.mode & layout.TYPE


def read_disk(file: Path, folder: Path) -> list[str]:
    """Put the folders and files of a disk into ``folder``; some names that were left out.

    A file that is there is replaced. Links and devices are left out, and so is what is damaged.
    Raises DiskError, and OSError where the host cannot write.
    """
    with file.open("rb") as stream:
        reader = _Reader(stream)
        reader.copy(layout.ROOT, folder, 0)
        return reader.left_out


class _Reader:
    """Reads a disk once: a folder is looked at once, and a block twice on average at most."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._blocks = os.fstat(stream.fileno()).st_size // BLOCK
        self._left = 2 * self._blocks
        self._seen: set[int] = set()
        self._entries = 0
        self.left_out: list[str] = []
        stream.seek(layout.SUPERBLOCK_AT)
        data = stream.read(layout.SUPERBLOCK.size)
        try:
            found = layout.SUPERBLOCK.unpack(data)
        except struct.error as error:
            raise DiskError("is too small") from error
        self._inodes = found[10]
        if found[15] != layout.MAGIC or not 0 < self._inodes <= layout.PER_GROUP:
            raise DiskError("holds no ext2")

    def _block(self, number: int) -> bytes:
        """A block; nothing for one that is not on the disk."""
        if not 0 < number < self._blocks:
            return b""
        self._stream.seek(number * BLOCK)
        return self._stream.read(BLOCK)

    def _inode(self, number: int) -> _Inode | None:
        group, index = divmod(number - 1, self._inodes)
        at = group * layout.GROUP.size
        row = self._block(1 + at // BLOCK)[at % BLOCK :][: layout.GROUP.size]
        if len(row) < layout.GROUP.size:
            return None
        table, offset = layout.GROUP.unpack(row)[2], index * layout.INODE_SIZE
        data = self._block(table + offset // BLOCK)[offset % BLOCK :][: layout.INODE.size]
        if len(data) < layout.INODE.size:
            return None
        fields = layout.INODE.unpack(data)
        return _Inode(fields[0], fields[2] | fields[-1] << 32, fields[12:27])

    def _data(self, inode: _Inode) -> Iterator[tuple[int, bytes]]:
        """The blocks of an inode that are on the disk, each with its place in the file."""
        for number, pointer in enumerate(inode.pointers[: layout.DIRECT]):
            yield from self._below(pointer, 0, number, inode.size)
        at = layout.DIRECT
        for level in range(1, layout.LEVELS + 1):
            yield from self._below(inode.pointers[layout.DIRECT + level - 1], level, at, inode.size)
            at += layout.POINTERS**level

    def _below(self, block: int, level: int, at: int, size: int) -> Iterator[tuple[int, bytes]]:
        """The blocks to which one points by ``level`` steps."""
        if at * BLOCK >= size or not block:
            return
        self._left -= 1
        if self._left < 0:
            raise DiskError("has files that are larger than it is")
        data = self._block(block)
        if level == 0:
            if data:
                yield at, data[: size - at * BLOCK]
            return
        each = layout.POINTERS ** (level - 1)
        for number, (pointer,) in enumerate(struct.iter_unpack("<I", data)):
            yield from self._below(pointer, level - 1, at + number * each, size)

    def copy(self, number: int, target: Path, depth: int) -> None:
        """Put what an inode is to ``target``."""
        inode = self._inode(number)
        if inode is not None and inode.kind == layout.FOLDER and depth < _DEEPEST:
            if number in self._seen:
                self._leave_out(target)
                return
            self._seen.add(number)
            if depth:
                _clear(target, folder=True)
            target.mkdir(exist_ok=True, parents=not depth)
            for name, inner in self._names(inode):
                self.copy(inner, target / name, depth + 1)
        elif inode is not None and inode.kind == layout.FILE and depth and inode.size <= _LONGEST:
            _clear(target, folder=False)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            mode = 0o777 if inode.mode & 0o100 else 0o666
            with os.fdopen(os.open(target, flags, mode), "wb") as stream:
                for at, data in self._data(inode):
                    os.pwrite(stream.fileno(), data, at * BLOCK)
                stream.truncate(inode.size)
        else:
            self._leave_out(target)

    def _leave_out(self, target: Path) -> None:
        if len(self.left_out) < _TOLD:
            self.left_out.append(target.name)

    def _names(self, folder: _Inode) -> Iterator[tuple[str, int]]:
        """The names in a folder, each with its inode, but for those that no file can have."""
        for _, data in self._data(folder):
            at = 0
            while at + layout.ENTRY.size <= len(data) and self._entries < _MOST_ENTRIES:
                number, size, length, _ = layout.ENTRY.unpack_from(data, at)
                name = data[at + layout.ENTRY.size :][:length]
                at += max(size, layout.ENTRY.size)
                self._entries += 1
                if number and name not in (b"", b".", b"..") and not set(name) & set(b"/\0"):
                    yield os.fsdecode(name), number


def _clear(target: Path, *, folder: bool) -> None:
    """Take away what stands at a name, unless both are folders."""
    if folder and target.is_dir() and not target.is_symlink():
        return
    with suppress(FileNotFoundError):
        target.unlink()
