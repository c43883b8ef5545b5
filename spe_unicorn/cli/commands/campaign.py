"""``spe-unicorn campaign``: many runs as one table."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import Whole
from spe_unicorn.cli.stoppable import StoppedError, stoppable

if TYPE_CHECKING:
    from spe_unicorn.report.tables import Table
    from spe_unicorn.session.campaigns.jobs import Job, Jobs, Row
    from spe_unicorn.session.campaigns.store import Store

FAILURES = 1
"""Exit status where a run failed."""
FAIL_ON = ("failure", "error", "never")
"""What makes it that: any failure, or only ends that are not the guest's own, or nothing."""


@click.command()
@click.argument("plan", metavar="PLAN.toml", shell_complete=completing.files)
@click.option("-o", "--output", "folder", metavar="DIR", help="What comes of it.")
@click.option(
    "-j",
    "--jobs",
    "processes",
    type=Whole(min=1),
    metavar="N",
    help="Runs at the same time on this machine; as many as it has processors, if left out.",
)
@click.option(
    "--scheduler",
    metavar="tcp://HOST:PORT",
    help="Run on the workers of this Dask scheduler.",
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default=FAIL_ON[0],
    show_default=True,
    help="Exit with status 1 for a guest's status other than 0 as well (failure), for other ends"
    " alone (error), or never.",
)
@click.option(
    "--coverage",
    metavar="FILE",
    help="Write what all runs together have executed: FILE.info (lcov), FILE.xml (Cobertura),"
    " FILE.drcov, or FILE.json. Runs that have not noted it are run again.",
)
@click.option("--retry", is_flag=True, help="Run those again that ended by an error.")
@click.option("--dry-run", is_flag=True, help="Check the plan and say how many runs it has.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")
def campaign(
    plan: str,
    folder: str | None,
    processes: int | None,
    scheduler: str | None,
    *,
    fail_on: str,
    coverage: str | None,
    retry: bool,
    dry_run: bool,
    quiet: bool,
) -> None:
    """Run all combinations that PLAN.toml names, and make one table of what they came to.

    A run is a process of its own, with limits of time and of memory. DIR holds runs.parquet with a
    row a run, their records, the reports of failures, summary.html and junit.xml. Each failure is
    listed with the command that repeats it. What is finished is not run again: after Ctrl-C, a
    crash, or a longer plan, the same command goes on. Needs "pip install 'spe-unicorn[parquet]'",
    and with --scheduler 'spe-unicorn[dask]'.

    Exit status: 0, 1 if a run failed, 2 for a plan or folder that cannot be used, 130 after Ctrl-C.
    """
    import spe_unicorn
    from spe_unicorn.output.coverage.formats import CoverageError, check_suffix
    from spe_unicorn.report.arrow import MissingLibraryError, library
    from spe_unicorn.session.campaigns.cluster import Cluster, ClusterError
    from spe_unicorn.session.campaigns.files import FileError
    from spe_unicorn.session.campaigns.here import run_here
    from spe_unicorn.session.campaigns.jobs import jobs_of
    from spe_unicorn.session.campaigns.kept import keep_snapshots
    from spe_unicorn.session.campaigns.plan import PlanError, read_plan
    from spe_unicorn.session.campaigns.store import BusyError, Store, is_failure

    if scheduler is not None and processes is not None:
        raise UsageProblem("-j is for this machine: with --scheduler its workers say how many")
    try:
        library("pyarrow.parquet")
        if coverage is not None:
            check_suffix(coverage)
        read = read_plan(Path(plan))
        jobs = jobs_of(read, spe_unicorn.__version__)
        if dry_run:
            click.echo(f"{read.name}: {len(jobs.runs)} runs")
            return
        if folder is None:
            raise UsageProblem("name a folder for what comes of it: -o DIR")
        store = Store(Path(folder), _save_records)
        with store.locked():
            store.keep_files(jobs)
            wanted = [replace(job, cover=coverage is not None) for job in jobs.runs]
            todo = [job for job in wanted if _is_to_run(job, store, retry=retry)]
            cluster = Cluster(scheduler, spe_unicorn.__version__) if scheduler else None
            progress = Progress(len(jobs.runs) - len(todo), len(jobs.runs), quiet=quiet)
            status = 0
            try:
                with stoppable(), _cleanly(cluster):
                    found: Iterator[tuple[Job, Row]]
                    if cluster is not None:
                        found = cluster.run(todo, store)
                    else:
                        found = run_here(todo, store, processes or os.cpu_count() or 1)
                    for _, row in found:
                        progress.add(row)
            except StoppedError as stopped:
                status = 128 + stopped.number
            progress.hide()
            moved = [] if cluster is None else [_moved(cluster)]
            rows = store.rows(jobs)
            snapshots: dict[str, Path] = {}
            if not status:
                by_key = {job.key: job for job in jobs.runs}
                failures = [(by_key[row["key"]], row) for row in rows if is_failure(row)]
                snapshots = keep_snapshots(failures, store, processes or os.cpu_count() or 1)
            lines = [progress.rate(len(rows)), *moved]
            tables = _write_summary(read.name, jobs, store, rows, lines, snapshots)
            if coverage is not None and not status:
                _write_coverage(coverage, jobs, store)
            if not quiet:
                _print_summary(*tables, lines)
            failed = _fails(rows, fail_on)
    except (
        BusyError,
        ClusterError,
        CoverageError,
        FileError,
        MissingLibraryError,
        PlanError,
    ) as error:
        raise UsageProblem(str(error)) from None
    except OSError as error:
        raise UsageProblem(f"{error.filename or folder}: {error.strerror or error}") from None
    if status:
        click.echo("spe-unicorn: stopped; the same command goes on", err=True)
    sys.exit(status or (FAILURES if failed else 0))


def _is_to_run(job: Job, store: Store, *, retry: bool) -> bool:
    from spe_unicorn.session.campaigns.store import is_error

    row = store.done(job)
    if row is None or (retry and is_error(row)):
        return True
    # what has ended by itself can have noted what it executed
    return job.cover and row.get("operations") is not None and store.covered(job) is None


def _write_coverage(path: str, jobs: Jobs, store: Store) -> None:
    """Write what all runs together have executed. Raises CoverageError and OSError."""
    from spe_unicorn.output.coverage.formats import read, write
    from spe_unicorn.output.coverage.model import INCOMPLETE, Coverage

    def original(place: str) -> str:
        digest, _, name = place.partition("/")
        return str(jobs.paths[digest]) if name and digest in jobs.paths else place

    merged = Coverage()
    for job in jobs.runs:
        covered = store.covered(job)
        if covered is not None:
            merged.merge(read(str(covered)).moved(original))
    if merged.incomplete:
        click.echo(f"spe-unicorn: coverage of a run: {INCOMPLETE}", err=True)
    write(path, merged)


def _fails(rows: list[Row], fail_on: str) -> bool:
    """Whether the campaign fails, by ``--fail-on``."""
    from spe_unicorn.session.campaigns.store import is_error, is_failure

    if fail_on == "never":
        return False
    return any(map(is_failure if fail_on == "failure" else is_error, rows))


@contextmanager
def _cleanly(cluster: Any) -> Iterator[None]:
    try:
        yield
    finally:
        if cluster is not None:
            cluster.close()


def _moved(cluster: Any) -> str:
    return f"{cluster.moved_to} bytes went to workers, {cluster.moved_from} came back"


def _save_records(path: Path, records: list[bytes], program: Path | None) -> int:
    """Write the records of a run, with the symbols of its program. Return how many there are."""
    from spe_unicorn.output.arrays import read_arrays
    from spe_unicorn.output.reader import RecordFile, Stream
    from spe_unicorn.report.arrow import write_records
    from spe_unicorn.report.columns import named_columns
    from spe_unicorn.report.spaces import Spaces
    from spe_unicorn.symbols.choice import SymbolChoice
    from spe_unicorn.symbols.errors import ElfError

    streams = [Stream(cpu, 0, 0, memoryview(data)) for cpu, data in enumerate(records)]
    arrays, _ = read_arrays(streams)
    choices = [] if program is None else [SymbolChoice(os.fspath(program))]
    try:
        spaces = Spaces(RecordFile("", "raw", streams), choices, lambda: arrays)
    except ElfError:  # a kernel that is no ELF file
        spaces = Spaces(RecordFile("", "raw", streams), (), lambda: arrays)
    write_records(path, named_columns(arrays, spaces, lines=False))
    return len(arrays)


def _write_summary(
    name: str,
    jobs: Jobs,
    store: Store,
    rows: list[Row],
    lines: list[str],
    snapshots: Mapping[str, Path],
) -> tuple[list[Table], Table]:
    """Write the table, the page and JUnit's file.

    Return the tables that the page has, and that of the commands which repeat failures.
    """
    from spe_unicorn.report.arrow import write_rows
    from spe_unicorn.report.campaigns.junit import junit
    from spe_unicorn.report.campaigns.runs import commands_table, run_tables, tables_page
    from spe_unicorn.report.export import whole_or_none
    from spe_unicorn.session.campaigns.again import again, looked_at
    from spe_unicorn.session.campaigns.store import columns, is_error, is_failure

    table, page, cases = (
        store.folder / file for file in ("runs.parquet", "summary.html", "junit.xml")
    )
    failed = {row["key"] for row in rows if is_failure(row)}
    commands = {job.key: again(job, store.kept) for job in jobs.runs if job.key in failed}
    for job in jobs.runs:
        if job.key in snapshots:  # the second line is for a debugger
            commands[job.key] += f"\n{looked_at(job, store.kept, snapshots[job.key])}"
    tables = run_tables(rows, len(jobs.runs), is_failure)
    repeating = commands_table(commands)
    page_tables = [*tables, repeating] if commands else tables
    with whole_or_none([table, page, cases]) as temporary:
        write_rows(temporary[table], rows, columns(jobs))
        temporary[page].write_text(tables_page(name, lines, page_tables), encoding="utf-8")
        xml = junit(name, rows, is_error, commands, lambda row: store.console(row["key"]))
        temporary[cases].write_text(xml, encoding="utf-8")
    return tables, repeating


def _print_summary(tables: list[Table], repeating: Table, lines: list[str]) -> None:
    """Print what the page has. The commands are printed as lines, as they are copied."""
    from spe_unicorn.cli.tables import print_tables

    with suppress(BrokenPipeError):
        print_tables(tables)
        if repeating.rows:
            click.echo(f"\n{repeating.title}:")
        for key, command in repeating.rows:
            click.echo(f"# {key}\n{command}")
        if repeating.note:
            click.echo(repeating.note)
    for line in lines:
        click.echo(f"\n{line}")


class Progress:
    """How far it is, on one line of a terminal."""

    def __init__(self, done: int, planned: int, *, quiet: bool) -> None:
        self._done, self._planned = done, planned
        self._new = self._failed = 0
        self._began = time.monotonic()
        self._shown = not quiet and sys.stderr.isatty()

    def add(self, row: Row) -> None:
        """One run more."""
        from spe_unicorn.session.campaigns.store import is_failure

        self._new += 1
        self._failed += is_failure(row)
        if self._shown:
            failed = f", {self._failed} failed" if self._failed else ""
            line = f"\r{self._done + self._new} of {self._planned} runs{failed}"
            sys.stderr.write(f"{line}, {self._rate():.0f} a minute   ")
            sys.stderr.flush()

    def hide(self) -> None:
        """Leave an empty line."""
        if self._shown:
            sys.stderr.write("\r" + " " * 70 + "\r")

    def rate(self, finished: int) -> str:
        """A sentence on how fast it was. So many runs are finished, of those that are planned."""
        seconds = time.monotonic() - self._began
        if not self._new:
            if finished < self._planned:
                return f"{self._planned - finished} of {self._planned} runs are still to be done"
            return "nothing was run: all runs were finished"
        runs = "1 run" if self._new == 1 else f"{self._new} runs"
        return f"{runs} in {seconds:.1f} s, {self._rate():.0f} a minute"

    def _rate(self) -> float:
        return 60 * self._new / max(time.monotonic() - self._began, 1e-3)
