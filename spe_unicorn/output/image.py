"""What an output says about the firmware whose samples it holds."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple


class LoadedSegment(NamedTuple):
    """A piece of the image in memory: ``size`` bytes at ``vaddr``, from ``offset`` in the file."""

    vaddr: int
    offset: int
    size: int


@dataclass(frozen=True)
class ImageInfo:
    """The firmware image: its file, the name of the program and what of it is in memory where.

    ``vaddr`` of a segment is the address at which its code runs, load bias included.
    """

    path: Path
    comm: str
    segments: tuple[LoadedSegment, ...]

    @property
    def digest(self) -> str | None:
        """SHA-256 of the file in hexadecimal; None if it cannot be read any more."""
        return file_digest(self.path)


def file_digest(path: Path) -> str | None:
    """SHA-256 of a file in hexadecimal; None for one that cannot be read."""
    digest = sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()
