"""Snapshots on the command line: the file that a run begins from, and the one that it writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.machine.options import MachineOptions, OptionError
from spe_unicorn.session.point import Point, PointError, parse_point

if TYPE_CHECKING:
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
        """Put the machine there. Raises UsageProblem where it is another one."""
        from spe_unicorn.session.snapshot import SnapshotError

        try:
            machine.restore(self.snapshot)
        except SnapshotError as error:
            raise UsageProblem(spelled(f"{self.file}: {error}")) from None


def read_restored(path: str, chosen: Mapping[str, Any]) -> Restored:
    """The snapshot in a file, and the options of its machine with those that were ``chosen``.

    Raises UsageProblem.
    """
    from spe_unicorn.session.snapshot import SnapshotError
    from spe_unicorn.session.snapshot_file import read_snapshot

    try:
        snapshot = read_snapshot(path)
    except SnapshotError as error:
        raise UsageProblem(str(error)) from None
    if snapshot.options is None:
        raise UsageProblem(
            f"{path}: its machine was made in Python, of what no option of the command line names:"
            " restore it there"
        )
    try:
        return Restored(path, snapshot, replace(snapshot.options, **chosen))
    except OptionError as error:
        raise UsageProblem(spelled(str(error))) from None


def point(text: str) -> Point:
    """A POINT as ``session.point`` has it, for click."""
    try:
        return parse_point(text)
    except PointError as error:
        raise click.BadParameter(str(error)) from None


def snapshot_options(function: Any) -> Any:
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
            help="Begin from a snapshot, with the machine of which it is: FIRMWARE and the"
            " machine's options need not be said again.",
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
    machine: Machine, operations: int | None, at: Point, path: str
) -> tuple[Outcome, str | None]:
    """Run up to ``at``, write the snapshot, run on; the outcome of all, and what went wrong."""
    from spe_unicorn.session.snapshot import SnapshotError
    from spe_unicorn.session.snapshot_file import write_snapshot

    began = machine.operations
    first = machine.run(operations, until=at)
    if first.ending != "until":
        return first, f"{at} was not reached: no snapshot was written"
    try:
        write_snapshot(machine.save(), path)
    except SnapshotError as error:
        return first, str(error)
    left = None if operations is None else operations - (machine.operations - began)
    rest = machine.run(left)
    cause = rest.cause
    if rest.ending == "limit":
        cause = f"the limit of {operations} operations was reached"
    seconds, executed = first.seconds + rest.seconds, first.executed + rest.executed
    return replace(rest, cause=cause, seconds=seconds, executed=executed), None
