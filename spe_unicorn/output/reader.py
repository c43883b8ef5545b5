"""Finds the records in a file: raw, or in the AUX data of a perf.data file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from spe_unicorn.output.perf_format import (
    AUXTRACE,
    HEADER,
    MAGIC,
    RECORD_HEADER,
    RecordType,
)


class BadFileError(ValueError):
    """A file that holds no stream of records; the message is one line with its name."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A piece of the record stream of one cpu, whole records only.

    ``offset`` is the place of its first byte in all of that stream, ``file_offset`` in the file.
    """

    cpu: int
    offset: int
    file_offset: int
    data: memoryview


def read_streams(path: str) -> list[Stream]:
    """The streams of a raw or perf.data file, in the order of the file; ``-`` is standard input.

    Raises BadFileError for a file that cannot be read, is empty or is a broken perf.data file.
    """
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise BadFileError(f"{path}: {error.strerror or error}") from None
    if not data:
        raise BadFileError(f"{path}: the file is empty")
    if data.startswith(MAGIC):
        return _perf_streams(path, memoryview(data))
    if path.endswith(".data"):
        raise BadFileError(
            f"{path}: not a perf.data file: {data[:8].hex(' ')} at offset 0x0"
            f" where {MAGIC.decode()} should be"
        )
    return [Stream(0, 0, 0, memoryview(data))]


def _perf_streams(path: str, data: memoryview) -> list[Stream]:
    def bad(offset: int, reason: str) -> BadFileError:
        return BadFileError(f"{path}: broken perf.data file: {reason} at offset {offset:#x}")

    if len(data) < HEADER.size:
        raise bad(len(data), "the file ends inside its header")
    _, size, _, _, _, position, data_size, _ = HEADER.unpack_from(data)
    if size != HEADER.size:
        raise bad(8, f"unknown header size {size}")
    if not data_size:
        raise bad(48, "the recording was not completed: data size 0")
    end = position + data_size
    if end > len(data):
        raise bad(len(data), f"the file is truncated, its data go on to {end:#x},")
    streams = []
    while position < end:
        if end - position < RECORD_HEADER.size:
            raise bad(position, "a record is cut short")
        kind, _, size = RECORD_HEADER.unpack_from(data, position)
        if size < RECORD_HEADER.size or position + size > end:
            raise bad(position, f"a record of type {kind} has size {size}")
        start = position + size
        if kind == RecordType.AUXTRACE:
            if size < RECORD_HEADER.size + AUXTRACE.size:
                raise bad(position, f"a record of type {kind} has size {size}")
            length, offset, _, _, _, cpu = AUXTRACE.unpack_from(data, position + RECORD_HEADER.size)
            if start + length > end:
                raise bad(start, f"{length} bytes of AUX data are cut short")
            streams.append(Stream(cpu, offset, start, data[start : start + length]))
            start += length
        position = start
    return streams
