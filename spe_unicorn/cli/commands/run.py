"""``spe-unicorn run``: firmware that programs SPE itself."""

from __future__ import annotations

import sys
from typing import Any

import click
from click.core import ParameterSource

from spe_unicorn.cli.annotating import warn_format
from spe_unicorn.cli.run.options import common_options
from spe_unicorn.cli.run.run_command import run_command
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.snapshots import snapshot_options
from spe_unicorn.cli.sweeping import run_sweep, sweep_options


def warn_options(function: Any) -> Any:
    """The options on mistakes in how the guest programs SPE."""
    kinds = click.option(
        "--warn",
        type=click.Choice(["misuse", "error"]),
        help="Name mistakes in how the guest programs SPE; with error, exit with status 3 after"
        " them.",
    )
    form = click.option(
        "--warn-format",
        type=warn_format,
        metavar="github|sarif|gcc[:FILE]",
        help="Write what --warn and --check have found for a tool that shows it in the source, to"
        " FILE or to standard error.",
    )
    return kinds(form(function))


@run_command(
    "spe-unicorn run -o records.data firmware.elf          samples that perf reads\n"
    "spe-unicorn run --trace sysreg,spe --warn misuse firmware.elf\n"
    "spe-unicorn run --kernel Image --append console=ttyAMA0 --initrd root.cpio.gz --ram 1G"
)
@common_options(output_required=False)
@warn_options
@sweep_options
@snapshot_options
def run(**options: Any) -> None:
    """Run FIRMWARE, an AArch64 ELF file; its records go to -o as the guest writes them.

    --kernel starts a Linux kernel or the like instead of FIRMWARE.

    ARGUMENTS are handed to the guest, by semihosting; put -- before those that look like
    options. The guest's console is standard input and output; with "-" as the file of -o, --json
    or --trace it is standard error instead.

    --interrupt-sweep runs it many times, and ends with status 1 if it ever fails.

    Exit status: the guest's own; 0 at --until; 2 wrong usage or a bad file; 3 mistakes under --warn
    error; 4 an end before --until; 124 a limit was reached; 125 the guest sleeps for ever; 126 the
    guest did what it cannot go on from; 130 Ctrl-C.
    """
    source = click.get_current_context().get_parameter_source
    given = {name for name in options if source(name) is ParameterSource.COMMANDLINE}
    settings = Settings.of(given=given, **options)
    if settings.interrupt_sweep is not None:
        sys.exit(run_sweep(settings, settings.interrupt_sweep, given))
    from spe_unicorn.cli.run.session import run_session

    sys.exit(run_session(settings))
