"""Snapshots on the command line: the file that a run begins from, and the one that it writes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.machine.memory_map import FLASH, SECURE_RAM
from spe_unicorn.machine.options import MachineOptions, OptionError
from spe_unicorn.output.names import printable
from spe_unicorn.session.point import Point, PointError, parse_point

if TYPE_CHECKING:
    from spe_unicorn.cli.run.legs import Legs
    from spe_unicorn.session.machine import Machine
    from spe_unicorn.session.outcome import Outcome
    from spe_unicorn.session.snapshot import Snapshot


@dataclass(frozen=True)
class Restored:
    """A snapshot that a run begins from, with the options of the machine for it."""

    file: str
    snapshot: Snapshot
    options: MachineOptions

    def restore(self, machine: Machine) -> None:
        """Put the machine there. Raises UsageProblem for another one, and one that ended."""
        from spe_unicorn.session.snapshot import SnapshotError

        if self.snapshot.ended is not None:
            ended = printable(self.snapshot.ended)[:_LONGEST]
            raise UsageProblem(f"{self.file}: its machine goes no further: {ended}")
        try:
            machine.restore(self.snapshot)
        except SnapshotError as error:
            raise UsageProblem(spelled(f"{self.file}: {error}")) from None


_OF_HOST: Final = (
    "firmware",
    "kernel",
    "initrd",
    "dtb",
    "bios",
    "pflash",
    "fw_cfg",
    "drive",
    "share",
    "load",
    "core",
    "semihosting_dir",
)
"""The options that name files and folders of the host."""
_BESIDES: Final = FLASH.size + SECURE_RAM.size
"""Bytes of memory that a machine may have beside its RAM."""
_LONGEST: Final = 1000
"""Characters of what a snapshot needs, in a message."""


def read_restored(path: str, chosen: Mapping[str, Any]) -> Restored:
    """The snapshot in a file, and the options of its machine with those that were ``chosen``.

    A file can be made by anybody: what it names of the host is opened where it was chosen alone.
    Raises UsageProblem.
    """
    from spe_unicorn.session.snapshot import SnapshotError
    from spe_unicorn.session.snapshot_file import MORE, MOST_MEMORY, SnapshotFile

    try:
        file = SnapshotFile(path)
        if file.options is None:
            raise UsageProblem(
                f"{path}: its machine was made in Python, of what no option of the command line"
                " names: restore it there"
            )
        needed = _needed(file.options, chosen)
        if needed:
            raise UsageProblem(
                f"{path}: a restore opens files and folders that its own command line names, and no"
                f" others: name {needed}, as far as it is to be opened"
            )
        options = replace(file.options, **chosen)
        memory = options.ram + _BESIDES if "ram" in chosen else MOST_MEMORY
        return Restored(path, file.read(memory, options.drive), options)
    except (SnapshotError, OptionError) as error:
        raise UsageProblem(spelled(str(error).replace(MORE, "--ram"))) from None


def _needed(options: MachineOptions, chosen: Mapping[str, object]) -> str:
    """What the snapshot's machine has of the host and nobody chose, as words of a command line."""
    words: list[str] = []
    for name in _OF_HOST:
        value = getattr(options, name)
        if name in chosen or not value or (name == "core" and _is_built_in(value)):
            continue
        for text in value if isinstance(value, tuple) else (value,):
            option = () if name == "firmware" else (f"--{name.replace('_', '-')}",)
            words += (*option, os.fspath(text))
    text = printable(shlex.join(words))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _is_built_in(core: str) -> bool:
    """Whether a text for ``core`` names no file."""
    from spe_unicorn.cores.profile import core_names

    return core.partition(",")[0] in core_names()


def point(text: str) -> Point:
    """A POINT as ``session.point`` has it, for click."""
    try:
        return parse_point(text)
    except PointError as error:
        raise click.BadParameter(str(error)) from None


def snapshot_options(function: object) -> Any:
    """Add the options to a command."""
    decorators: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--snapshot-at",
            type=point,
            metavar="POINT",
            help="Write the snapshot there, and run on: a number of operations, 0x and an address,"
            " SYMBOL[+0xN] or console:TEXT.",
        ),
        click.option(
            "--snapshot",
            metavar="FILE",
            shell_complete=completing.files,
            help="Where to write it.",
        ),
        click.option(
            "--restore",
            metavar="FILE",
            shell_complete=completing.files,
            help="Begin from a snapshot, with the machine of which it is. Its options need not be"
            " said again, but for FIRMWARE and others that name files and folders.",
        ),
    )
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def check_target(at: Point | None, path: str | None) -> None:
    """Raise UsageProblem for a snapshot that could surely not be written."""
    if (at is None) != (path is None):
        given, missing = ("--snapshot-at", "--snapshot")[:: 1 if path is None else -1]
        raise UsageProblem(f"{given} needs {missing}")
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UsageProblem(f"{path}: {folder} is no directory")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageProblem(f"{path}: is no regular file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageProblem(f"{path}: Permission denied")


class NotReachedError(Exception):
    """The run ended before the point of its snapshot; the message is one line."""


def run_with_snapshot(
    machine: Machine, legs: Legs, at: Point, path: str
) -> tuple[Outcome, str | None]:
    """Run up to ``at``, write the snapshot, run on; the outcome of all, and what went wrong."""
    from spe_unicorn.session.snapshot import SnapshotError
    from spe_unicorn.session.snapshot_file import write_snapshot

    first = legs.run(at)
    if not legs.came_to(at):
        return first, f"{at} was not reached: no snapshot was written"
    try:
        write_snapshot(machine.save(), path)
    except SnapshotError as error:
        return first, str(error)
    return legs.run(None), None
