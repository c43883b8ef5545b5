"""Reads what a machine starts from; whatever is wrong is one line with the file's name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from spe_unicorn.machine.boot.image import LoadError


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the file's name before every LoadError from within."""
    try:
        yield
    except LoadError as error:
        # A name with control or undecodable characters must still print as one line.
        name = str(Path(path))
        raise LoadError(f"{name if name.isprintable() else repr(name)}: {error}") from None


@contextmanager
def host_errors(otherwise: str) -> Iterator[None]:
    """Make LoadErrors, without the file's name, of what the host refuses within.

    ``otherwise`` says what is wrong where the host does not.
    """
    try:
        yield
    except OSError as error:
        raise LoadError(error.strerror or otherwise) from None
    except LoadError:
        raise
    except ValueError:  # the name holds a NUL
        raise LoadError("is not a file name") from None


@contextmanager
def regular_file(path: str | os.PathLike[str], expected: str) -> Iterator[BinaryIO]:
    """A regular file, open for reading; ``expected`` says what was expected in its place.

    Raises LoadError, without the file's name, for what cannot be opened or read.
    """
    file = Path(path)
    try:
        with host_errors("cannot be read"):
            # Opening a FIFO or a terminal would wait for its writer: look before opening.
            mode = file.stat().st_mode
            if stat.S_ISDIR(mode):
                raise LoadError(f"is a directory, not {expected}")
            if not stat.S_ISREG(mode):
                raise LoadError("is not a regular file")
            with file.open("rb") as stream:
                yield stream
    except MemoryError:
        raise LoadError("is too large to read") from None


def contents(path: str | os.PathLike[str], limit: int, place: str) -> bytes:
    """The bytes of a file, at least one and at most ``limit``; ``place`` is what cannot be larger.

    Raises LoadError, with the file's name.
    """
    with naming(path), regular_file(path, "a file") as stream:
        data = stream.read(limit + 1)
        if not data:
            raise LoadError("is empty")
        if len(data) > limit:
            raise LoadError(f"is larger than {place}: {limit:#x} bytes")
        return data


def beginning(path: str | os.PathLike[str], size: int) -> bytes:
    """The first ``size`` bytes of a file, fewer if it has no more.

    Raises LoadError, with the file's name.
    """
    with naming(path), regular_file(path, "a file") as stream:
        return stream.read(size)
