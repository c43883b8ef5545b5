"""Which ELF files name the addresses of a file of records."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from spe_unicorn.output.image import file_digest
from spe_unicorn.output.reader import RecordFile
from spe_unicorn.output.tasks import Mapping
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.elf import ElfError, ElfFile, read_elf
from spe_unicorn.symbols.kallsyms import read_names
from spe_unicorn.symbols.places import Places


class Files:
    """The files that name addresses: the chosen ones, or else those that the recording names.

    A chosen file without an address goes where the recording has a file of that name in memory;
    where there is none, it is in the memory of every process, where it is linked. A file that a
    recording names and that is not there any more names nothing. Raises ElfError for a chosen file
    that cannot be used.
    """

    def __init__(self, file: RecordFile, choices: Iterable[SymbolChoice]) -> None:
        mapped = {PurePosixPath(mapping.path).name for mapping in file.mappings}
        self._chosen: dict[str, ElfFile] = {}
        self._everywhere: list[tuple[ElfFile, int | None]] = []
        self._known: dict[str, ElfFile | None] = {}
        self._named = True
        for choice in choices:
            self._named = False
            elf = read_names(Path(choice.path))
            if choice.address is None and elf.path.name in mapped:
                self._chosen[elf.path.name] = elf
            else:
                address = default_address(elf) if choice.address is None else choice.address
                self._everywhere.append((elf, address))

    def places(self, mappings: Iterable[Mapping]) -> Places:
        """What is where in a memory; what is mapped first is found first."""
        places = Places()
        for elf, address in self._everywhere:
            places.add_file(elf, address)
        for mapping in mappings:
            file = self._of(mapping.path)
            if file is not None:
                places.add_mapping(file, mapping.address, mapping.size, mapping.offset)
        return places

    def _of(self, path: str) -> ElfFile | None:
        if not self._named:
            return self._chosen.get(PurePosixPath(path).name)
        path = os.path.normpath(path)
        if path not in self._known:
            try:
                self._known[path] = read_elf(Path(path))
            except ElfError:
                self._known[path] = None
        return self._known[path]


def doubts(file: RecordFile, files: list[ElfFile]) -> list[str]:
    """Sentences on files that name addresses and are not what was recorded."""
    if file.digest is None or not files:
        return []
    if file.digest in {file_digest(elf.path) for elf in files}:
        return []
    names = ", ".join(str(elf.path) for elf in files)
    return [
        f"{names}: not the file that {file.path} was recorded of, whose SHA-256 is {file.digest};"
        " names may be wrong"
    ]


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
