"""``--symbols``: ELF files that name addresses, those of a machine and those of records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.output.names import printable
from spe_unicorn.symbols.choice import SymbolChoice, symbol_choice

if TYPE_CHECKING:  # the help of a command reads no file
    from spe_unicorn.machine.names import Names
    from spe_unicorn.output.reader import RecordFile
    from spe_unicorn.symbols.places import Places


def symbols_option(function: Callable[..., object]) -> Callable[..., Any]:
    """The option, as the argument ``symbols``: a tuple of :class:`SymbolChoice`."""
    return click.option(
        "--symbols",
        "--elf",
        "symbols",
        type=_choice,
        multiple=True,
        metavar="FILE[@ADDRESS]",
        shell_complete=completing.files,
        help="Name addresses by the symbols of this ELF file, its lowest byte at ADDRESS (where it"
        " is linked, if left out), or of a copy of a kernel's /proc/kallsyms. May be given more"
        " than once. Known without: the program that runs, and the ELF files of a perf.data file"
        " of ours.",
    )(function)


def _choice(text: str) -> SymbolChoice:
    try:
        return symbol_choice(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def add_symbols(names: Names, choices: tuple[SymbolChoice, ...]) -> None:
    """Have a machine's addresses named by these files. Raises UsageProblem for a bad one."""
    if not choices:
        return
    from spe_unicorn.report.places import default_address
    from spe_unicorn.symbols.errors import ElfError
    from spe_unicorn.symbols.kallsyms import read_names

    for choice in choices:
        try:
            elf = read_names(Path(choice.path))
        except ElfError as error:
            raise UsageProblem(str(error)) from None
        names.add(elf, default_address(elf) if choice.address is None else choice.address)


def places_for(file: RecordFile, choices: tuple[SymbolChoice, ...]) -> Places:
    """What names addresses whichever process has them.

    Raises UsageProblem for a file that cannot be used. Says on standard error if the files are not
    what was recorded.
    """
    from spe_unicorn.output.arrays import read_arrays
    from spe_unicorn.report.places import doubts
    from spe_unicorn.report.spaces import Spaces
    from spe_unicorn.symbols.errors import ElfError

    try:
        places = Spaces(file, choices, lambda: read_arrays(file.streams)[0]).common
    except ElfError as error:
        raise UsageProblem(str(error)) from None
    for doubt in doubts(file, places.files):
        click.echo(f"Warning: {printable(doubt)}", err=True)
    return places
