"""The guest's files: an initial RAM disk, made without root.

A cpio archive in the "newc" format, as Documentation/driver-api/early-userspace/buffer-format.rst
of Linux describes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

_DIRECTORY, _FILE, _LINK, _CHARACTER_DEVICE = 0o40755, 0o100755, 0o120777, 0o20600
_LIBRARY_FOLDERS = ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu")


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


def shared_objects(program: Path, root: Path) -> Iterator[Path]:
    """The libraries that a program needs, and those that these need, as files below ``root``.

    Raises FileNotFoundError for one that is not there.
    """
    seen = set()
    todo = [program]
    while todo:
        for name in _needed(todo.pop()):
            if name in seen:
                continue
            seen.add(name)
            places = [root / folder / name for folder in _LIBRARY_FOLDERS]
            found = next((place for place in places if place.exists()), None)
            if found is None:
                raise FileNotFoundError(f"{program} needs {name}, which is not below {root}")
            yield found
            todo.append(found)


def _needed(file: Path) -> list[str]:
    with file.open("rb") as stream:
        sections = ELFFile(stream).iter_sections()
        dynamic = next((s for s in sections if isinstance(s, DynamicSection)), None)
        if dynamic is None:
            return []
        return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
