"""Writes tables to files, whole or not at all: CSV, and Parquet with the extra ``parquet``."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy.typing as npt

from spe_unicorn.report.arrow import write_parquet
from spe_unicorn.report.spe_parser import Table
from spe_unicorn.report.texts import Coded

_ROWS_AT_ONCE = 50_000


def write_tables(prefix: Path, suffix: str, tables: dict[str, Table]) -> dict[Path, int]:
    """Write each table to a file; return the files with their numbers of rows.

    ``tables`` is by name. The file of a table is ``prefix``, a hyphen, the name and ``suffix``,
    which is ``.csv`` or ``.parquet``. If a table cannot be written, no file has changed. Raises
    OSError, and MissingLibraryError if the library for Parquet is not installed.
    """
    write: Callable[[Path, Table], None] = WRITERS[suffix]
    files = {prefix.with_name(f"{prefix.name}-{name}{suffix}"): name for name in tables}
    with whole_or_none(list(files)) as temporary:
        for file, name in files.items():
            write(temporary[file], tables[name])
    return {file: len(tables[name]["cpu"].tolist()) for file, name in files.items()}


@contextmanager
def whole_or_none(files: list[Path]) -> Iterator[dict[Path, Path]]:
    """Give a temporary file to write to for each of ``files``.

    At the end each temporary file takes the name of its file. After an error none does.
    """
    temporary = {file: file.with_name(f".{file.name}.{os.getpid()}.part") for file in files}
    try:
        yield temporary
        for file, part in temporary.items():
            os.replace(part, file)
    finally:
        for part in temporary.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _write_csv(path: Path, table: Table) -> None:
    columns = [_texts(values) for values in table.values()]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        rows = zip(*columns, strict=True)
        while chunk := list(islice(rows, _ROWS_AT_ONCE)):
            writer.writerows(chunk)


def _texts(values: npt.NDArray[Any] | Coded) -> Sequence[object]:
    if isinstance(values, Coded):
        return values.tolist()
    if values.dtype == bool:  # as Arrow writes them
        return ["true" if value else "false" for value in values.tolist()]
    texts: list[object] = values.tolist()
    return texts


WRITERS: dict[str, Callable[[Path, Table], None]] = {
    ".csv": _write_csv,
    ".parquet": write_parquet,
}
"""What writes a table, by the suffix of the file."""
