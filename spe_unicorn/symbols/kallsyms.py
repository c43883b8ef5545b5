"""Names of a running kernel: what ``/proc/kallsyms`` and ``System.map`` say."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from spe_unicorn.symbols.elf import ElfFile, Piece, read_elf
from spe_unicorn.symbols.errors import ElfError
from spe_unicorn.symbols.table import Symbol, SymbolTable

_LINE = re.compile(rb"([0-9a-fA-F]{16}) ([a-zA-Z]) (\S+)(?:[ \t]+\[(\S+)\])?")
_OF_MODULE = re.compile(rb"^([0-9a-fA-F]{16}) [a-zA-Z] (\S+)[ \t]+\[(\S+)\]$", re.M)
_CODE = b"tTwW"
_PAGE = 1 << 12
_MOST_BYTES = 64 << 20
"""The longest listing: a guest may have written it. Debian's kernel with its modules has 12 MB."""


def read_names(path: Path) -> ElfFile:
    """What names addresses: an ELF file, or a listing of a kernel's symbols.

    A listing becomes a file without bytes, which is linked where the kernel is. Raises ElfError.
    """
    try:
        with path.open("rb") as stream:
            start = stream.readline(4096)
            if _LINE.match(start) is None:
                return read_elf(path)
            rest = stream.read(_MOST_BYTES)
    except OSError as error:
        raise ElfError(f"{path}: {error.strerror or error}") from None
    if len(rest) == _MOST_BYTES:
        raise ElfError(f"{path}: is too long: at most {_MOST_BYTES >> 20} MiB of names are read")
    return _listing(path, [start, *rest.splitlines()])


def modules_in(path: Path) -> dict[str, dict[str, int]]:
    """The symbols of each module in a listing, with their addresses. Raises ElfError."""
    found: dict[str, dict[str, int]] = {}
    for address, name, module in _OF_MODULE.findall(_text(path)):
        symbols = found.setdefault(module.decode("utf-8", "replace"), {})
        symbols[name.decode("utf-8", "replace")] = int(address, 16)
    return found


def address_in(path: Path, name: str) -> int | None:
    """Where the kernel itself has a name, by a listing; None if it has not. Raises ElfError."""
    line = rb"^([0-9a-fA-F]{16}) [a-zA-Z] " + re.escape(name.encode()) + rb"$"
    found = re.search(line, _text(path), re.M)
    return None if found is None else int(found.group(1), 16)


def _text(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError as error:
        raise ElfError(f"{path}: {error.strerror or error}") from None


def _listing(path: Path, lines: list[bytes]) -> ElfFile:
    found = []
    for line in lines:
        match = _LINE.match(line)
        if match is not None:
            address, kind, name, module = match.groups()
            text = name.decode("utf-8", "replace")
            if not text.startswith("$"):
                found.append((int(address, 16), text, kind in _CODE, module or b""))
    found.sort()
    if not found or not found[-1][0]:
        raise ElfError(f"{path}: all addresses are 0: only root reads those of /proc/kallsyms")
    ends = {}
    for (start, *_, module), (end, *_, following) in pairwise(found):
        if start < end:
            # after the last one of a module it is not known what lies there: as perf has it
            last = start + 2 * _PAGE - 1 & -_PAGE
            ends[start] = end if module == following else min(end, last)
    symbols = [Symbol(a, name, ends.get(a, a + 4) - a, code) for a, name, code, _ in found]
    first, size = found[0][0], found[-1][0] + 4 - found[0][0]
    return ElfFile(path, (Piece(first, first, 0, 0, size),), SymbolTable(symbols), False, 1)
