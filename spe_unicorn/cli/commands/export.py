"""``spe-unicorn export``: records as tables for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import STANDARD_OUTPUT
from spe_unicorn.cli.recordings import leave, no_records, opened, writable
from spe_unicorn.cli.run.symbols import symbols_option
from spe_unicorn.output.names import printable
from spe_unicorn.symbols.choice import SymbolChoice

if TYPE_CHECKING:
    from spe_unicorn.output.reader import RecordFile
    from spe_unicorn.report.recording import Recording

_SUFFIXES = (".parquet", ".csv")
_PROFILES = (
    "folded",
    "speedscope",
    "firefox",
    "pprof",
    "perfetto",
    "perfscript",
    "bolt",
    "llvm-sample",
)


@click.command()
@click.argument("file", shell_complete=completing.files)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    help="Write OUT-ldst, OUT-br and OUT-other with its suffix, .parquet or .csv; with --format the"
    ' file OUT, standard output for "-".',
)
@click.option(
    "--format",
    "profile",
    type=click.Choice(_PROFILES),
    help="Write a profile instead: stacks for flame graphs and viewers, or branches and lines for"
    " compilers.",
)
@click.option(
    "--by",
    type=click.Choice(("samples", "latency", "l1d-miss", "llc-miss", "tlb-walk", "mispredict")),
    help="What the stacks of a profile count, as of report. [default: samples]",
)
@symbols_option
@click.option("-q", "--quiet", is_flag=True, help="Do not say what was written.")
def export(
    file: str,
    output: str,
    profile: str | None,
    by: str | None,
    symbols: tuple[SymbolChoice, ...],
    *,
    quiet: bool,
) -> None:
    """Write the records in FILE as tables with the columns of Arm's spe-parser, or as a profile.

    FILE is a raw stream, a perf.data file, or JSON Lines. Loads and stores, branches, and other
    operations are a table each. With --symbols, or where the recording names its ELF files, each
    has a column with the symbol of its PC. Parquet needs "pip install 'spe-unicorn[parquet]'".

    Exit status: 0, 1 if there were bad packets or the file is damaged, 2 if nothing was written.
    """
    from spe_unicorn.report.arrow import MissingLibraryError
    from spe_unicorn.report.export import write_tables
    from spe_unicorn.report.profiles.files import profile_of, write_profile
    from spe_unicorn.report.samples import Samples
    from spe_unicorn.report.spe_parser import spe_parser_tables

    target = writable(output, file)
    if profile is None and by is not None:
        raise UsageProblem("--by goes with --format")
    if profile is None and target.suffix not in _SUFFIXES:
        raise UsageProblem(f"{output}: name a file that ends in {' or '.join(_SUFFIXES)}")
    recording = _recording(opened(file), symbols, needed=profile is not None)
    try:
        if profile is not None:
            samples = Samples(recording)
            if output == STANDARD_OUTPUT:
                for piece in profile_of(profile, samples, by or "samples"):
                    click.echo(piece, nl=False)
            else:
                write_profile(target, profile, samples, by or "samples")
            written = {target: len(recording)}
        else:
            named = recording.is_named
            tables = (
                spe_parser_tables(piece.raw_arrays, piece.spaces if named else None)
                for piece in recording.pieces()
            )
            written = write_tables(target.with_suffix(""), target.suffix, tables)
    except MissingLibraryError as error:
        raise UsageProblem(str(error)) from None
    except OSError as error:
        if output == STANDARD_OUTPUT:
            raise
        raise UsageProblem(f"{error.filename or output}: {error.strerror or error}") from None
    for doubt in recording.doubts:
        click.echo(f"Warning: {printable(doubt)}", err=True)
    if not quiet:
        for path, rows in written.items():
            click.echo(f"{path}: {rows} records", err=True)
    leave(recording.file, len(recording.bad_packets))


def _recording(found: RecordFile, symbols: tuple[SymbolChoice, ...], *, needed: bool) -> Recording:
    """The records of a file; with ``needed`` there are some."""
    from spe_unicorn.report.recording import Recording
    from spe_unicorn.symbols.errors import ElfError

    try:
        recording = Recording(found, symbols)
    except ElfError as error:
        raise UsageProblem(str(error)) from None
    if not recording.holds_some:
        bad = recording.bad_packets
        if bad or needed:
            reason = bad[0][1].reason if bad else found.damage or "nothing was sampled"
            raise no_records(found, reason)
    return recording
