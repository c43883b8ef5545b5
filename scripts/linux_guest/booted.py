"""A guest that has booted once and waits for scenarios: a snapshot from which any number start.

A scenario is typed at the console of the restored machine, so its run is as if the boot had just
come there. Who waits, the snapshot and its folder are those of ``spe-unicorn linux --from``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource
from guest import Guest, machine_words, scenario, typed_words

from spe_unicorn.cli.commands.run import run as run_command
from spe_unicorn.cli.run.session import run_session
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.snapshots import Restored
from spe_unicorn.session.linux.booted import snapshot_file
from spe_unicorn.session.linux.starts import Command, Limits, Point, Result, Starts
from spe_unicorn.session.snapshot_file import read_snapshot

LIMITS = Limits(100_000_000_000, 24_000.0)
"""What a scenario of :meth:`Booted.run` may take if nothing is said of it: operations, and seconds
of a host that does other work besides."""


class Booted:
    """A guest where it waits for scenarios, from a file of ``folder`` or, the first time, booted.

    ``options`` are words for ``spe-unicorn run``. Raises GuestError for a guest that never waits,
    and where the snapshot cannot be written, and click.ClickException for wrong options.
    """

    def __init__(self, guest: Guest, folder: Path, options: Sequence[str] = ()) -> None:
        self._files = tempfile.TemporaryDirectory(prefix="spe-unicorn-")
        disk = Path(self._files.name, "initrd")
        disk.write_bytes(guest.waiting())
        self._settings = settings_of(machine_words(guest, disk, options))
        self.file = snapshot_file(self._settings.machine, 0, folder, _say)
        self._point = Point(self._settings.machine, self.file, b"")
        self._starts: Starts | None = None

    def __enter__(self) -> Booted:
        return self

    def __exit__(self, *_: object) -> None:
        if self._starts is not None:
            self._starts.close()
        self._files.cleanup()

    def start(self, script: bytes) -> int:
        """Run a scenario on this terminal; the exit status."""
        text = self._point.typed(Command("scenario", typed_words(script)))
        machine = self._settings.machine
        restored = Restored(str(self.file), read_snapshot(self.file), machine)
        settings = replace(self._settings, restored=restored)
        return run_session(settings, lambda machine: machine.console.type(text))

    def run(self, script: bytes, limits: Limits = LIMITS) -> Result:
        """Run a scenario, and see what came of it; the machine is the same one every time."""
        if self._starts is None:
            self._starts = Starts(self._point)
        return self._starts.run(0, Command("scenario", typed_words(script)), limits)


def _say(text: str) -> None:
    print(f"scripts/linux: {text}", file=sys.stderr)


def settings_of(words: Sequence[str]) -> Settings:
    """What the words of a ``spe-unicorn run`` come to. Raises click.ClickException."""
    with run_command.make_context("spe-unicorn run", list(words)) as context:
        source = context.get_parameter_source
        given = {n for n in context.params if source(n) is ParameterSource.COMMANDLINE}
        return Settings.of(given=given, **context.params)


@contextmanager
def _refusing() -> Iterator[None]:
    """Have wrong options end this program as they end the emulator."""
    try:
        yield
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def start_all(guest: Guest, names: Sequence[str], folder: Path, options: Sequence[str]) -> int:
    """Run scenarios on this terminal, each from the same place; the first status that is not 0."""
    with _refusing(), Booted(guest, folder, options) as booted:
        statuses = [booted.start(scenario(name)) for name in names]
    return next((status for status in statuses if status), 0)
