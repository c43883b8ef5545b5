"""The runs of a program that ``spe-unicorn doctor`` makes, by the workers of campaigns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from spe_unicorn.machine.options import MachineOptions, OptionError
from spe_unicorn.session.campaigns.here import run_here
from spe_unicorn.session.campaigns.jobs import Jobs, jobs_of
from spe_unicorn.session.campaigns.noticed import Noticed
from spe_unicorn.session.campaigns.plan import Limits, Plan, PlannedRun
from spe_unicorn.session.campaigns.store import Store
from spe_unicorn.session.checking.allocators import has_allocator

CORES: Final = ("generic", "neoverse-n2")
"""A core that samples instructions, and one that samples micro-operations."""

_ELF: Final = b"\x7fELF"


@dataclass(frozen=True)
class Visit:
    """One run: its machine, the ``row`` that a campaign has of it, and what else is known."""

    machine: MachineOptions
    row: dict[str, Any]
    console: str
    noticed: Noticed | None
    """None where the machine was refused, or its run went beyond the limits of the host."""

    @property
    def start(self) -> int | None:
        """The Exception level that the run was started at, None for the usual one."""
        return self.machine.el


def starts(machine: MachineOptions) -> tuple[int | None, ...]:
    """The starts that make sense where none was asked for; the usual one is the first."""
    if machine.el is not None or machine.secure or machine.starts_in_flash:
        return (machine.el,)
    return (1, 2)


def machines(
    machine: MachineOptions, cores: Sequence[str], levels: Sequence[int | None], seeds: int
) -> Iterator[MachineOptions]:
    """The machine of each run: ``seeds`` many from that of ``machine`` on, start by start.

    The first of each core and start is checked for RAM that nobody has written, too, and for
    mistakes with its allocator if it has one: both are slow. The last is checked for loads past the
    cache, as these see poison.
    """
    slow = ("uninitialised", "heap") if has_allocator(machine.firmware) else ("uninitialised",)
    for el in levels:
        for core in cores:
            for number in range(seeds):
                more = () if number else slow
                more = (*more, "noncoherent") if number == seeds - 1 else more
                check = (*machine.check, *(each for each in more if each not in machine.check))
                seed = machine.seed + number
                yield replace(machine, el=el, core=core, seed=seed, check=check)


def checked(machine: MachineOptions) -> MachineOptions:
    """The machine with the checks that cost little. Raises OSError for a file that is not there."""
    started, usual = machine.kernel or machine.firmware, ["null"]
    if isinstance(started, (str, os.PathLike)) and not machine.starts_in_flash:
        with open(started, "rb") as file:
            if file.read(len(_ELF)) == _ELF:
                usual.append("text")
    asked = [name for name in machine.check if name not in usual]
    return replace(machine, check=(*asked, *usual))


def visits(
    wanted: Sequence[MachineOptions], limits: Limits, processes: int, version: str
) -> list[Visit]:
    """Run each machine once, ``processes`` at a time.

    Raises OptionError for machines that campaigns cannot run, OSError and FileError for files.
    """
    if any(not isinstance(machine.core, str) for machine in wanted):
        raise OptionError("`core`: name it, so that a command can repeat each run")
    plan = Plan("doctor", limits, [PlannedRun.of(machine, watch=True) for machine in wanted])
    jobs = jobs_of(plan, version)
    with tempfile.TemporaryDirectory(prefix="spe-unicorn-") as folder:
        store = Store(Path(folder), lambda *_: 0)
        store.keep_files(Jobs(jobs.runs, jobs.paths))
        rows = {job.key: row for job, row in run_here(jobs.runs, store, processes)}
        return [
            Visit(machine, rows[job.key], store.console(job.key), store.noticed(job.key))
            for machine, job in zip(wanted, jobs.runs, strict=True)
        ]
