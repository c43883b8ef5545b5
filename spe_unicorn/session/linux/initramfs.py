"""The guest's files: an initial RAM disk, made without root.

A cpio archive in the "newc" format, as Documentation/driver-api/early-userspace/buffer-format.rst
of Linux describes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

_DIRECTORY, _FILE, _LINK, _CHARACTER_DEVICE = 0o40755, 0o100755, 0o120777, 0o20600


@dataclass(frozen=True)
class _Entry:
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


class Initramfs:
    """Files by their path in the guest; folders come about as they are needed."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        for folder in ("bin", "dev", "etc", "lib", "proc", "root", "sys", "tmp", "usr/bin"):
            self._add(folder, _Entry(_DIRECTORY))
        self._add("dev/console", _Entry(_CHARACTER_DEVICE, device=(5, 1)))

    def add(self, path: str, data: bytes) -> None:
        """A file that may be executed. One that is there already is replaced."""
        self._add(path.strip("/"), _Entry(_FILE, data))

    def folder(self, path: str) -> None:
        """A folder, also an empty one."""
        name = path.strip("/")
        if name not in self._entries:
            self._add(name, _Entry(_DIRECTORY))

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self._add(path.strip("/"), _Entry(_LINK, target.encode()))

    def _add(self, path: str, entry: _Entry) -> None:
        for parent in reversed(PurePosixPath(path).parents[:-1]):
            self._entries.setdefault(str(parent), _Entry(_DIRECTORY))
        self._entries[path] = entry

    def to_bytes(self) -> bytes:
        """The archive."""
        parts = []
        for number, (path, entry) in enumerate(self._entries.items(), 1):
            parts.append(_record(number, path, entry))
        parts.append(_record(0, "TRAILER!!!", _Entry(0)))
        return b"".join(parts)


def _record(inode: int, path: str, entry: _Entry) -> bytes:
    name = path.encode() + b"\0"
    fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
