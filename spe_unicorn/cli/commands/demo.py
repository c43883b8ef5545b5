"""``spe-unicorn demo``: shipped firmware that profiles itself, and what its records say."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from itertools import chain
from pathlib import Path

import click

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.output.table import table
from spe_unicorn.output.text import record_text
from spe_unicorn.spe.record import PlacedRecord, decode_stream

_FIRMWARE = "spe_copy"
_SORTING = "bench_sort.elf"
"""Firmware beside it that knows nothing of SPE."""
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
    click.echo(f"\n{_next_steps(file)}")
    return 1 if outcome.exit_status is None else outcome.exit_status


def _next_steps(file: Path) -> str:
    """Commands that run as they stand, in this order, each after what it is for."""
    program, sorting = (shlex.quote(str(path)) for path in (file, file.with_name(_SORTING)))
    steps = (
        ("Put spe-unicorn on the path.", _activation()),
        (
            "Write the records to a file, and show all of them.",
            f"spe-unicorn run -o copy.spe {program}",
        ),
        ("", f"spe-unicorn decode --symbols {program} copy.spe"),
        ("See how it programs SPE.", f"spe-unicorn run --trace sysreg {program}"),
        (
            "Sample firmware that knows nothing of SPE, this or yours; see where its time goes.",
            f"spe-unicorn record -c 1000 -o sort.data {sorting}",
        ),
        ("", "spe-unicorn report sort.data"),
        ("See what a register does.", "spe-unicorn regs PMSCR_EL1"),
    )
    lines = [[f"# {purpose}"] * bool(purpose) + [command] for purpose, command in steps if command]
    return "\n".join(f"  {line}" for line in ("To go on:", *chain(*lines))).removeprefix("  ")


def _activation() -> str:
    """What puts the command on the path of the caller's shell; "" where it is there already."""
    environment = Path(sys.prefix)
    found = shutil.which("spe-unicorn")
    is_active = os.environ.get("VIRTUAL_ENV") == sys.prefix
    is_elsewhere = found is not None and Path(found).parent != environment / "bin"  # as pipx has it
    activate = environment / "bin/activate"
    if is_active or is_elsewhere or not activate.is_file():
        return ""
    return f". {shlex.quote(str(activate))}"
