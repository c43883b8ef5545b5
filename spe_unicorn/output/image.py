"""What an output says about the firmware whose samples it holds."""

from __future__ import annotations

from dataclasses import dataclass
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
