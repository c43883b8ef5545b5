"""``run --interrupt-sweep``: an interrupt before each operation of a window, and what fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.cli.stoppable import StoppedError, stoppable

if TYPE_CHECKING:
    from spe_unicorn.cli.run.legs import Legs
    from spe_unicorn.session.machine import Machine
    from spe_unicorn.session.outcome import Outcome
    from spe_unicorn.session.sweeping.inject import Planned
    from spe_unicorn.session.sweeping.sweep import Swept, Wanted

FAILURES = 1
"""Exit status where a run fails."""
_OF_SWEEPS = (
    "machine",
    "interrupt_sweep",
    "restored",
    "inject",
    "until",
    "max_insns",
    "timeout",
    "quiet",
    "symbols",
    "console",
    "secure_console",
    "virtio_console",
)
"""What of a command line is for a sweep, refused above, or harmless."""
_OF_ONE_RUN = frozenset(
    {field.name for field in fields(Settings)}.difference(_OF_SWEEPS) | {"check"}
)


def _wanted(text: str) -> Wanted:
    """What --interrupt-sweep is given, for click."""
    from spe_unicorn.session.point import PointError
    from spe_unicorn.session.sweeping.inject import InjectionError
    from spe_unicorn.session.sweeping.sweep import parse_sweep

    try:
        return parse_sweep(text)
    except (InjectionError, PointError) as error:
        raise click.BadParameter(str(error)) from None


def _planned(text: str) -> Planned:
    """What --inject is given, for click."""
    from spe_unicorn.session.point import PointError
    from spe_unicorn.session.sweeping.inject import InjectionError, parse_injection

    try:
        return parse_injection(text)
    except (InjectionError, PointError) as error:
        raise click.BadParameter(str(error)) from None


def sweep_options(function: object) -> Any:
    """Add the options to a command."""
    decorators: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--interrupt-sweep",
            type=_wanted,
            metavar="INTID[,POINT-POINT]",
            help="Run once for each operation from the first point to the second, with that"
            " interrupt pending before it, and tell which runs fail.",
        ),
        click.option(
            "--inject",
            type=_planned,
            metavar="KIND@POINT",
            help="Inject a fault there: irq=INTID, flip=xN.BIT, flip=0xADDRESS.BIT (a byte of"
            " memory), or abort, an External abort.",
        ),
    )
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def inject(machine: Machine, legs: Legs, planned: Planned) -> tuple[Outcome, str | None]:
    """Run up to the point of an injection, inject, run on; the outcome, and what went wrong."""
    first = legs.run(planned.at)
    if not legs.came_to(planned.at):
        return first, f"{planned.at} was not reached: nothing was injected"
    planned.what.put_into(machine.board)
    return legs.run(None), None


def run_sweep(settings: Settings, wanted: Wanted, given: Collection[str]) -> int:
    """Sweep as ``settings`` say, and tell what came of it; the exit status.

    ``given`` are the options that were named on the command line.
    """
    from spe_unicorn.cores.profile import CoreError
    from spe_unicorn.machine.boot.image import LoadError
    from spe_unicorn.machine.options import OptionError
    from spe_unicorn.session.point import PointError
    from spe_unicorn.session.sweeping.inject import InjectionError
    from spe_unicorn.session.sweeping.sweep import sweep

    if settings.restored is not None or settings.inject is not None:
        raise UsageProblem("--interrupt-sweep begins at the start: without --restore and --inject")
    for name in _OF_ONE_RUN.intersection(given):
        raise UsageProblem(f"--interrupt-sweep is of many runs: without --{name.replace('_', '-')}")
    until = None if settings.until is None else str(settings.until)
    begun: list[Swept] = []
    stopped = 0
    try:
        with stoppable():
            swept = sweep(
                settings.machine,
                wanted,
                os.cpu_count() or 1,
                until,
                settings.max_insns,
                begun.append,
            )
    except StoppedError as error:
        stopped = 128 + error.number
        if not begun:
            return stopped
        swept = begun[0]
    except (PointError, InjectionError) as error:
        raise UsageProblem(f"--interrupt-sweep: {error}") from None
    except (CoreError, LoadError, OptionError) as error:
        raise UsageProblem(spelled(str(error))) from None
    if swept.plain:
        raise UsageProblem(f"--interrupt-sweep: it fails without any interrupt: {swept.plain}")
    _tell(settings, wanted, swept)
    return stopped or (FAILURES if swept.failed else 0)


def _tell(settings: Settings, wanted: Wanted, swept: Swept) -> None:
    from spe_unicorn.session.sweeping.sweep import lines_of

    for line in lines_of(settings.machine, wanted.interrupt, swept):
        click.echo(line)
    failed = sum(bool(each.why) for each in swept.positions)
    tried, window = len(swept.positions), swept.last - swept.first
    never = f", {swept.never_taken} at which it was never taken" if swept.never_taken else ""
    if tried and swept.never_taken == tried:
        never += ", so nothing was tested: has the program enabled and unmasked it there?"
    rest = f"; stopped, {window - tried} were not tried" if tried < window else ""
    click.echo(
        f"INTID {wanted.interrupt.intid} before each of {tried} operations"
        f" ({swept.first + 1} to {swept.first + tried}): {failed or 'none'} fail{never}{rest}"
    )
