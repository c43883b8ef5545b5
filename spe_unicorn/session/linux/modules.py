"""Modules of a kernel, and those that they need: by what each says of itself, without depmod."""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Sequence
from pathlib import Path

from spe_unicorn import zstd
from spe_unicorn.session.linux.archive import GuestError

_DEPENDS = re.compile(rb"(?:^|\0)depends=([^\0]*)\0")
"""The line of ``.modinfo``; modpost writes it into each module."""
_UNPACK = {".xz": lzma.decompress, ".gz": gzip.decompress, ".zst": zstd.decompress}


class Modules:
    """The modules of one kernel, in the folders where it has them, searched when one is needed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._files: dict[str, Path] | None = None

    def closure(self, wanted: Sequence[str]) -> list[tuple[str, bytes]]:
        """Modules and all that they need, by name, each after those; as the kernel loads them.

        ``wanted`` are files, or names of modules of the folders. Raises GuestError for one that is
        not there or cannot be unpacked.
        """
        loaded: dict[str, bytes] = {}
        for text in wanted:
            file = Path(text)
            named = file if file.is_file() else self._file(text, "")
            self._load(named, loaded, frozenset())
        return list(loaded.items())

    def _load(self, file: Path, loaded: dict[str, bytes], above: frozenset[str]) -> None:
        name = module_name(file)
        if name in loaded or name in above:
            return
        data = unpacked(file)
        for needed in needs(data):
            beside = (f for f in sorted(file.parent.glob("*.ko*")) if module_name(f) == needed)
            found = next(beside, None) or self._file(needed, name)
            self._load(found, loaded, above | {name})
        loaded[name] = data

    def has(self, name: str) -> bool:
        """Whether a module of this name is in the folders."""
        return self.file(name) is not None

    def file(self, name: str) -> Path | None:
        """The file of the module of this name, if the folders have it."""
        return self._by_name().get(name.replace("-", "_"))

    def _by_name(self) -> dict[str, Path]:
        if self._files is None:
            files = (f for folder in self._folders for f in sorted(folder.rglob("*.ko*")))
            self._files = {}
            for file in files:
                self._files.setdefault(module_name(file), file)
        return self._files

    def _file(self, name: str, by: str) -> Path:
        found = self.file(name)
        if found is None:
            where = " or ".join(map(str, self._folders)) or "any folder: --modules names one"
            whose = f", which {by} needs," if by else ""
            raise GuestError(f"no module {name}{whose} in {where}")
        return found


def module_name(file: Path) -> str:
    """What the kernel calls the module of a file."""
    return file.name.partition(".ko")[0].replace("-", "_")


def needs(module: bytes) -> list[str]:
    """The modules that a module says it needs."""
    found = _DEPENDS.search(module)
    return [name for name in found.group(1).decode().split(",") if name] if found else []


def unpacked(file: Path) -> bytes:
    """A module as the kernel loads it. Raises GuestError for one that is packed otherwise."""
    try:
        data = file.read_bytes()
        unpack = _UNPACK.get(file.suffix)
        data = unpack(data) if unpack is not None else data
    except (OSError, EOFError, lzma.LZMAError, zstd.ZstdError) as error:
        raise GuestError(f"{file}: {error}") from error
    if not data.startswith(b"\x7fELF"):
        raise GuestError(f"{file} is no module, or packed by another program than xz, gzip or zstd")
    return data
