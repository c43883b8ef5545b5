"""Opening an output for records: the format by name or by the suffix of the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from spe_unicorn.arch.operation import Calls
from spe_unicorn.output.image import RecordingInfo
from spe_unicorn.output.jsonl import JSONLinesWriter

FORMATS = ("raw", "perf", "jsonl")
"""The names of the formats."""

SUFFIXES = {".spe": "raw", ".data": "perf", ".jsonl": "jsonl"}
"""The format that a suffix stands for."""


class OutputError(ValueError):
    """An output that cannot be; the message is one line."""


class RecordWriter(Protocol):
    """Takes records as they come and leaves a complete file behind when closed."""

    def write(self, record: bytes, cpu: int = 0, calls: Sequence[Calls] = ()) -> None:
        """Add whole records, with or without the padding after each.

        ``calls`` led to each of them, where that is told; a format without a place leaves them out.
        """
        ...

    def manage(self, ticks: int, data_lost: bool, kind: int = 0, cpu: int = 0) -> None:
        """Add a management event at a time of the system counter, where the format has a place."""
        ...

    def block(self, ticks: int, address: int, size: int | None, place: int, cpu: int = 0) -> None:
        """Add that the program got a block of memory by a call that returns to ``place``.

        Or that it gave one back: then ``size`` is None. A format without a place leaves it out.
        """
        ...

    def interrupt(self, ticks: int, intid: int, ends: bool, cpu: int = 0) -> None:
        """Add that an interrupt was acknowledged, or that it ended, where there is a place."""
        ...

    def close(self) -> None:
        """Complete the file; harmless when done before."""
        ...


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

    def interrupt(self, ticks: int, intid: int, ends: bool, cpu: int = 0) -> None:
        """There is no place for it."""

    def close(self) -> None:
        """Complete the file; harmless when done before."""
        self._file.close()


def format_of(path: str, name: str | None = None) -> str:
    """The format called ``name``, or else that of the suffix of ``path``.

    Raises OutputError for a name or a suffix that there is not.
    """
    if name is not None:
        if name not in FORMATS:
            raise OutputError(f"no output format {name}; there are {', '.join(FORMATS)}")
        return name
    if path == "-":
        raise OutputError("-: standard output has no suffix that names a format: give --format")
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        known = ", ".join(f"{suffix} ({name})" for suffix, name in SUFFIXES.items())
        has = f"the suffix {suffix} names" if suffix else "a name without a suffix says"
        raise OutputError(f"{path}: {has} no output format; there are {known}")
    return SUFFIXES[suffix]


def open_output(
    path: str | os.PathLike[str],
    format_name: str | None = None,
    info: RecordingInfo | None = None,
) -> RecordWriter:
    """A writer of records to ``path``, in the format by name or by suffix.

    ``-`` is standard output, for formats other than perf.data. ``info`` goes into perf.data files.
    Raises OutputError for a format that there is not and OSError where the file cannot be written.
    """
    path = os.fspath(path)
    kind = format_of(path, format_name)
    if kind == "perf" and path == "-":
        raise OutputError("-: perf.data cannot be written to standard output; name a file")
    file = _open(path)
    if kind == "perf":
        from spe_unicorn.output.perf_data import PerfDataWriter  # what it needs takes a while

        return PerfDataWriter(file, info or RecordingInfo())
    if kind == "raw":
        return RawWriter(file)
    return JSONLinesWriter(file, calls=info is not None and info.calls)


def _open(path: str) -> BinaryIO:
    if path == "-":
        sys.stdout.flush()
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    return Path(path).open("wb")
