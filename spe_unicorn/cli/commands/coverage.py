"""``spe-unicorn coverage``: what runs have covered, merged, as tables and files."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem

_TOO_LITTLE: Final = 1
"""Exit status where fewer lines were run than ``--fail-under`` says."""


class _Percent(click.FloatRange):
    """A number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises click.BadParameter, also for NaN, which no comparison refuses."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


@click.command()
@click.argument("files", nargs=-1, required=True, shell_complete=completing.files)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    shell_complete=completing.files,
    help="Write what all files have covered: FILE.info (lcov), FILE.xml (Cobertura), FILE.drcov,"
    " or FILE.json; several times for several files.",
)
@click.option(
    "--fail-under",
    type=_Percent(0, 100),
    metavar="PERCENT",
    help="Exit with status 1 if fewer of all lines were run.",
)
@click.option("--functions", is_flag=True, help="Show each function, too.")
@click.option("-q", "--quiet", is_flag=True, help="Show no tables.")
def coverage(
    files: tuple[str, ...],
    outputs: tuple[str, ...],
    fail_under: float | None,
    *,
    functions: bool,
    quiet: bool,
) -> None:
    """Show what was covered in the runs that wrote FILES, and what was never run.

    FILES are those of "run --coverage", "record --coverage" or "pytest --spe-cov": JSON or lcov.
    Something is covered if it was in one of them. drcov needs the JSON.

    Exit status: 0, 1 below --fail-under, 2 for a file that cannot be read or written.
    """
    from spe_unicorn.cli.tables import print_tables
    from spe_unicorn.output.coverage.formats import CoverageError, check_suffix, read, write
    from spe_unicorn.output.coverage.model import INCOMPLETE, Coverage
    from spe_unicorn.report.coverage import file_table, function_table, never_run

    merged = Coverage()
    try:
        for output in outputs:
            check_suffix(output)
        for path in files:
            one = read(path)
            if one.incomplete:
                click.echo(f"spe-unicorn: {path}: {INCOMPLETE}", err=True)
            merged.merge(one)
        for output in outputs:
            write(output, merged)
    except CoverageError as error:
        raise UsageProblem(str(error)) from None
    except OSError as error:
        raise UsageProblem(f"{error.filename}: {error.strerror or error}") from None
    if not quiet:
        tables = [file_table(merged), function_table(merged) if functions else None]
        print_tables([table for table in (*tables, never_run(merged)) if table is not None])
    share = merged.line_share
    if fail_under is not None and 100 * (share.part or 0) < fail_under:
        part = 100 * (share.part or 0)
        wanted = f"{fail_under:.10g}"
        click.echo(f"spe-unicorn: {part:.2f}% of lines were run, less than {wanted}%", err=True)
        sys.exit(_TOO_LITTLE)
