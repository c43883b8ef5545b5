"""``spe-unicorn torture``: firmware on implementations that the architecture allows."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import spe_unicorn
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import Whole
from spe_unicorn.cli.run.options import common_options
from spe_unicorn.cli.run.run_command import run_command
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.stoppable import StoppedError, stoppable

if TYPE_CHECKING:
    from spe_unicorn.report.campaigns.junit import Case
    from spe_unicorn.session.torture.search import Search
    from spe_unicorn.session.torture.trials import Runners

_SECONDS = 60.0
FINDINGS = 1
"""Exit status where a trial fails, or SPE is misused."""


@run_command(
    "spe-unicorn torture --core max driver.elf\n"
    "spe-unicorn torture --core max --runs 500 --only late_writes,buffer_locked driver.elf"
)
@click.option("--runs", type=Whole(min=1), default=50, metavar="N", help="How many trials to run.")
@click.option(
    "--only",
    default="",
    metavar="CHOICE[,CHOICE]",
    help='Draw only these choices; "spe-unicorn choices" lists them all.',
)
@click.option("--processes", type=Whole(min=1), default=None, metavar="N", help="Trials at a time.")
@click.option(
    "--scheduler",
    default=None,
    metavar="tcp://HOST:PORT",
    help="Run the trials on the workers of this Dask scheduler.",
)
@click.option(
    "--check",
    default=None,
    metavar="COMMAND",
    help="A trial passes if this command, given the console as its input, ends with 0.",
)
@click.option(
    "--junit", type=click.Path(path_type=Path), default=None, metavar="FILE", help="JUnit's XML."
)
@common_options(output_required=False, checks=False)
def torture(
    runs: int,
    only: str,
    processes: int | None,
    scheduler: str | None,
    check: str | None,
    junit: Path | None,
    **options: Any,
) -> None:
    """Run FIRMWARE on implementations that Arm allows, and tell on which it fails, and why.

    Each trial has other choices, drawn by --seed. One that fails is made as small as it can be.
    The run without choices is watched for misuses of SPE, which are told as well.
    One that takes longer than --timeout is given up: it did neither pass nor fail.
    Exit status 0: all pass. 1: some fail or were given up, or there are misuses.
    """
    from spe_unicorn.cores.overrides import core_text
    from spe_unicorn.report.campaigns.junit import suite_of
    from spe_unicorn.session.campaigns.cluster import Cluster, ClusterError
    from spe_unicorn.session.campaigns.here import Workers
    from spe_unicorn.session.campaigns.plan import Limits
    from spe_unicorn.session.torture.search import NoChoiceError, tried_names
    from spe_unicorn.session.torture.trials import Trials, UsualError, prepared_search

    if scheduler is not None and processes is not None:
        problem = "--processes is for this machine: with --scheduler its workers say how many"
        raise UsageProblem(problem)
    path = options.pop("json")
    settings = Settings.of(**{**options, "quiet": True})
    machine = settings.machine
    if not machine.names_a_program:
        raise UsageProblem("nothing to run: name FIRMWARE or --kernel")
    try:
        names = tried_names(filter(None, only.split(",")))
    except ValueError as error:
        raise UsageProblem(f"--only: {error}") from None
    limits = Limits(options.get("max_insns"), options.get("timeout") or _SECONDS)
    version = spe_unicorn.__version__
    try:
        runners: Runners = (
            Cluster(scheduler, version) if scheduler else Workers(processes or os.cpu_count() or 1)
        )
    except ClusterError as error:
        raise UsageProblem(str(error)) from None
    with closing(Trials(machine, limits, runners, version, check)) as trials:
        stopped = 0
        try:
            search = prepared_search(trials, partial(click.echo, err=True))
            with stoppable():
                search.search(machine.seed, runs, names)
        except ClusterError as error:
            raise UsageProblem(str(error)) from None
        except NoChoiceError as error:
            raise UsageProblem(f"--only: {error}") from None
        except UsualError as error:
            raise UsageProblem(f"{machine.firmware or machine.kernel}: {error}") from None
        except StoppedError as error:
            stopped = 128 + error.number
        misuses = [] if stopped else trials.misuses()
        texts = []
        for finding in search.findings:
            click.echo(f"\n{core_text(str(machine.core), finding.choices)}")
            texts.append("\n".join(trials.explain(finding)))
            click.echo(texts[-1])
            click.echo(f"  found by {len(finding.trials)} of {search.trials} trials")
    for misuse in misuses:
        click.echo(f"\non any implementation: {misuse}")
    of = f" of {runs}, then stopped" if stopped else ""
    click.echo(f"\n{search.trials} trials{of}, {len(search.findings)} findings")
    if search.undecided:
        click.echo(f"given up after --timeout {limits.timeout:g}: {len(search.undecided)}")
    if misuses:
        click.echo(f"misuses of SPE: {len(misuses)}")
    if path is not None:
        Path(path).write_text(json.dumps({**_as_json(search), "misuses": misuses}, indent=2) + "\n")
    if junit is not None:
        junit.write_text(
            suite_of("torture", [*_cases(search, texts), _misuse_case(misuses)]), encoding="utf-8"
        )
    sys.exit(stopped or (FINDINGS if search.findings or search.undecided or misuses else 0))


def _as_json(search: Search) -> dict[str, object]:
    from spe_unicorn.cores.overrides import core_text

    return {
        "trials": search.trials,
        "given_up": search.undecided,
        "findings": [
            {
                "choices": core_text("", finding.choices)[1:],
                "what": finding.verdict.what,
                "trials": finding.trials,
                "rules": {row.name: row.rule for row in finding.rows},
            }
            for finding in search.findings
        ],
    }


def _cases(search: Search, texts: Sequence[str]) -> Iterator[Case]:
    """Each trial; one that failed has the text of its finding."""
    from spe_unicorn.cores.overrides import core_text
    from spe_unicorn.report.campaigns.junit import Case

    failed = {
        number: (finding, text)
        for finding, text in zip(search.findings, texts, strict=True)
        for number in finding.trials
    }
    for number in range(search.trials):
        title = f"trial {number}"
        if number in failed:
            finding, text = failed[number]
            message = f"{core_text('', finding.choices)[1:]}: {finding.verdict.what}"
            yield Case(title, ("failure", message, text))
        elif number in search.undecided:
            yield Case(title, ("error", "given up: it took too long", ""))
        else:
            yield Case(title)


def _misuse_case(misuses: Sequence[str]) -> Case:
    """The run without choices."""
    from spe_unicorn.report.campaigns.junit import Case

    if not misuses:
        return Case("misuse")
    return Case("misuse", ("failure", f"{len(misuses)} misuses of SPE", "\n".join(misuses)))
