"""Which ELF files name the addresses of a file of records."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from spe_unicorn.output.image import file_digest
from spe_unicorn.output.reader import RecordFile
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.elf import ElfError, ElfFile, read_elf
from spe_unicorn.symbols.places import Places


def places_of(file: RecordFile, choices: Iterable[SymbolChoice]) -> Places:
    """What names the addresses of a file: the chosen ELF files, or else those that it names.

    Raises ElfError for a chosen file that cannot be used. A file that a recording names and that
    is not there any more names nothing.
    """
    places = Places()
    for choice in choices:
        elf = read_elf(Path(choice.path))
        places.add_file(elf, default_address(elf) if choice.address is None else choice.address)
    if places:
        return places
    files: dict[str, ElfFile | None] = {}
    for mapping in file.mappings:
        path = os.path.normpath(mapping.path)
        if path not in files:
            files[path] = _known(path)
        known = files[path]
        if known is not None:
            places.add_mapping(known, mapping.address, mapping.size, mapping.offset)
    return places


def doubts(file: RecordFile, places: Places) -> list[str]:
    """Sentences on files that name addresses and are not what was recorded."""
    if file.digest is None or not places:
        return []
    if file.digest in {file_digest(elf.path) for elf in places.files}:
        return []
    names = ", ".join(str(elf.path) for elf in places.files)
    return [
        f"{names}: not the file that {file.path} was recorded of, whose SHA-256 is {file.digest};"
        " names may be wrong"
    ]


def _known(path: str) -> ElfFile | None:
    try:
        return read_elf(Path(path))
    except ElfError:
        return None


def default_address(elf: ElfFile) -> int | None:
    """Where the machine puts a file by default: None for where it is linked."""
    if not elf.is_pie:
        return None
    from spe_unicorn.machine.boot.loader import pie_bias
    from spe_unicorn.machine.memory_map import RAM_BASE, RAM_MAX

    ram = range(RAM_BASE, RAM_BASE + RAM_MAX)
    if all(piece.paddr in ram for piece in elf.pieces):
        return None
    return elf.lowest + pie_bias(elf.lowest, elf.alignment, RAM_BASE)
