"""``spe-unicorn stat``: events of a run, counted from outside, as ``perf stat`` prints them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import click

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import STANDARD_OUTPUT, Whole, context_ids
from spe_unicorn.cli.run.options import common_options
from spe_unicorn.cli.run.run_command import run_command
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.machine.events import SAMPLING_EVENTS
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.names import EventError, NamedEvent, event_name, parse_events

if TYPE_CHECKING:
    from spe_unicorn.session.counters import Counters
    from spe_unicorn.session.machine import Machine

_USUAL = "cycles,instructions,branches"
_MODELLED = ",branch-misses,cache-references,cache-misses"
_RATIOS = {
    E.BR_MIS_PRED_RETIRED: (E.BR_RETIRED, 100.0, "% of all branches"),
    E.L1D_CACHE_REFILL: (E.L1D_CACHE, 100.0, "% of all L1D accesses"),
}
"""What is printed beside a count: of which other event, times what, and the words.

Instructions per cycle are none of them: each operation is a cycle here, whatever the core's model.
"""
_WIDTH = 18


@run_command(
    "spe-unicorn stat firmware.elf\n"
    "spe-unicorn stat -e instructions:u,exc_taken,ld_retired -r 5 --json counts.json firmware.elf"
)
@click.option(
    "-e",
    "--event",
    "events",
    multiple=True,
    metavar="EVENT[,EVENT]",
    help="Count these: Arm's names, perf's (cycles, branches, ...) or rNNNN, with :u, :k, :h for"
    f" EL0, EL1, EL2. [default: {_USUAL}; with --model cache also{_MODELLED.replace(',', ' ')}]",
)
@click.option(
    "--contextid",
    "contexts",
    type=context_ids,
    metavar="N[,N]",
    help="Count only while the operating system's CONTEXTIDR is one of these: on Linux the ID of"
    " a process.",
)
@click.option("-A", "--no-aggr", "each", is_flag=True, help="Print the counts of each PE.")
@click.option(
    "-r",
    "--repeat",
    type=Whole(min=1),
    default=1,
    metavar="N",
    help="Run N times, with seeds from --seed on; print means and their spread.",
)
@common_options(output_required=False)
def stat(
    events: tuple[str, ...],
    contexts: frozenset[int] | None,
    repeat: int,
    *,
    each: bool,
    **options: Any,
) -> None:
    """Run FIRMWARE and count events, with none of the guest's counters.

    The counts go to standard error; the exit status is the guest's. All options but these mean
    what they mean for "run"; --json writes the counts.
    """
    from spe_unicorn.cli.run.session import run_session

    path = options.pop("json")
    settings = Settings.of(**{**options, "quiet": True})
    text = ",".join(events)
    if not events:
        text = _USUAL + (_MODELLED if settings.machine.model == "cache" else "")
    try:
        named = parse_events(text, SAMPLING_EVENTS)
    except EventError as error:
        raise UsageProblem(f"-e: {error}") from None
    counting: list[Counters] = []

    def attach(machine: Machine) -> None:
        from spe_unicorn.session.counters import Counters

        try:
            counting.append(Counters(machine, named, contexts))
        except EventError as error:
            raise UsageProblem(f"-e: {error}") from None

    status = 0
    for number in range(repeat):
        machine = replace(settings.machine, seed=settings.machine.seed + number)
        ended = run_session(replace(settings, machine=machine), attach=attach)
        status = status or ended
    runs = [counters.counts() for counters in counting]
    click.echo(_table(_what(settings), named, runs, each=each), err=True, nl=False)
    if path is not None:
        _write(path, named, runs, status)
    sys.exit(status)


def _what(settings: Settings) -> str:
    machine = settings.machine
    name = machine.firmware or machine.kernel or machine.bios or "the machine"
    return str(name)


def _table(
    what: str, named: tuple[NamedEvent, ...], runs: list[list[list[int]]], *, each: bool
) -> str:
    """The counts of runs as ``perf stat`` prints them: ``runs[run][event][PE]``."""
    lines = ["", f" Performance counter stats for '{what}'{_times(len(runs))}:", ""]
    if each:
        for pe in range(len(runs[0][0])):
            values = [[event[pe] for event in run] for run in runs]
            lines += [f"CPU{pe:<6d}{line}" for line in _rows(named, values)]
    else:
        lines += _rows(named, [[sum(event) for event in run] for run in runs])
    return "\n".join(lines) + "\n\n"


def _times(runs: int) -> str:
    return "" if runs == 1 else f" ({runs} runs)"


def _rows(named: tuple[NamedEvent, ...], runs: list[list[int]]) -> list[str]:
    """A line an event; ``runs[run][event]``."""
    means = [mean(values) for values in zip(*runs, strict=True)]
    by_event = {
        (event.number, event.levels): value for event, value in zip(named, means, strict=True)
    }
    lines = []
    for n, (event, value) in enumerate(zip(named, means, strict=True)):
        line = f"{value:>{_WIDTH},.0f}      {event.text:<24}"
        ratio = _RATIOS.get(E(event.number)) if event.number in E._value2member_map_ else None
        if ratio is not None and (whole := by_event.get((ratio[0], event.levels))):
            line += f" # {ratio[1] * value / whole:7.2f} {ratio[2]}"
        if len(runs) > 1:
            spread = stdev(run[n] for run in runs)
            line += f" ( +- {100 * spread / value if value else 0:.2f}% )"
        lines.append(line.rstrip())
    return lines


def _write(
    path: str, named: tuple[NamedEvent, ...], runs: list[list[list[int]]], status: int
) -> None:
    """The counts as JSON: an object an event, with the counts of each run and PE."""
    found = [
        {
            "event": event.text,
            "name": event_name(event.number, SAMPLING_EVENTS),
            "number": event.number,
            "count": mean(sum(run[n]) for run in runs),
            "runs": [sum(run[n]) for run in runs],
            "cpus": [run[n] for run in runs],
        }
        for n, event in enumerate(named)
    ]
    text = json.dumps({"status": status, "events": found}, indent=2) + "\n"
    if path == STANDARD_OUTPUT:
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}") from None
