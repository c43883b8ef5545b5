"""A disk made on the fly: ext2 with what is in a folder of the host, or empty."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.disks import layout
from spe_unicorn.session.linux.disks.layout import BLOCK, PER_GROUP

_INODES: Final = 2048
"""Inodes of a group, at least: one for each 64 KiB."""
_TYPED, _SPARSE_AND_LARGE = 2, 3
"""Features: entries have types; few groups have backups, and files more than 2 GiB."""
_LARGEST: Final = 1 << 40
"""Bytes of a disk; a folder has to be smaller."""
_DATA: Final = PER_GROUP * BLOCK - (16 << 20)
"""Bytes of a group for data, at least: it has 8 MiB of inodes at most."""
_SHORT: Final = 60
"""Bytes of a link's target from which on it has a block."""


@dataclass
class _Node:
    """A folder, file or link that goes onto the disk."""

    source: Path
    mode: int
    size: int
    time: int
    inside: list[tuple[bytes, _Node]] = field(default_factory=list)
    number: int = layout.ROOT

    @property
    def kind(self) -> int:
        """What it is."""
        return self.mode & layout.TYPE


def make_disk(file: Path, label: str, folder: Path | None, room: int) -> None:
    """Write an ext2 file system of that name to ``file``: what is in ``folder``, and ``room``.

    ``room`` is how many bytes are free at least. Neither sockets nor devices are taken along. The
    same folder makes the same disk. Raises GuestError for a folder that cannot be read.
    """
    try:
        root = _Node(Path(), layout.FOLDER | 0o755, 0, 0) if folder is None else _read(folder)
        with file.open("wb") as stream:
            _Disk(stream, label, root, room).write()
    except OSError as error:
        raise GuestError(f"{error.filename or file}: {error.strerror}") from error


def _read(path: Path) -> _Node:
    """A folder and all that is in it, without following links."""
    told = path.lstat() if path.is_symlink() else path.stat()
    node = _Node(path, told.st_mode & 0xFFFF, told.st_size, int(told.st_mtime) & 0xFFFF_FFFF)
    if node.kind == layout.FOLDER:
        for entry in sorted(os.scandir(path), key=lambda entry: os.fsencode(entry.name)):
            kind = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISREG(kind) or stat.S_ISLNK(kind) or stat.S_ISDIR(kind):
                node.inside.append((os.fsencode(entry.name), _read(Path(entry.path))))
    return node


def _all(node: _Node) -> Iterator[_Node]:
    yield node
    for _, inner in node.inside:
        yield from _all(inner)


class _Disk:
    """A disk as it is written: each group begins with what describes it, and data follow."""

    def __init__(self, stream: BinaryIO, label: str, root: _Node, room: int) -> None:
        self._stream = stream
        self._label = label.encode()
        self._root = root
        self._nodes = list(_all(root))
        for number, node in enumerate(self._nodes[1:], layout.FIRST_FREE):
            node.number = number
        # indirect blocks are one for 1024 others, and one of each level
        data = sum(-(-_size(node) // BLOCK) + 4 for node in self._nodes)
        needed = (data + data // 500 + room // BLOCK) * BLOCK
        if needed > _LARGEST:
            raise GuestError(f"{root.source} has {needed >> 30} GiB: that is too much for a disk")
        files = len(self._nodes) + layout.FIRST_FREE
        self._groups = max(needed // _DATA, files // (PER_GROUP - 16)) + 1
        inodes = -(-files // self._groups)
        self._inodes = min(max(_INODES, -(-inodes // 16) * 16), PER_GROUP)
        self._table = self._inodes * layout.INODE_SIZE // BLOCK
        self._descriptors = -(-self._groups * layout.GROUP.size // BLOCK)
        self._next = self._first_data(0)
        self._taken = 0
        self._uuid = blake2b(self._label, digest_size=16).digest()
        self._folders = [0] * self._groups

    def write(self) -> None:
        """Write all of it."""
        self._stream.truncate(self._groups * PER_GROUP * BLOCK)
        self._write_node(self._root, layout.ROOT)
        for node in self._nodes:
            for _, inner in node.inside:
                self._write_node(inner, node.number)
        self._write_groups()

    def _first_data(self, group: int) -> int:
        """The first block of a group that is not taken by what describes it."""
        described = (1 + self._descriptors) * layout.has_backup(group) + 2 + self._table
        return group * PER_GROUP + described

    def _take(self) -> int:
        """A free block."""
        found = self._next
        self._taken += 1
        self._next += 1
        if self._next % PER_GROUP == 0:
            self._next = self._first_data(self._next // PER_GROUP)
        return found

    def _put(self, block: int, data: bytes) -> None:
        self._stream.seek(block * BLOCK)
        self._stream.write(data)

    def _write_node(self, node: _Node, parent: int) -> None:
        target = os.fsencode(os.readlink(node.source)) if node.kind == layout.LINK else b""
        if node.kind == layout.LINK and len(target) < _SHORT:
            held = struct.unpack("<15I", target.ljust(_SHORT, b"\0"))
            self._write_inode(node, len(target), held, 0)
            return
        size = len(target) or _size(node)
        before = self._taken
        blocks = [self._take() for _ in range(-(-size // BLOCK))]
        if node.kind == layout.FILE:
            self._copy(node, blocks)
        else:
            data = target or b"".join(_entries(node, parent))
            for number, block in enumerate(blocks):
                self._put(block, data[number * BLOCK : (number + 1) * BLOCK])
        pointers = self._mapped(blocks)
        self._write_inode(node, size, pointers, self._taken - before)

    def _copy(self, node: _Node, blocks: Sequence[int]) -> None:
        """The bytes of a file. What it has grown by meanwhile is left out, the rest is 0."""
        with node.source.open("rb") as source:
            for block in blocks:
                self._put(block, source.read(BLOCK))

    def _mapped(self, blocks: Sequence[int]) -> Sequence[int]:
        """What an inode holds of its blocks."""
        pointers = [*blocks[: layout.DIRECT], *[0] * (layout.DIRECT - len(blocks))]
        at = layout.DIRECT
        for level in range(1, layout.LEVELS + 1):
            most = layout.POINTERS**level
            part = blocks[at : at + most]
            pointers.append(self._indirect(part, level) if part else 0)
            at += most
        return pointers

    def _indirect(self, blocks: Sequence[int], level: int) -> int:
        """A block that points to others, by ``level`` steps to those with data."""
        each = layout.POINTERS ** (level - 1)
        parts = [blocks[at : at + each] for at in range(0, len(blocks), each)]
        numbers = blocks if level == 1 else [self._indirect(part, level - 1) for part in parts]
        block = self._take()
        self._put(block, struct.pack(f"<{len(numbers)}I", *numbers))
        return block

    def _write_inode(self, node: _Node, size: int, pointers: Sequence[int], blocks: int) -> None:
        links = 1
        if node.kind == layout.FOLDER:
            links = 2 + sum(inner.kind == layout.FOLDER for _, inner in node.inside)
            self._folders[(node.number - 1) // self._inodes] += 1
        group, index = divmod(node.number - 1, self._inodes)
        table = (self._first_data(group) - self._table) * BLOCK
        self._stream.seek(table + index * layout.INODE_SIZE)
        low, high = size & 0xFFFF_FFFF, size >> 32
        times = (node.time, node.time, node.time, 0)
        sectors = blocks * (BLOCK // 512)
        head = (node.mode, 0, low, *times, 0, links, sectors, 0, 0)
        self._stream.write(layout.INODE.pack(*head, *pointers, high))

    def _write_groups(self) -> None:
        """What describes the groups, once all is in its place."""
        used = layout.FIRST_FREE - 1 + len(self._nodes) - 1
        rows, free = [], 0
        for group in range(self._groups):
            first, data = group * PER_GROUP, self._first_data(group)
            taken = min(max(self._next, data) - first, PER_GROUP)
            inodes = min(max(used - group * self._inodes, 0), self._inodes)
            bitmap = data - self._table - 2
            self._put(bitmap, _bits(taken, PER_GROUP))
            self._put(bitmap + 1, _bits(inodes, self._inodes))
            places = (bitmap, bitmap + 1, bitmap + 2)
            left = (PER_GROUP - taken, self._inodes - inodes, self._folders[group])
            rows.append(layout.GROUP.pack(*places, *left))
            free += PER_GROUP - taken
        counts = (self._groups * self._inodes, self._groups * PER_GROUP, 0, free)
        unused = self._groups * self._inodes - used
        sizes = (0, 2, 2, PER_GROUP, PER_GROUP, self._inodes)
        times = (0, 0)  # mounted, written
        mounts = (0, 0xFFFF)  # so many, and no check after any number of them
        state = (layout.MAGIC, 1, 1, 0)  # clean; errors are passed over
        checks = (0, 0, 0, 1)  # never, of no system; revision 1
        owner = (0, 0)
        head = (*counts, unused, *sizes, *times, *mounts, *state, *checks, *owner)
        for group in filter(layout.has_backup, range(self._groups)):
            tail = (layout.FIRST_FREE, layout.INODE_SIZE, group, 0, _TYPED, _SPARSE_AND_LARGE)
            superblock = layout.SUPERBLOCK.pack(*head, *tail, self._uuid, self._label)
            block = group * PER_GROUP
            self._stream.seek(block * BLOCK + (0 if group else layout.SUPERBLOCK_AT))
            self._stream.write(superblock)
            self._put(block + 1, b"".join(rows))


def _size(node: _Node) -> int:
    """Bytes of a node that are in blocks."""
    if node.kind == layout.FOLDER:
        return sum(map(len, _entries(node, 0)))
    return node.size


def _entries(node: _Node, parent: int) -> list[bytes]:
    """The blocks of a folder: names with the inode of each. None goes over the end of a block."""
    blocks = [bytearray()]
    last = 0
    own = ((b".", node.number, layout.FOLDER), (b"..", parent, layout.FOLDER))
    inner = ((name, one.number, one.kind) for name, one in node.inside)
    for name, number, kind in (*own, *inner):
        size = -(-(layout.ENTRY.size + len(name)) // 4) * 4
        if len(blocks[-1]) + size > BLOCK:
            _stretch(blocks[-1], last)
            blocks.append(bytearray())
        last = len(blocks[-1])
        head = layout.ENTRY.pack(number, size, len(name), layout.ENTRY_TYPES[kind])
        blocks[-1] += (head + name).ljust(size, b"\0")
    _stretch(blocks[-1], last)
    return [bytes(block) for block in blocks]


def _stretch(block: bytearray, last: int) -> None:
    """Have the last entry go up to the end of its block."""
    struct.pack_into("<H", block, last + 4, BLOCK - last)
    block += bytes(BLOCK - len(block))


def _bits(used: int, bits: int) -> bytes:
    """A bitmap of which the first ``used`` bits are 1, and those that stand for nothing."""
    value = (1 << used) - 1 | (1 << 8 * BLOCK) - (1 << bits)
    return value.to_bytes(BLOCK, "little")
