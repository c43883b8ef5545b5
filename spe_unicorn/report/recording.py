"""A file of records for programs: one by one, as NumPy arrays, as Arrow, as pandas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spe_unicorn.output.jsonl import record_object
from spe_unicorn.output.reader import RecordFile, Stream, read_file
from spe_unicorn.output.scan import Scanner, placed_at
from spe_unicorn.report.places import doubts
from spe_unicorn.report.spaces import Spaces
from spe_unicorn.spe.packets import BadPacket
from spe_unicorn.symbols.choice import SymbolChoice, symbol_choice
from spe_unicorn.symbols.places import Places

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from spe_unicorn.output.arrays import RecordArrays
    from spe_unicorn.report.columns import Columns


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
        return len(self.raw_arrays)

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
        return self._read[1]

    @property
    def raw_arrays(self) -> RecordArrays:
        """The payloads of packets as NumPy arrays, the fastest way to many records."""
        return self._read[0]

    @cached_property
    def _twice(self) -> str | None:
        from spe_unicorn.output.repeated import repetition

        return repetition(self.raw_arrays)

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
