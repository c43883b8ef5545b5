"""``spe-unicorn decode``: the records of a file, in full."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from spe_unicorn.output.jsonl import record_json
from spe_unicorn.output.reader import BadFileError, Stream, read_streams
from spe_unicorn.output.text import record_text
from spe_unicorn.spe.packets import BadPacket
from spe_unicorn.spe.record import PlacedRecord, decode_stream

BAD_PACKETS = 1
"""Exit status where some bytes were no packets."""
BAD_FILE = 2
"""Exit status for a file without records."""

_SHOWN_BYTES = 10


class _BadFile(click.ClickException):
    exit_code = BAD_FILE


@click.command()
@click.argument("file")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people, or one JSON object a line.",
)
def decode(file: str, form: str) -> None:
    """Show the records in FILE, a raw stream or a perf.data file of ours.

    "-" reads standard input. A bad packet is reported with its offset, and reading goes on at
    the next possible record.

    Exit status: 0, 1 if there were bad packets, 2 if FILE holds no records.
    """
    try:
        streams = read_streams(file)
    except BadFileError as error:
        raise _BadFile(str(error)) from None
    _refuse_what_is_no_stream(file, streams)
    bad = 0
    number = 0
    for stream, found in _decoded(streams):
        if isinstance(found, BadPacket):
            bad += 1
            click.echo(_complaint(file, stream, found), err=True)
        elif form == "json":
            sys.stdout.write(
                record_json(found.record, stream.offset + found.start, stream.cpu) + "\n"
            )
            number += 1
        else:
            sys.stdout.write(
                record_text(stream.data, found, number, stream.cpu, stream.offset) + "\n"
            )
            number += 1
    if bad:
        sys.exit(BAD_PACKETS)


def _decoded(streams: list[Stream]) -> Iterator[tuple[Stream, PlacedRecord | BadPacket]]:
    for stream in streams:
        for found in decode_stream(stream.data):
            yield stream, found


def _refuse_what_is_no_stream(file: str, streams: list[Stream]) -> None:
    """Exit where the first packet is bad and no record follows: FILE is something else."""
    for stream, found in _decoded(streams):
        if isinstance(found, BadPacket) and not any(
            isinstance(later, PlacedRecord) for _, later in _decoded(streams)
        ):
            offset = stream.file_offset + found.offset
            raise _BadFile(f"{file}: holds no SPE records: {found.reason} at offset {offset:#x}")
        return


def _complaint(file: str, stream: Stream, bad: BadPacket) -> str:
    shown = bad.data[:_SHOWN_BYTES].hex(" ") + (" ..." if len(bad.data) > _SHOWN_BYTES else "")
    offset = stream.file_offset + bad.offset
    return f"{file}: bad packet at offset {offset:#x} ({shown}): {bad.reason}"
