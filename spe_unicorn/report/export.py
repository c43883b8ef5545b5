"""Writes tables to files, whole or not at all: CSV, and Parquet with the extra ``parquet``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spe_unicorn.report.arrow import appending_parquet
from spe_unicorn.report.profiles.joining import decimal, joined_rows, truths
from spe_unicorn.report.spe_parser import Table
from spe_unicorn.report.texts import Coded

_ROWS_AT_ONCE: Final = 1 << 16
_SPECIAL: Final = re.compile(r'[",\r\n]')
"""What is quoted in CSV."""


def write_tables(
    prefix: Path, suffix: str, pieces: Iterable[Mapping[str, Table]]
) -> dict[Path, int]:
    """Write each table to a file; return the files with their numbers of rows.

    ``pieces`` have the same tables by name, the rows of each piece behind those of the last one.
    There is one piece at least. The file of a table is ``prefix``, a hyphen, the name and
    ``suffix``, which is ``.csv`` or ``.parquet``. If a table cannot be written, no file has
    changed. Raises OSError, and MissingLibraryError if the library for Parquet is not installed.
    """
    appending = WRITERS[suffix]
    pieces = iter(pieces)
    first = next(pieces)
    files = {name: prefix.with_name(f"{prefix.name}-{name}{suffix}") for name in first}
    rows = dict.fromkeys(first, 0)
    with whole_or_none(list(files.values())) as temporary, ExitStack() as open_files:
        append = {
            name: open_files.enter_context(appending(temporary[file]))
            for name, file in files.items()
        }
        for tables in chain([first], pieces):
            for name, table in tables.items():
                append[name](table)
                rows[name] += rows_of(table)
    return {file: rows[name] for name, file in files.items()}


def rows_of(table: Table) -> int:
    """How many rows a table has."""
    values = next(iter(table.values()))
    return len(values.numbers) if isinstance(values, Coded) else len(values)


@contextmanager
def whole_or_none(files: list[Path]) -> Iterator[dict[Path, Path]]:
    """Give a temporary file to write to for each of ``files``.

    At the end each temporary file takes the name of its file. After an error none does; an OSError
    has the name of the file, too.
    """
    temporary = {file: file.parent / f".{file.name}.{os.getpid()}.part" for file in files}
    try:
        yield temporary
        for file, part in temporary.items():
            os.replace(part, file)
    except OSError as error:
        named = {str(part): str(file) for file, part in temporary.items()}
        if str(error.filename) in named:
            error.filename = named[str(error.filename)]
        raise
    finally:
        for part in temporary.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)


@contextmanager
def _csv(path: Path) -> Iterator[Callable[[Table], None]]:
    """A file that tables are appended to; the first one gives it a heading."""
    with path.open("w", encoding="utf-8", newline="") as file:

        def append(table: Table) -> None:
            if not file.tell():
                file.write(",".join(_quoted(list(table))) + "\n")
            columns = [_quoted_column(values) for values in table.values()]
            for start in range(0, rows_of(table), _ROWS_AT_ONCE):
                file.write(joined_rows(list(_fields(columns, start, start + _ROWS_AT_ONCE))))

        yield append


def _quoted_column(values: npt.NDArray[Any] | Coded) -> npt.NDArray[Any] | Coded:
    """A column whose texts are fields of CSV."""
    if isinstance(values, Coded):
        return Coded(_quoted(values.names), values.numbers)
    if values.dtype == object:
        return Coded(_quoted(values.tolist()), np.arange(len(values)))
    return values


def _fields(
    columns: list[npt.NDArray[Any] | Coded], start: int, stop: int
) -> Iterator[Coded | str]:
    """Some rows, with commas between their columns and an end of line behind the last one."""
    for place, values in enumerate(columns):
        if place:
            yield ","
        if isinstance(values, Coded):
            yield Coded(values.names, values.numbers[start:stop])
        elif values.dtype == bool:  # as Arrow writes them
            yield truths(values[start:stop])
        else:
            yield from decimal(values[start:stop])
    yield "\n"


def _quoted(texts: list[str]) -> list[str]:
    """Texts as fields of CSV."""
    if not _SPECIAL.search("".join(texts)):
        return texts
    return [
        '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text for text in texts
    ]


WRITERS: dict[str, Callable[[Path], AbstractContextManager[Callable[[Table], None]]]] = {
    ".csv": _csv,
    ".parquet": appending_parquet,
}
"""What opens a file that tables are appended to, by the suffix of the file."""
