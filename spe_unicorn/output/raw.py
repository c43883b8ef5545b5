"""Records as they are: the bytes of the Profiling Buffer, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from spe_unicorn.arch.operation import Calls


class RawWriter:
    """Writes the bytes of records in the order in which they come, whatever their cpu."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, record: bytes, cpu: int = 0, calls: Sequence[Calls] = ()) -> None:
        """Add one whole record."""
        del cpu, calls  # a raw stream has no place for them
        self._file.write(record)

    def manage(self, ticks: int, data_lost: bool, kind: int = 0, cpu: int = 0) -> None:
        """Add nothing: the format has no place for management events."""
        del ticks, data_lost, cpu

    def block(self, ticks: int, address: int, size: int | None, place: int, cpu: int = 0) -> None:
        """There is no place for it."""

    def close(self) -> None:
        """Complete the file; harmless when done before."""
        self._file.close()
