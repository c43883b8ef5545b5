"""``--symbols``: which ELF files name the addresses of a file of records."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spe_unicorn.cli.errors import UsageProblem

if TYPE_CHECKING:
    from spe_unicorn.output.reader import RecordFile
    from spe_unicorn.symbols.elf import ElfFile
    from spe_unicorn.symbols.places import Places


@dataclass(frozen=True)
class SymbolChoice:
    """An ELF file, and the address of its lowest byte in memory: None for where it is linked."""

    path: str
    address: int | None = None


def symbol_choice(text: str) -> SymbolChoice:
    """``FILE[@ADDRESS]``."""
    path, at, address = text.rpartition("@")
    if not at or os.path.exists(text):
        return SymbolChoice(text)
    try:
        value = int(address, 0)
    except ValueError:
        raise click.BadParameter(f"{text!r}: {address!r} is no address; write 0x80000") from None
    if not 0 <= value < 1 << 64:
        raise click.BadParameter(f"{text!r}: an address has 64 bits")
    return SymbolChoice(path, value)


def symbols_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option, as the argument ``symbols``: a tuple of :class:`SymbolChoice`."""
    return click.option(
        "--symbols",
        "--elf",
        "symbols",
        type=symbol_choice,
        multiple=True,
        metavar="FILE[@ADDRESS]",
        help="Name addresses by the symbols of this ELF file, its lowest byte at ADDRESS (where it"
        " is linked, if left out). May be given more than once. A perf.data file of ours knows its"
        " ELF files.",
    )(function)


def places_of(file: RecordFile, choices: tuple[SymbolChoice, ...]) -> Places:
    """What names the addresses of a file: the chosen ELF files, or else those that it names.

    Raises UsageProblem for a chosen file that cannot be used. A file that a recording names and
    that is not there any more names nothing.
    """
    from spe_unicorn.symbols.elf import ElfError, read_elf
    from spe_unicorn.symbols.places import Places

    places = Places()
    for choice in choices:
        try:
            elf = read_elf(Path(choice.path))
        except ElfError as error:
            raise UsageProblem(str(error)) from None
        places.add_file(elf, _address(elf) if choice.address is None else choice.address)
    if choices:
        return places
    files: dict[str, ElfFile | None] = {}
    for mapping in file.mappings:
        path = os.path.normpath(mapping.path)
        if path not in files:
            try:
                files[path] = read_elf(Path(path))
            except ElfError:
                files[path] = None
        known = files[path]
        if known is not None:
            places.add_mapping(known, mapping.address, mapping.size, mapping.offset)
    return places


def _address(elf: ElfFile) -> int | None:
    """Where the machine puts a file by default: None for where it is linked."""
    if not elf.is_pie:
        return None
    from spe_unicorn.machine.boot.loader import pie_bias
    from spe_unicorn.machine.memory_map import RAM_BASE, RAM_MAX

    ram = range(RAM_BASE, RAM_BASE + RAM_MAX)
    if all(piece.paddr in ram for piece in elf.pieces):
        return None
    return elf.lowest + pie_bias(elf.lowest, elf.alignment, RAM_BASE)
