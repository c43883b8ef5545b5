"""A file of records for programs: one by one, as NumPy arrays, as Arrow, as pandas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from spe_unicorn.output.jsonl import record_object
from spe_unicorn.output.reader import RecordFile, Stream, read_file
from spe_unicorn.output.scan import Scanner, placed_at
from spe_unicorn.report.places import doubts
from spe_unicorn.report.spaces import Spaces
from spe_unicorn.spe.packets import BadPacket
from spe_unicorn.symbols.choice import SymbolChoice, symbol_choice
from spe_unicorn.symbols.places import Places

if TYPE_CHECKING:
    import numpy as np
    import pandas
    import pyarrow
    from numpy.typing import NDArray

    from spe_unicorn.output.arrays import RecordArrays
    from spe_unicorn.report.columns import Columns

PIECE = 1 << 18
"""Records of a large recording that are in memory at once."""
_BYTES = 64
"""Bytes of a record, about."""
_CHOSEN = 1 << 18
"""Records of a large recording that stand for all where rules look for what is to be done."""


def read(
    path: str | os.PathLike[str], symbols: str | os.PathLike[str] | Iterable[str] = ()
) -> Recording:
    """The records of a raw, perf.data or JSON Lines file.

    ``symbols`` are the ELF files that name its addresses, each as ``FILE[@ADDRESS]``; a perf.data
    file of ours names its own. What a damaged file still holds is read; :attr:`Recording.damage`
    says what is wrong with it. Raises BadFileError for a file without records, ElfError for a bad
    ELF file, ValueError for a bad address.
    """
    texts = [symbols] if isinstance(symbols, (str, os.PathLike)) else list(symbols)
    choices = [symbol_choice(os.fspath(text)) for text in texts]
    return Recording(read_file(os.fspath(path)), choices)


class Recording:
    """The records of a file. Iterating gives a dictionary each, as ``decode --format json``."""

    def __init__(self, file: RecordFile, symbols: Iterable[SymbolChoice] = ()) -> None:
        self.file = file
        self.spaces = Spaces(file, symbols, lambda: self.raw_arrays)
        self.places: Places = self.spaces.common

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self.file.path}>"

    def __len__(self) -> int:
        return len(self.raw_arrays) if self.is_small else self._summary.records

    @property
    def is_small(self) -> bool:
        """Whether all records are read at once: :meth:`pieces` gives one piece then."""
        return "_read" in self.__dict__ or self._size <= PIECE * _BYTES

    @property
    def _size(self) -> int:
        return sum(len(stream.data) for stream in self.file.streams)

    def pieces(self) -> Iterator[Recording]:
        """The records in their order, piece by piece: of any number in so much memory.

        There is one piece at least. Whoever first looks at all of them finds what the whole comes
        to on the way.
        """
        if self.is_small:
            yield self
        elif "_summary" in self.__dict__:
            yield from self._pieces()
        else:
            summing = _Summing(self._size)
            for piece in self._pieces():
                summing.add(piece)
                yield piece
            self._summary = summing.result(self)

    def _pieces(self) -> Iterator[Recording]:
        from spe_unicorn.output.arrays import Has, read_pieces

        numbered = self.file.calls.numbering()
        for arrays, bad in read_pieces(self.file.streams, PIECE):
            chains = numbered(arrays.cpu, arrays.where(Has.PC))
            yield _Piece(self, arrays, bad, chains)
            self.file.let_go()

    @property
    def holds_some(self) -> bool:
        """Whether there are records, which is known without reading all of a large file."""
        if self.is_small or "_summary" in self.__dict__:
            return len(self) > 0
        from spe_unicorn.output.arrays import read_pieces

        return any(len(arrays) for arrays, _ in read_pieces(self.file.streams, 1))

    @property
    def is_named(self) -> bool:
        """Whether ELF files name addresses of it."""
        if not self.is_small and not self.spaces.is_one:
            len(self)  # it depends on the records
        return bool(self.spaces)

    @cached_property
    def chains(self) -> NDArray[np.int64]:
        """The number of the calls that led to each record, -1 where the file tells none."""
        from spe_unicorn.output.arrays import Has

        arrays = self.raw_arrays
        return self.file.calls.of(arrays.cpu, arrays.where(Has.PC))

    def only(self, rows: NDArray[np.int64]) -> Recording:
        """Some of the records, by number; they tell no calls."""
        return _without_calls(self, self.raw_arrays.take(rows))

    def joined(self, several: Iterable[Recording]) -> Recording:
        """Several pieces as one; it tells no calls."""
        from spe_unicorn.output.arrays import joined

        return _without_calls(self, joined([each.raw_arrays for each in several]))

    def chosen(self) -> Recording:
        """Some 260,000 of the records, or all if there are fewer: stretches of every piece.

        They tell no calls.
        """
        return self if self.is_small else self._summary.chosen

    def __iter__(self) -> Iterator[dict[str, Any]]:
        scanner = Scanner()
        led = self.file.calls.in_order()
        for stream in self.file.streams:
            for found in scanner.scan(stream.data):
                if not isinstance(found, BadPacket):
                    record = placed_at(stream.data, found[1]).record
                    calls = None if record.pc is None else led(stream.cpu)
                    yield record_object(record, stream.offset + found[1], stream.cpu, calls)

    @property
    def damage(self) -> str | None:
        """What is wrong with the file as a whole, None for a whole one."""
        return self.file.damage

    @property
    def doubts(self) -> list[str]:
        """Sentences on what may be wrong: ELF files that are not what was recorded, repetition."""
        twice = self._twice
        found = doubts(self.file, self.spaces.files)
        return found if twice is None else [*found, f"{self.file.path}: {twice}"]

    @property
    def bad_packets(self) -> list[tuple[Stream, BadPacket]]:
        """What could not be read of its streams."""
        return self._read[1] if self.is_small else self._summary.bad

    @property
    def raw_arrays(self) -> RecordArrays:
        """The payloads of packets as NumPy arrays, the fastest way to many records."""
        return self._read[0]

    @cached_property
    def _twice(self) -> str | None:
        from spe_unicorn.output.repeated import repetition

        return repetition(self.raw_arrays) if self.is_small else self._summary.twice

    @cached_property
    def _summary(self) -> _Summary:
        for _ in self.pieces():
            pass
        return self._summary

    @cached_property
    def _read(self) -> tuple[RecordArrays, list[tuple[Stream, BadPacket]]]:
        from spe_unicorn.output.arrays import read_arrays

        return read_arrays(self.file.streams)

    def arrays(self) -> Columns:
        """NumPy masked arrays by name, as :func:`~spe_unicorn.report.columns.named_columns`."""
        from spe_unicorn.report.columns import named_columns

        return named_columns(self.raw_arrays, self.spaces, calls=self.file.calls)

    def arrow(self) -> pyarrow.Table:
        """The same as an Arrow table, null where a record has nothing.

        Needs pyarrow: ``pip install 'spe-unicorn[parquet]'``.
        """
        from spe_unicorn.report.arrow import arrow_table

        return arrow_table(self.arrays())

    def dataframe(self) -> pandas.DataFrame:
        """The same as a pandas DataFrame with nullable columns.

        Needs pandas: ``pip install 'spe-unicorn[parquet]'``.
        """
        from spe_unicorn.report.arrow import dataframe

        return dataframe(self.arrays())


class _Piece(Recording):
    """Some of the records of a recording."""

    def __init__(
        self,
        whole: Recording,
        arrays: RecordArrays,
        bad: list[tuple[Stream, BadPacket]],
        chains: NDArray[np.int64],
    ) -> None:
        self.file = whole.file
        self.spaces = whole.spaces.of(arrays)
        self.places = whole.places
        self.__dict__ |= {"_read": (arrays, bad), "chains": chains}


def _without_calls(whole: Recording, arrays: RecordArrays) -> Recording:
    import numpy as np

    return _Piece(whole, arrays, [], np.full(len(arrays), -1, np.int64))


class _Summary(NamedTuple):
    """What a large recording is asked before all else."""

    records: int
    bad: list[tuple[Stream, BadPacket]]
    twice: str | None
    chosen: Recording


class _Summing:
    """Makes the summary of a large recording, whose pieces are looked at once."""

    def __init__(self, size: int) -> None:
        self._share = min(1.0, _CHOSEN * _BYTES / size)
        self._count = 0
        self._bad: list[tuple[Stream, BadPacket]] = []
        self._last: dict[int, int] = {}
        self._back = False
        self._chosen: list[RecordArrays] = []
        self._files: dict[str, Any] = {}

    def add(self, piece: Recording) -> None:
        """Take the next piece."""
        from spe_unicorn.output.repeated import goes_back

        arrays = piece.raw_arrays
        self._count += len(arrays)
        self._bad += piece.bad_packets
        self._back |= goes_back(arrays, self._last)
        self._chosen.append(arrays.head(int(len(arrays) * self._share)))
        self._files |= {str(file.path): file for file in piece.spaces.files}

    def result(self, whole: Recording) -> _Summary:
        """The summary. The spaces of the recording are told which files name addresses."""
        from spe_unicorn.output.arrays import joined, read_arrays
        from spe_unicorn.output.repeated import repetition

        whole.spaces.used = list(self._files.values())
        # Where time goes back, records of one piece are compared with those of others.
        twice = repetition(read_arrays(whole.file.streams)[0]) if self._back else None
        chosen = _without_calls(whole, joined(self._chosen))
        return _Summary(self._count, self._bad, twice, chosen)
