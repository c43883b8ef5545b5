"""Files of records, as each command that reads them opens them and tells what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.output.reader import BadFileError, RecordFile, read_file

BAD_PACKETS: Final = 1
"""Exit status where some bytes were no packets, or the file is damaged."""


def opened(path: str) -> RecordFile:
    """The records of a file; "-" is standard input. Raises UsageProblem where it has none."""
    try:
        return read_file(path)
    except BadFileError as error:
        raise UsageProblem(str(error)) from None


def writable(output: str, recording: str) -> Path:
    """Where to write what is made of a recording. Raises UsageProblem for itself, and a folder."""
    path = Path(output)
    if path.is_dir():
        raise UsageProblem(f"{output}: Is a directory")
    if path.exists() and Path(recording).exists() and path.samefile(recording):
        raise UsageProblem(f"{output}: is the recording that is read")
    return path


def no_records(file: RecordFile, reason: str) -> UsageProblem:
    """What to raise for a file of which no record can be read."""
    return UsageProblem(f"{file.path}: holds no SPE records: {reason}")


def leave(file: RecordFile, bad_packets: int, *, told: bool = False) -> None:
    """Say what could not be read, and exit with status 1 if there was something.

    Bad packets that the user has been ``told`` of one by one are not counted out again.
    """
    if bad_packets and not told:
        click.echo(f"{file.path}: {bad_packets} bad packets were left out", err=True)
    if file.damage is not None:
        click.echo(f"{file.path}: {file.damage}", err=True)
    if bad_packets or file.damage is not None:
        sys.exit(BAD_PACKETS)
