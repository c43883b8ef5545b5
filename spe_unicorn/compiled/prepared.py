"""LLVM code that was made in advance, so that a first run needs no numba.

``prepared.zip`` has the optimized LLVM code of entries for each kind of host
(``machine_code.HOSTS``), an entry under the name of all that the code depends on: texts of
functions, numbers and layouts. What is made of it is machine code for this very processor, as ever.
Code of another text is not there, and numba makes it. ``scripts/prepare`` writes the file.

The texts for the kinds of hosts differ little, so they are packed together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spe_unicorn.compiled import machine_code

if TYPE_CHECKING:
    from spe_unicorn.compiled.functions import Entry

PLACE: Final = Path(__file__).with_name("prepared.zip")
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""When each part was written, so that equal parts are equal bytes."""
_LEVEL: Final = 19
"""How hard zstd tries: the file is read often and written seldom."""
_BETWEEN: Final = "\0"
"""What stands between the texts for two kinds of hosts."""
_LLVM: Final = re.compile(r"LLVM (\d+)")


def read(entry: Entry) -> str | None:
    """The LLVM code of an entry; None if there is none for its text, for this host or this LLVM."""
    texts = read_all(entry)
    layout = machine_code.layout()
    return next((text for text in texts if text.startswith(layout)), None)


def read_all(entry: Entry) -> list[str]:
    """The LLVM code of an entry for each kind of host; nothing if none of it can be used here."""
    from zipfile import BadZipFile, ZipFile  # nothing else needs them at a start

    from spe_unicorn import zstd

    try:
        if not _is_known(str(PLACE)):
            return []
        with ZipFile(PLACE) as archive:
            packed = archive.read(_part(entry))
        return zstd.decompress(packed).decode().split(_BETWEEN)
    except (OSError, SyntaxError, KeyError, BadZipFile, zstd.ZstdError, UnicodeDecodeError):
        return []


@lru_cache(maxsize=4)
def _is_known(place: str) -> bool:
    """Whether the LLVM that is here knows what the one said that made the file.

    LLVM code of a newer version is not always refused: some of it ends the process.
    """
    from zipfile import ZipFile

    with ZipFile(place) as archive:
        version = _LLVM.search(archive.comment.decode(errors="replace"))
    return version is not None and int(version[1]) <= machine_code.llvm_version()


def made(entry: Entry) -> list[str]:
    """The LLVM code of an entry for each kind of host, made anew by numba."""
    ir = entry.ir()
    return [machine_code.improved(ir, machine_code.SYMBOL, host) for host in machine_code.HOSTS]


def compiler() -> str:
    """What the LLVM code depends on beside :attr:`Entry.text_key`: the compiler, and Python."""
    from importlib.metadata import version

    llvm = f"LLVM {machine_code.llvm_version()}"
    parts = (f"{name} {version(name)}" for name in ("numba", "llvmlite"))
    return ", ".join((llvm, *parts, str(sys.implementation.cache_tag)))


def write(entries: Iterable[Entry], place: Path) -> None:
    """Make the LLVM code of entries, and write it to the file ``place``."""
    from zipfile import ZIP_STORED, ZipFile, ZipInfo

    from spe_unicorn import zstd

    with ZipFile(place, "w", ZIP_STORED) as archive:
        archive.comment = compiler().encode()
        for entry in entries:
            text = _BETWEEN.join(made(entry))
            archive.writestr(ZipInfo(_part(entry), _TIME), zstd.compress(text.encode(), _LEVEL))


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
    return f"{entry.name}-{entry.text_key}.ll.zst"
