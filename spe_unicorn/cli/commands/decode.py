"""``spe-unicorn decode``: the records of a file, in full."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.recordings import leave, no_records, opened
from spe_unicorn.cli.run.symbols import places_for, symbols_option
from spe_unicorn.output.jsonl import record_json
from spe_unicorn.output.reader import RecordFile, Stream
from spe_unicorn.output.scan import Found, Scanner, placed_at
from spe_unicorn.output.table import nameless, table
from spe_unicorn.output.text import RecordTexts
from spe_unicorn.spe.packets import BadPacket
from spe_unicorn.spe.record import PlacedRecord, decode_stream
from spe_unicorn.symbols.choice import SymbolChoice

_SHOWN_BYTES = 10


@click.command()
@click.argument("file", shell_complete=completing.files)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "text", "json"]),
    help="A line a record, a line a packet, or one JSON object a line. By default a table on a"
    " terminal and for JSON Lines, else text.",
)
@symbols_option
def decode(file: str, form: str | None, symbols: tuple[SymbolChoice, ...]) -> None:
    """Show the records in FILE: a raw stream, a perf.data file, or JSON Lines of ours.

    "-" reads standard input. A bad packet is reported with its offset, and reading goes on at
    the next possible record. A file that was cut is shown as far as it goes.

    Exit status: 0, 1 if there were bad packets or the file is damaged, 2 if it holds no records.
    """
    found = opened(file)
    _refuse_what_is_no_stream(found)
    form = form or ("table" if sys.stdout.isatty() or not found.has_bytes else "text")
    if form == "text" and not found.has_bytes:
        raise UsageProblem(f"{file}: JSON Lines do not hold packets: use --format table or json")
    if symbols and form == "json":
        raise UsageProblem("--symbols names places in tables and text: --format table or text")
    records = _Records(found)
    lines = {"table": _table, "text": _text, "json": _json}[form]
    sys.stdout.writelines(lines(records, symbols))
    _tell_of_repetition(found, records.went_back)
    leave(found, records.bad, told=True)


class _Records:
    """The records of a file, in order; bad packets are told of as they come, and counted.

    ``went_back`` are the PEs in whose streams a timestamp was before the one in front of it.
    """

    def __init__(self, file: RecordFile) -> None:
        self.file = file
        self.bad = 0
        self.went_back: set[int] = set()
        self._times: dict[int, int] = {}

    def __iter__(self) -> Iterator[tuple[Stream, Found]]:
        scanner = Scanner()
        for stream in self.file.streams:
            for found in scanner.scan(stream.data):
                if isinstance(found, BadPacket):
                    self.bad += 1
                    click.echo(_complaint(self.file.path, stream, found), err=True)
                else:
                    self._watch_time(stream, found)
                    yield stream, found

    def _watch_time(self, stream: Stream, found: Found) -> None:
        layout, start, _ = found
        if layout.timestamp is not None:
            place = start + layout.timestamp
            time = int.from_bytes(stream.data[place : place + 8], "little")
            if time < self._times.get(stream.cpu, 0):
                self.went_back.add(stream.cpu)
            self._times[stream.cpu] = time


def _text(records: _Records, symbols: tuple[SymbolChoice, ...]) -> Iterator[str]:
    texts = RecordTexts()
    if symbols:
        texts = RecordTexts(places_for(records.file, symbols).described)
    for number, (stream, found) in enumerate(records):
        yield texts.text(stream.data, found, number, stream.cpu, stream.offset) + "\n"


def _json(records: _Records, _: tuple[SymbolChoice, ...]) -> Iterator[str]:
    led = records.file.calls.in_order()
    for stream, found in records:
        start = found[1]
        record = placed_at(stream.data, start).record
        calls = None if record.pc is None else led(stream.cpu)
        yield record_json(record, stream.offset + start, stream.cpu, calls) + "\n"


def _table(records: _Records, symbols: tuple[SymbolChoice, ...]) -> Iterator[str]:
    places = places_for(records.file, symbols)
    rows = ((placed_at(stream.data, start).record, stream.cpu) for stream, (_, start, _) in records)
    for line in table(rows, places.described if places else nameless):
        yield line + "\n"


def _tell_of_repetition(file: RecordFile, cpus: set[int]) -> None:
    """Say so where a part of the records of these PEs stands in the file twice."""
    if not cpus:
        return
    from spe_unicorn.output.arrays import read_arrays
    from spe_unicorn.output.repeated import repetition

    twice = repetition(read_arrays(s for s in file.streams if s.cpu in cpus)[0])
    if twice is not None:
        click.echo(f"Warning: {file.path}: {twice}", err=True)


def _refuse_what_is_no_stream(file: RecordFile) -> None:
    """Exit where the first packet is bad and no record follows: it is something else."""
    for stream, found in _decoded(file.streams):
        if isinstance(found, BadPacket) and not any(
            isinstance(later, PlacedRecord) for _, later in _decoded(file.streams)
        ):
            offset = stream.file_offset + found.offset
            raise no_records(file, f"{found.reason} at offset {offset:#x}")
        return


def _decoded(streams: list[Stream]) -> Iterator[tuple[Stream, PlacedRecord | BadPacket]]:
    for stream in streams:
        for found in decode_stream(stream.data):
            yield stream, found


def _complaint(file: str, stream: Stream, bad: BadPacket) -> str:
    shown = bad.data[:_SHOWN_BYTES].hex(" ") + (" ..." if len(bad.data) > _SHOWN_BYTES else "")
    offset = stream.file_offset + bad.offset
    return f"{file}: bad packet at offset {offset:#x} ({shown}): {bad.reason}"
