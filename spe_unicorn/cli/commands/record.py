"""``spe-unicorn record``: sampling from outside, for firmware that knows nothing of SPE."""

from __future__ import annotations

import sys
from typing import Any

import click

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import OPERATIONS, Whole, words
from spe_unicorn.cli.run.options import common_options
from spe_unicorn.cli.run.run_command import run_command
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.machine.options import OptionError, Sampling

_MAX_LATENCY = 0xFFFF
"""What PMSLATFR_EL1.MINLAT holds."""


@run_command(
    "spe-unicorn record -c 1000 -o records.data firmware.elf\n"
    "spe-unicorn record -c 1000 --filter load --model cache -o loads.spe firmware.elf\n"
    "spe-unicorn record -e cache-misses -c 100 --model cache -o misses.data firmware.elf"
)
@click.option(
    "-e",
    "--event",
    metavar="EVENT",
    help="Sample the operation that makes every PERIOD-th of these events, exactly: Arm's name,"
    " perf's (cycles, branches, ...) or rNNNN, with :u, :k, :h for EL0, EL1, EL2.",
)
@click.option(
    "-c",
    "--count",
    "period",
    type=Whole(min=1),
    metavar="PERIOD",
    required=True,
    help="Sample every PERIOD-th operation, on average; with -e every PERIOD-th event.",
)
@click.option(
    "--no-jitter",
    is_flag=True,
    help="Sample exactly every PERIOD-th operation; else the distances vary by the seed, within an"
    " eighth of PERIOD, so that no loop keeps step with them.",
)
@click.option(
    "--filter",
    "kinds",
    type=words(*OPERATIONS),
    metavar="KIND[,KIND]",
    help="Keep samples of these operations only: load, store, branch.",
)
@click.option(
    "--min-latency",
    type=Whole(0, _MAX_LATENCY),
    metavar="CYCLES",
    default=0,
    help="Keep samples that took at least so long.",
)
@common_options(output_required=True)
def record(
    event: str | None,
    period: int,
    *,
    no_jitter: bool,
    kinds: tuple[str, ...] | None,
    min_latency: int,
    **options: Any,
) -> None:
    """Sample about every PERIOD-th operation of FIRMWARE, and write the records to -o.

    The firmware needs no SPE driver and sees no SPE: nothing of the sampling shows in its
    registers or memory. All options but these mean what they mean for "run", exit status included.
    """
    from spe_unicorn.cli.run.session import run_session

    try:
        sampling = Sampling(period, kinds or (), min_latency, not no_jitter, event)
    except OptionError as error:
        raise UsageProblem(spelled(str(error))) from None
    sys.exit(run_session(Settings.of(sampling=sampling, **options)))
