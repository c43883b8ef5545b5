"""``--symbols``: ELF files that name the addresses of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.output.names import printable
from spe_unicorn.output.reader import RecordFile
from spe_unicorn.report.places import SymbolChoice, doubts, places_of, symbol_choice
from spe_unicorn.symbols.elf import ElfError
from spe_unicorn.symbols.places import Places


def symbols_option(function: Callable[..., Any]) -> Callable[..., Any]:
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
        " is linked, if left out). May be given more than once. A perf.data file of ours knows its"
        " ELF files.",
    )(function)


def _choice(text: str) -> SymbolChoice:
    try:
        return symbol_choice(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def places_for(file: RecordFile, choices: tuple[SymbolChoice, ...]) -> Places:
    """What names the addresses of a file. Raises UsageProblem for a file that cannot be used.

    Says on standard error if that is not what was recorded.
    """
    try:
        places = places_of(file, choices)
    except ElfError as error:
        raise UsageProblem(str(error)) from None
    for doubt in doubts(file, places):
        click.echo(f"Warning: {printable(doubt)}", err=True)
    return places
