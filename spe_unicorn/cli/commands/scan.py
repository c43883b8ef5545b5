"""``spe-unicorn scan``: the instructions of firmware that a core lacks, before it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.commands.regs import table
from spe_unicorn.cli.errors import UsageProblem

_LACKING: Final = 1
"""Exit status where instructions are lacking."""


@click.command()
@click.argument("firmware", shell_complete=completing.files)
@click.option(
    "--core",
    default="generic",
    metavar="NAME[,KEY=VALUE...]",
    shell_complete=completing.core_profiles,
    help="Core profile, as run has it.",
)
def scan(firmware: str, core: str) -> None:
    """List the instructions of an ELF file that a core lacks, by function.

    So an instruction is listed that the core does not have by its profile, or that this machine
    does not execute on any core. What is executed only where ID registers allow it is listed, too.

    Exit status: 0, 1 if instructions are lacking, 2 for a file or a core that cannot be used.
    """
    from spe_unicorn.cores.profile import CoreError, load_core
    from spe_unicorn.debug.advice.scanning import lines_of
    from spe_unicorn.debug.advice.scanning import scan as scanned
    from spe_unicorn.symbols.errors import ElfError

    try:
        chosen = load_core(core)
        found = scanned(Path(firmware), chosen)
    except (CoreError, ElfError, OSError) as error:
        raise UsageProblem(str(error)) from error
    for line in table(lines_of(found, chosen)) if found.lacking else ():
        click.echo(line.rstrip())
    number = sum(one.times for one in found.lacking)
    click.echo(f"{number} of {found.operations} instructions are lacking on {chosen.name}")
    if number:
        sys.exit(_LACKING)
