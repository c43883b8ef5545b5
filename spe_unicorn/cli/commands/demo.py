"""``spe-unicorn demo``: shipped firmware that profiles itself, and what its records say."""

from __future__ import annotations

import sys

import click

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.output.table import table
from spe_unicorn.output.text import record_text
from spe_unicorn.spe.record import PlacedRecord, decode_stream

_FIRMWARE = "spe_copy"
_SHOWN = 12
"""Records in the table."""


@click.command()
def demo() -> None:
    """Run shipped firmware that profiles itself, and explain its records."""
    sys.exit(_demonstrate())


def _demonstrate() -> int:
    """Run it, print what it did; its exit status."""
    from spe_unicorn.machine.shipped import shipped_firmware
    from spe_unicorn.session.machine import Machine

    try:
        file = shipped_firmware(_FIRMWARE)
    except FileNotFoundError as error:
        raise UsageProblem(str(error)) from error
    machine = Machine(file)
    outcome = machine.run()
    records = machine.pes[0].records.raw
    counts = outcome.statistics
    click.echo(
        f"{_FIRMWARE} is bare-metal firmware. It programs the Statistical Profiling Extension as\n"
        f"a driver does, copies memory in a loop while it is sampled, and checks its own records.\n"
        f"It says:\n"
    )
    for line in machine.console.text.splitlines():
        click.echo(f"  | {line}")
    click.echo(
        f"\nIt executed {outcome.operations} operations, {counts.population} of them with"
        f" profiling enabled.\n{counts.written} were sampled, and left {counts.bytes} bytes of"
        f" records in its memory. This is the first one,\nbyte by byte:\n"
    )
    placed = [found for found in decode_stream(records) if isinstance(found, PlacedRecord)]
    click.echo("".join(record_text(records, one, 0) for one in placed[:1]))
    click.echo(f"And these are the first {min(_SHOWN, len(placed))}, a line each:\n")
    for line in table(((one.record, 0) for one in placed[:_SHOWN]), machine.image.symbolize):
        click.echo(f"  {line}")
    click.echo(f"\n{_next_steps(str(file))}")
    return 1 if outcome.exit_status is None else outcome.exit_status


def _next_steps(file: str) -> str:
    return (
        f"To go on:\n"
        f"  spe-unicorn run -o copy.spe {file}\n"
        f"  spe-unicorn decode copy.spe --symbols {file}\n"
        f"                                                     all records\n"
        f"  spe-unicorn run --trace sysreg {file}\n"
        f"                                                     how it programs SPE\n"
        f"  spe-unicorn record -c 1000 -o mine.data YOUR.elf   sample any firmware, for perf\n"
        f"  spe-unicorn regs PMSCR_EL1                         what a register does"
    )
