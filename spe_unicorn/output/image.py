"""What an output says about the run whose samples it holds, and about its firmware."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from spe_unicorn.arch.counter import FREQUENCY

EXECUTE, WRITE, READ = 1, 2, 4


class LoadedSegment(NamedTuple):
    """A piece of the image in memory: ``size`` bytes at ``vaddr``, from ``offset`` in the file.

    ``rights`` is what may be done there, as ELF files tell it.
    """

    vaddr: int
    offset: int
    size: int
    rights: int = READ | EXECUTE


@dataclass(frozen=True)
class ImageInfo:
    """The firmware image: its file, the name of the program and what of it is in memory where.

    ``vaddr`` of a segment is the address at which its code runs, load bias included.
    """

    path: Path
    comm: str
    segments: tuple[LoadedSegment, ...]
    build_id: bytes = b""
    """What its linker has called it; empty if it has no such name."""

    @property
    def digest(self) -> str | None:
        """SHA-256 of the file in hexadecimal; None if it cannot be read any more."""
        return file_digest(self.path)


@dataclass(frozen=True)
class RecordingInfo:
    """What a file of records says of the run that made it, where its format has a place for it."""

    image: ImageInfo | None = None
    cpus: int = 1
    """The number of PEs."""
    frequency: int = FREQUENCY
    """The frequency of timestamps, in Hz."""
    midr: int | None = None
    """MIDR_EL1, by which perf picks the meaning of data sources."""
    period: int = 1
    """How many operations a sample stands for, on average, or how many of ``event``."""
    event: str | None = None
    calls: bool = False
    """Whether it is told which calls led to each sample."""
    command: tuple[str, ...] = ()
    """The words that run the same again."""


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
