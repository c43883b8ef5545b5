"""``spe-unicorn doctor``: firmware by several seeds, cores and starts, and what is wrong."""

from __future__ import annotations

import json
import os
import shlex
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

import spe_unicorn
from spe_unicorn.cli.annotating import WarnFormat, warn_format, written
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import Whole, seconds
from spe_unicorn.cli.run.options import program_options
from spe_unicorn.cli.run.run_command import run_command
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.spelling import spelled

if TYPE_CHECKING:
    from spe_unicorn.machine.options import MachineOptions
    from spe_unicorn.report.annotations import Annotation
    from spe_unicorn.report.campaigns.junit import Case
    from spe_unicorn.session.campaigns.plan import Limits
    from spe_unicorn.session.doctor.verdict import Finding, Verdict
    from spe_unicorn.session.doctor.visits import Visit

_LIMIT = 20_000_000
"""Operations of a run: a fifth of a second."""
_SECONDS = 60.0
_MOST_SEEDS = 10_000
_WIDTH = 100
"""Columns after which a line goes on in the next."""
_WHOLE = 8
"""So many findings are told whole; of the others a line says what and where."""
_SENTENCES: Final = ("start", "runs-on", "skipped")
"""Remarks that are told by their sentence, without their name."""
FINDINGS = 1
"""Exit status where something is wrong."""


@run_command("spe-unicorn doctor firmware.elf\nspe-unicorn doctor --seeds 64 --junit d.xml fw.elf")
@program_options
@click.option(
    "--max-insns",
    type=Whole(min=1),
    default=_LIMIT,
    show_default=True,
    metavar="N",
    help="End each run after exactly N operations.",
)
@click.option(
    "--timeout",
    type=seconds,
    default=_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="End each run after so much CPU time of its own: other work of the host does not count.",
)
@click.option(
    "--seeds",
    type=Whole(min=1, max=_MOST_SEEDS),
    default=8,
    show_default=True,
    metavar="N",
    help="How many seeds.",
)
@click.option("--processes", type=Whole(min=1), default=None, metavar="N", help="Runs at a time.")
@click.option(
    "--json",
    "as_json",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the same as JSON.",
)
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write JUnit's XML.")
@click.option(
    "--warn-format",
    "form",
    type=warn_format,
    metavar="github|sarif|gcc[:FILE]",
    help="Write the findings for a tool that shows them in the source, to FILE or standard error.",
)
def doctor(
    max_insns: int,
    timeout: float,
    seeds: int,
    processes: int | None,
    as_json: Path | None,
    junit: Path | None,
    form: WarnFormat | None,
    **options: Any,
) -> None:
    """Run FIRMWARE by several seeds, cores and starts; tell on one page what is wrong with it.

    The cores are generic, which samples instructions, and neoverse-n2, which samples
    micro-operations; the starts are at EL1 and EL2. Where --core or --el is given it is that alone.
    All runs are looked at for mistakes, as by --warn misuse. Each finding has the command that
    repeats it.

    Exit status: 0 if nothing is wrong, 1 if something is, 2 for what cannot be run.
    """
    from spe_unicorn.cores.profile import CoreError
    from spe_unicorn.machine.boot.image import LoadError
    from spe_unicorn.machine.boot.plan import boot_plan
    from spe_unicorn.machine.options import OptionError
    from spe_unicorn.session.campaigns.files import FileError
    from spe_unicorn.session.campaigns.plan import Limits
    from spe_unicorn.session.doctor.verdict import verdict_of
    from spe_unicorn.session.doctor.visits import CORES, checked, machines, starts, visits

    limits = Limits(max_insns, timeout)
    machine = Settings.of(**options).machine
    source = click.get_current_context().get_parameter_source
    given = source("core") is ParameterSource.COMMANDLINE
    told = None if form is None or form.file is None else Path(form.file)
    _check_outputs([file for file in (as_json, junit, told) if file is not None])
    began = time.monotonic()
    try:
        boot_plan(machine)
        cores = [str(machine.core)] if given else CORES
        wanted = list(machines(checked(machine), cores, starts(machine), seeds))
        at_once = processes or os.cpu_count() or 1
        runs = visits(wanted, limits, at_once, spe_unicorn.__version__)
    except (CoreError, LoadError, OptionError, FileError) as error:
        raise UsageProblem(spelled(str(error))) from None
    except OSError as error:
        raise UsageProblem(f"{error.filename}: {error.strerror or error}") from None
    if all(run.row["ending"] == "refused" for run in runs):
        raise UsageProblem(spelled(runs[0].row["cause"]))
    verdict = verdict_of(runs)
    page = _Page(runs, verdict, limits)
    click.echo("\n".join(page.lines()))
    click.echo(f"{len(runs)} runs in {time.monotonic() - began:.1f} s", err=True)
    if as_json is not None:
        as_json.write_text(json.dumps(page.as_json(), indent=2) + "\n", encoding="utf-8")
    if form is not None:
        text = written(form.form, page.annotations())
        if form.file is None:
            click.echo(text, err=True, nl=False)
        else:
            Path(form.file).write_text(text, encoding="utf-8")
    if junit is not None:
        from spe_unicorn.report.campaigns.junit import suite_of

        junit.write_text(suite_of("doctor", page.cases()), encoding="utf-8")
    sys.exit(FINDINGS if verdict.findings else 0)


def _check_outputs(files: Sequence[Path]) -> None:
    """Raise UsageProblem for files that cannot be written, before all runs are over."""
    for n, file in enumerate(files):
        if file.is_dir() or not file.parent.is_dir():
            raise UsageProblem(f"{file}: no file can be there")
        if file.resolve() in [other.resolve() for other in files[:n]]:
            raise UsageProblem(f"{file}: is named for two outputs")


class _Page:
    """What is said of all runs, each of which had ``limits``."""

    def __init__(self, runs: Sequence[Visit], verdict: Verdict, limits: Limits) -> None:
        self._runs = runs
        self._verdict = verdict
        self._limits = limits

    def lines(self) -> Iterator[str]:
        """The page for people."""
        findings, remarks = self._verdict.findings, self._verdict.remarks
        for group in self._groups():
            yield self._group_line(group)
        for number, finding in enumerate(findings, start=1):
            if number <= _WHOLE:
                yield ""
                yield from self._said(f"{number}. ", finding)
                continue
            if number == _WHOLE + 1:
                yield "\nmore, which --json has whole:"
            yield f"{number}. {finding.rule} at {finding.place}"
        for remark in remarks:
            yield ""
            yield from self._said("remark: ", remark)
        yield ""
        told = f"{len(findings) or 'no'} finding{'s' * (len(findings) != 1)}"
        yield (
            f"{told}, {len(remarks) or 'no'} remark{'s' * (len(remarks) != 1)} of"
            f" {len(self._runs)} runs"
        )

    def _groups(self) -> Iterator[list[int]]:
        """The numbers of the runs that differ in their seed only."""
        groups: dict[tuple[object, object], list[int]] = {}
        for number, run in enumerate(self._runs):
            groups.setdefault((run.machine.el, run.machine.core), []).append(number)
        yield from groups.values()

    def _group_line(self, group: list[int]) -> str:
        machine = self._runs[group[0]].machine
        ends = [_ending(self._runs[number].row) for number in group]
        counted = {end: ends.count(end) for end in dict.fromkeys(ends)}
        said = ", ".join(f"{count} x {end}" for end, count in counted.items())
        return f"{_start(machine)} {machine.core!s:<12} seeds {_seeds(self._runs, group)}: {said}"

    def _said(self, before: str, finding: Finding) -> Iterator[str]:
        at = f" at {finding.place}" if finding.place else ""
        head, *more = spelled(finding.what).split("\n")
        if finding.kind == "end" or finding.rule in _SENTENCES:
            yield f"{before}{head}{at}"
        else:
            yield f"{before}{finding.rule}{at}"
            more = [head, *more]
        for line in more:
            yield from _wrapped(line)
        for line in spelled(finding.advice).splitlines():
            yield from _wrapped(f"do: {line}")
        yield f"   {self._where(finding)}"
        yield f"   repeat: {self._command(finding)}"

    def _where(self, finding: Finding) -> str:
        """In which runs a finding was seen."""
        seen = set(finding.runs)
        if len(seen) == len(self._runs):
            return f"in all {len(seen)} runs"
        parts = []
        for group in self._groups():
            some = [number for number in group if number in seen]
            if some:
                machine = self._runs[some[0]].machine
                seeds = "all seeds" if some == group else f"seed {_seeds(self._runs, some)}"
                parts.append(f"{_start(machine)} {machine.core} {seeds}")
        return f"in {len(seen)} of {len(self._runs)} runs: {'; '.join(parts)}"

    def _command(self, finding: Finding) -> str:
        from spe_unicorn.session.reproduce import command_words

        run = self._runs[finding.runs[0]]
        more: tuple[str, ...] = ("--warn", "misuse") if finding.kind == "misuse" else ()
        if run.row["ending"] in ("limit", "timeout"):
            more += ("--max-insns", str(self._limits.max_insns))
        if run.row["ending"] == "timeout":
            more += ("--timeout", f"{self._limits.timeout:g}")
        return shlex.join(command_words(run.machine, more))

    def as_json(self) -> dict[str, object]:
        """The same for programs. Two equal commands give equal objects."""
        return {
            "runs": [
                {
                    "el": run.machine.el,
                    "core": run.machine.core,
                    "seed": run.machine.seed,
                    **{
                        name: run.row.get(name)
                        for name in ("ending", "cause", "exit_status", "operations")
                    },
                }
                for run in self._runs
            ],
            "findings": [self._json_of(each) for each in self._verdict.findings],
            "remarks": [self._json_of(each) for each in self._verdict.remarks],
        }

    def _json_of(self, finding: Finding) -> dict[str, object]:
        texts = {name: spelled(getattr(finding, name)) for name in ("what", "advice")}
        return {**asdict(finding), **texts, "command": self._command(finding)}

    def annotations(self) -> list[Annotation]:
        """The findings, with their lines of source."""
        from spe_unicorn.report.annotations import Annotation

        return [
            Annotation(each.rule, spelled(each.what), each.place, each.path, each.line)
            for each in self._verdict.findings
        ]

    def cases(self) -> Iterator[Case]:
        """A case for JUnit for each run."""
        from spe_unicorn.report.campaigns.junit import Case

        for number, run in enumerate(self._runs):
            title = f"{_start(run.machine)} {run.machine.core} seed {run.machine.seed}"
            wrong = [each for each in self._verdict.findings if number in each.runs]
            if not wrong:
                yield Case(title)
                continue
            text = "\n".join(line for each in wrong for line in self._said("", each))
            head = "; ".join(f"{each.rule} {each.place}".strip() for each in wrong)
            yield Case(title, ("failure", head, text), None, run.console)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, initial_indent="   ", subsequent_indent="     ", break_long_words=False
    )


def _start(machine: MachineOptions) -> str:
    return "usual start" if machine.el is None else f"EL{machine.el}"


def _seeds(runs: Sequence[Visit], numbers: Sequence[int]) -> str:
    """Seeds as ``0-3, 7``."""
    parts: list[list[int]] = []
    for seed in (runs[number].machine.seed for number in numbers):
        if parts and seed == parts[-1][1] + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def _ending(row: dict[str, Any]) -> str:
    if row["ending"] == "exit":
        return f"exit status {row['exit_status']}"
    return str(row["ending"])
