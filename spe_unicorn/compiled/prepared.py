"""LLVM code that was made in advance, so that a first run needs no numba.

``prepared.zip`` has the optimized LLVM code of entries, each under the name of all that it depends
on: texts of functions, numbers and layouts. What is made of it is machine code for this very
processor, as ever. Code of another text is not there, and numba makes it. ``scripts/prepare``
writes the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spe_unicorn.compiled import machine_code

if TYPE_CHECKING:
    from spe_unicorn.compiled.functions import Entry

PLACE: Final = Path(__file__).with_name("prepared.zip")
CPU: Final = "x86-64-v3"
"""The processor that it is optimized for. Others of the kind execute it as well."""
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""When each part was written, so that equal parts are equal bytes."""


def read(entry: Entry) -> str | None:
    """The LLVM code of an entry; None if there is none for its text, or none for this host."""
    from zipfile import BadZipFile, ZipFile  # nothing else needs it at a start
    from zlib import error

    try:
        with ZipFile(PLACE) as archive:
            text = archive.read(_part(entry)).decode()
    except (OSError, SyntaxError, KeyError, BadZipFile, error, UnicodeDecodeError):
        return None
    return text if text.startswith(machine_code.layout()) else None


def made(entry: Entry) -> str:
    """The LLVM code of an entry, made anew by numba."""
    return machine_code.improved(entry.ir(), machine_code.SYMBOL, CPU)


def compiler() -> str:
    """What the LLVM code depends on beside :attr:`Entry.text_key`: the compiler, and Python."""
    from importlib.metadata import version

    parts = (f"{name} {version(name)}" for name in ("numba", "llvmlite"))
    return f"{', '.join(parts)}, {sys.implementation.cache_tag}"


def write(entries: Iterable[Entry], place: Path) -> None:
    """Make the LLVM code of entries, and write it to the file ``place``."""
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    with ZipFile(place, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        archive.comment = compiler().encode()
        for entry in entries:
            part = ZipInfo(_part(entry), _TIME)
            part.compress_type = ZIP_DEFLATED
            archive.writestr(part, made(entry))


def made_by() -> str:
    """What :func:`compiler` was when the file was written."""
    from zipfile import ZipFile

    with ZipFile(PLACE) as archive:
        return archive.comment.decode()


def stale(entries: Iterable[Entry]) -> list[str]:
    """The parts of the file that no entry has, and those that entries have and the file has not."""
    from zipfile import ZipFile

    with ZipFile(PLACE) as archive:
        return sorted({*archive.namelist()} ^ {_part(entry) for entry in entries})


def _part(entry: Entry) -> str:
    return f"{entry.name}-{entry.text_key}.ll"
