"""The records of a run as objects, and the description of an image in files of records."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, overload

from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.names import Names
from spe_unicorn.output.image import ImageInfo, LoadedSegment, RecordingInfo
from spe_unicorn.session.point import AtSymbol, resolve
from spe_unicorn.session.record_set import Functions, RecordSet
from spe_unicorn.spe.record import Record
from spe_unicorn.symbols.elf import build_id

_BLOCK: Final = 1 << 20
KEPT: Final = 256 << 20
"""Bytes of records that are kept, the last ones, so that no guest grows its host."""


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """What :class:`Records` held at one moment."""

    blocks: tuple[bytes, ...] = ()
    last: bytes = b""
    forgotten: int = 0


NO_RECORDS: Final = KeptRecords()


class ProgramFunctions:
    """The functions of ``image``; ``names`` has those of files that users add, too."""

    def __init__(self, names: Names, image: Image) -> None:
        self.function = names.function
        self._image = image

    def check(self, name: str) -> None:
        """Raise PointError for a name that the program does not have."""
        if not self._image.symbols.named(name):
            resolve(AtSymbol(name), self._image.symbols, self._image.path.name)


class Records:
    """The records of one PE, in order. They are decoded when they are read.

    >>> [record.pc for record in machine.pes[0].records]
    >>> machine.pes[0].records.where(op="store").count
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._seen: tuple[tuple[int, int], RecordSet] | None = None
        """The records as they were seen last, by how many bytes there were."""
        self._blocks: deque[bytes] = deque()
        """Blocks of whole records, all of about one size."""
        self._last = bytearray()
        self.forgotten = 0
        """Bytes of old records that were dropped, as there were too many."""

    def add(self, data: bytes) -> None:
        """Take one or more whole records."""
        self._last += data
        if len(self._last) >= _BLOCK:
            self._blocks.append(bytes(self._last))
            self._last.clear()
            if len(self._blocks) > KEPT // _BLOCK:
                self.forgotten += len(self._blocks.popleft())

    @property
    def raw(self) -> bytes:
        """The bytes of the records, as the guest has them in memory."""
        return b"".join((*self._blocks, self._last))

    @property
    def now(self) -> RecordSet:
        """The records so far; what a run adds later is not in it."""
        length = self.forgotten, sum(map(len, self._blocks)) + len(self._last)
        if self._seen is None or self._seen[0] != length:
            self._seen = length, RecordSet.of(self.raw, self._functions)
        return self._seen[1]

    def where(self, **wanted: object) -> RecordSet:
        """Those records that have all of this: see :meth:`RecordSet.where`."""
        return self.now.where(**wanted)

    @property
    def count(self) -> int:
        """How many there are, as ``len()`` says."""
        return len(self)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.now)

    def __len__(self) -> int:
        return len(self.now)

    @overload
    def __getitem__(self, number: int) -> Record: ...
    @overload
    def __getitem__(self, number: slice) -> RecordSet: ...
    def __getitem__(self, number: int | slice) -> Record | RecordSet:
        return self.now[number]

    def clear(self) -> None:
        """Forget the records so far."""
        self.restore(NO_RECORDS)

    def save(self) -> KeptRecords:
        """The records so far, for :meth:`restore`."""
        return KeptRecords(tuple(self._blocks), bytes(self._last), self.forgotten)

    def restore(self, kept: KeptRecords) -> None:
        """Hold what :meth:`save` gave, and nothing else."""
        self._seen = None
        self._blocks = deque(kept.blocks)
        self._last = bytearray(kept.last)
        self.forgotten = kept.forgotten


def image_info(image: Image) -> ImageInfo:
    """The description of an image in files of records: its segments, by both of their addresses."""
    places = dict.fromkeys(
        LoadedSegment(address, segment.offset, segment.size, segment.flags)
        for segment in image.segments
        for address in (segment.vaddr, segment.address)
    )
    return ImageInfo(image.path, image.path.name, tuple(places), build_id(image.path))


def recording_info(board: Board, image: Image) -> RecordingInfo:
    """What files of records say of a run of ``board`` with ``image``."""
    sampling = board.options.sampling
    return RecordingInfo(
        image_info(image),
        cpus=len(board.pes),
        midr=board.core.midr,
        period=1 if sampling is None else sampling.period,
        event=None if sampling is None else sampling.event,
    )
