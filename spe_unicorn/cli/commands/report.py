"""``spe-unicorn report``, ``annotate`` and ``diff``: what a file of records comes to."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import Whole
from spe_unicorn.cli.recordings import leave, no_records, opened, writable
from spe_unicorn.cli.run.symbols import symbols_option
from spe_unicorn.output.names import printable
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.errors import ElfError

if TYPE_CHECKING:
    from spe_unicorn.report.samples import Samples
    from spe_unicorn.report.views.overview import View

_KEYS = (
    "symbol",
    "line",
    "inline",
    "caller",
    "callee",
    "address",
    "pc",
    "file",
    "cpu",
    "thread",
    "process",
    "comm",
    "el",
    "interrupt",
    "op",
    "source",
    "data",
    "object",
    "cacheline",
    "target",
)
_PERF_KEYS = ("sym", "srcline", "dso", "tid", "pid", "symbol_daddr", "mem", "symbol_to")
_WEIGHTS = ("samples", "latency", "l1d-miss", "llc-miss", "tlb-walk", "mispredict")

_NO_CHAINS = "this shows no calls: report --children and report -g do"


def _keys(text: str) -> tuple[str, ...]:
    """``KEY[,KEY]``, in our words or in perf's."""
    from spe_unicorn.report.samples import PERF_KEYS

    keys = []
    for word in text.split(","):
        if word not in (*_KEYS, *_PERF_KEYS):
            raise click.BadParameter(f"{word!r}: allowed are {', '.join(_KEYS)}")
        keys.append(PERF_KEYS.get(word, word))
    return tuple(dict.fromkeys(keys))


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no percentage") from None
    if not 0 <= value <= 100:
        raise click.BadParameter(f"{text!r}: a percentage is 0 to 100")
    return value / 100


def _view_options(command: Callable[..., object]) -> Callable[..., Any]:
    """The options of a :class:`View`, which is given to ``command`` as ``view``."""

    @wraps(command)
    def function(*, by: str, limit: float, rows: int, **others: object) -> object:
        from spe_unicorn.report.views.overview import View

        return command(view=View(by, limit, rows), **others)

    decorated: Callable[..., object] = function
    for option in (
        click.option(
            "--rows", type=Whole(min=1), default=20, show_default=True, help="Most rows of a table."
        ),
        click.option(
            "--percent-limit",
            "limit",
            type=_percent,
            metavar="PERCENT",
            default="0",
            help="Leave out rows with a smaller share.",
        ),
        click.option(
            "--by",
            type=click.Choice(_WEIGHTS),
            default="samples",
            show_default=True,
            help="What shares are of: samples, cycles of latency, or samples with an event.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def _both_sides(command: Callable[..., object]) -> Callable[..., object]:
    """The recordings before and after, which are given to ``command`` as ``old`` and ``new``."""

    @wraps(command)
    def function(
        *,
        before: str,
        after: str,
        more_before: tuple[str, ...],
        more_after: tuple[str, ...],
        **others: object,
    ) -> object:
        return command(old=(before, *more_before), new=(after, *more_after), **others)

    return function


class _Page(NamedTuple):
    """The page for a browser that is wanted."""

    file: str
    folders: tuple[Path, ...]
    """Where source files are looked for, too."""


def _page_options(command: Callable[..., object]) -> Callable[..., object]:
    """``--html`` and ``--source``, which are given to ``command`` as ``page``."""

    @wraps(command)
    def function(*, html: str | None, folders: tuple[Path, ...], **others: object) -> object:
        if folders and html is None:
            raise UsageProblem("--source goes with --html, or with annotate")
        return command(page=None if html is None else _Page(html, folders), **others)

    html_option = click.option(
        "--html",
        metavar="OUT.html",
        help="Write a page for a browser instead, with everything in it.",
    )
    return html_option(_source_option(function))


_source_option = click.option(
    "--source",
    "folders",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Read source files from this folder, too. May be given more than once. Without it they are"
    " read from the folder of the ELF file alone.",
)


def _chains_option(function: Callable[..., object]) -> Callable[..., Any]:
    """Perf's options for call graphs, which are answered."""

    def refuse(_ctx: click.Context, _option: click.Parameter, value: bool) -> None:
        if value:
            raise UsageProblem(_NO_CHAINS)

    return click.option(
        "-g",
        "--call-graph",
        "--children",
        "chains",
        is_flag=True,
        expose_value=False,
        callback=refuse,
        is_eager=True,
        hidden=True,
    )(function)


@click.command()
@click.argument("file", shell_complete=completing.files)
@click.option(
    "-g",
    "--call-graph",
    "calls",
    flag_value="tree",
    help="One table: the tree of calls, of a recording that has calls.",
)
@click.option(
    "--children",
    "calls",
    flag_value="functions",
    help="One table: functions with what they call, of a recording that has calls.",
)
@click.option(
    "--sort",
    "keys",
    type=_keys,
    metavar="KEY[,KEY]",
    help="One table by these: " + ", ".join(_KEYS) + ". perf's sym, srcline, dso, pid, tid, mem and"
    " symbol_daddr are known too.",
)
@_page_options
@_view_options
@symbols_option
def report(
    file: str,
    *,
    calls: str | None,
    page: _Page | None,
    keys: tuple[str, ...] | None,
    view: View,
    symbols: tuple[SymbolChoice, ...],
) -> None:
    """Show where the samples in FILE are: functions, lines, latencies, data and more.

    FILE is a raw stream, a perf.data file, or JSON Lines. With --sort it is one table, as with
    perf report; without, what costs most in a few sentences, and all that the records tell, a
    table each.

    Exit status: 0, 1 if there were bad packets or the file is damaged, 2 if it holds no records.
    """
    from spe_unicorn.cli.tables import print_tables
    from spe_unicorn.report.samples import OF_CALLS
    from spe_unicorn.report.views.calls import CallGraph, functions_table, tree_table
    from spe_unicorn.report.views.overview import grouped, overview

    if page is not None:
        writable(page.file, file)
    samples = _samples(file, symbols)
    if page is not None:
        _write_page(samples, page)
        _say_doubts(samples)
        _leave(samples)
        return
    if (calls or OF_CALLS.intersection(keys or ())) and not samples.recording.file.calls:
        raise UsageProblem(f"{file}: tells no calls: record it with record -g, or run -g")
    # All samples are looked at once, and then it is known what there is to say of them.
    if calls:
        show = tree_table if calls == "tree" else functions_table
        tables = [show(CallGraph(view.by, samples), view.limit, view.rows)]
    elif keys:
        tables = [grouped(samples, view, keys)]
    else:
        tables = overview(samples, view)
    _say_doubts(samples)
    _say_what_it_is(samples)
    if not calls and not keys:
        _say_what_first(samples)
    print_tables(tables)
    _leave(samples)


@click.command()
@click.argument("file", shell_complete=completing.files)
@click.argument("symbol")
@_source_option
@symbols_option
@_chains_option
def annotate(
    file: str, symbol: str, folders: tuple[Path, ...], symbols: tuple[SymbolChoice, ...]
) -> None:
    """Show the instructions of the function SYMBOL, with the samples of each in FILE.

    Source lines stand beside them where the ELF file has debug information and the source file is
    in the ELF file's own folder, or in one of --source.

    Exit status: as of report.
    """
    from spe_unicorn.cli.tables import print_tables
    from spe_unicorn.host.engine.disassembly import disassemble
    from spe_unicorn.report.views.annotation import NoSuchSymbolError, annotate

    samples = _samples(file, symbols)
    _say_doubts(samples)
    try:
        table = annotate(samples, symbol, disassemble, folders)
    except (NoSuchSymbolError, OSError) as error:
        raise UsageProblem(str(error)) from None
    print_tables([table])
    _leave(samples)


@click.command()
@click.argument("before", shell_complete=completing.files)
@click.argument("after", shell_complete=completing.files)
@click.option(
    "--sort",
    "keys",
    type=_keys,
    metavar="KEY",
    default="symbol",
    show_default=True,
    help="What is compared: " + ", ".join(_KEYS) + ".",
)
@click.option(
    "--before",
    "more_before",
    multiple=True,
    metavar="FILE",
    shell_complete=completing.files,
    help="One more recording that counts with BEFORE. May be given more than once.",
)
@click.option(
    "--after",
    "more_after",
    multiple=True,
    metavar="FILE",
    shell_complete=completing.files,
    help="One more recording that counts with AFTER. May be given more than once.",
)
@_view_options
@symbols_option
@_chains_option
@_both_sides
def diff(
    old: tuple[str, ...],
    new: tuple[str, ...],
    keys: tuple[str, ...],
    view: View,
    symbols: tuple[SymbolChoice, ...],
) -> None:
    """Show what moved between the samples in BEFORE and AFTER, and what of it may be chance.

    Exit status: as of report.
    """
    from spe_unicorn.cli.tables import print_tables
    from spe_unicorn.report.views.difference import difference, totals

    if len(keys) > 1:
        raise UsageProblem("--sort takes one key here")
    before, after = ([_samples(file, symbols) for file in files] for files in (old, new))
    tables = [totals(before, after), difference(before, after, keys[0], view)]
    for samples in (*before, *after):
        _say_doubts(samples)
    print_tables(tables)
    for samples in (*before, *after):
        _leave(samples)


def _samples(file: str, symbols: tuple[SymbolChoice, ...]) -> Samples:
    from spe_unicorn.report.recording import Recording
    from spe_unicorn.report.samples import Samples

    try:
        recording = Recording(opened(file), symbols)
    except ElfError as error:
        raise UsageProblem(str(error)) from None
    if not recording.holds_some:
        bad = recording.bad_packets
        reason = bad[0][1].reason if bad else recording.damage or "nothing was sampled"
        raise no_records(recording.file, reason)
    return Samples(recording)


def _say_doubts(samples: Samples) -> None:
    """What may be wrong with a recording, on standard error."""
    for doubt in samples.recording.doubts:
        click.echo(f"Warning: {printable(doubt)}", err=True)


def _write_page(samples: Samples, page: _Page) -> None:
    from spe_unicorn.host.engine.disassembly import disassemble
    from spe_unicorn.report.arrow import MissingLibraryError
    from spe_unicorn.report.export import whole_or_none
    from spe_unicorn.report.page import html_page

    try:
        text = html_page(samples, disassemble, page.folders)
        with whole_or_none([Path(page.file)]) as temporary:
            temporary[Path(page.file)].write_text(text, encoding="utf-8")
    except MissingLibraryError as error:
        raise UsageProblem(str(error)) from None
    except OSError as error:
        raise UsageProblem(f"{page.file}: {error.strerror or error}") from None


def _say_what_it_is(samples: Samples) -> None:
    """What the tables are of, and what to do where they have no names."""
    files = ", ".join(printable(str(elf.path)) for elf in samples.spaces.files)
    said = f"{samples.recording.file.path}: {len(samples)} samples"
    click.echo(f"{said} of {files}" if files else said)
    if not files:
        click.echo("Give the ELF file by --symbols FILE to see names and lines.")
    click.echo()


def _say_what_first(samples: Samples) -> None:
    """What costs most, a sentence each."""
    from spe_unicorn.report.findings.first import first

    sentences = first(samples)
    for number, sentence in enumerate(sentences, 1):
        click.echo(f"{number}. {sentence}")
    if sentences:
        click.echo()


def _leave(samples: Samples) -> None:
    leave(samples.recording.file, len(samples.recording.bad_packets))
