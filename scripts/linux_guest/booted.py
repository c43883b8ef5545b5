"""A guest that has booted once and waits for scenarios: a snapshot from which any number start.

The snapshot and the initial RAM disk are kept beside the packages. A scenario is typed at the
console of the restored machine, so its run is as if the boot had just come there.
"""

from __future__ import annotations

import base64
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import click
from click.core import ParameterSource
from guest import HERE, Guest, Run, machine_words, scenario

from spe_unicorn import __version__
from spe_unicorn.cli.commands.run import run as run_command
from spe_unicorn.cli.run.session import run_session
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.snapshots import Restored
from spe_unicorn.session.identity import digest
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.point import AtOutput
from spe_unicorn.session.snapshot import Snapshot, SnapshotError
from spe_unicorn.session.snapshot_file import read_snapshot, write_snapshot

READY = "=== ready\r\n"
"""What the guest prints when it waits for a scenario."""
_MOST_TYPED = 32 << 10
"""Bytes of a scenario: the kernel drops what is typed far ahead of who reads it."""
_KEPT = 8
"""Snapshots that are kept of a release; the one that was not used for longest goes first."""
_LIMIT = 120
"""Seconds of the host that a scenario of :meth:`Booted.run` may take."""
_BOOT_LIMIT = 1800
"""Seconds of the host that a boot may take, which is ten times as long with the cache model."""


class Booted:
    """A guest where it waits for scenarios, from a file of ``folder`` or, the first time, booted.

    ``options`` are words for ``spe-unicorn run``. Raises GuestError for a guest that never waits,
    and where the snapshot cannot be written, and click.ClickException for wrong options.
    """

    def __init__(self, guest: Guest, folder: Path, options: Sequence[str] = ()) -> None:
        initrd = guest.initrd((HERE / "guest/typed.sh").read_bytes())
        kernel = guest.kernel.read_bytes()
        machine = settings_of(machine_words(guest, folder / "-", options)).machine
        told = repr(replace(machine, kernel=None, initrd=None))
        name = blake2b(
            "\n".join((__version__, told, digest(kernel), digest(initrd))).encode(), digest_size=8
        ).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        disk, self.file = folder / f"{name}.cpio", folder / f"{name}.snapshot"
        if not disk.exists():
            _write(disk, initrd)
        self._settings = settings_of(machine_words(guest, disk, options))
        self._snapshot = self._read()
        if self._snapshot is None:
            self._snapshot = self._boot()
            _forget_oldest(folder)
        self._machine: Machine | None = None

    def start(self, script: bytes) -> int:
        """Run a scenario on this terminal; the exit status."""
        text = typed(script)
        restored = Restored(str(self.file), self._snapshot, self._settings.machine)
        settings = replace(self._settings, restored=restored)
        return run_session(settings, lambda machine: machine.console.type(text))

    def run(self, script: bytes) -> Run:
        """Run a scenario, and see what came of it; the machine is the same one every time."""
        began = time.process_time()
        if self._machine is None:
            self._machine = Machine(self._settings.machine, records=False)
        machine = self._machine
        machine.restore(self._snapshot)
        before = len(machine.console.output)
        machine.console.type(typed(script))
        outcome = machine.run(timeout=_LIMIT)
        return Run(
            machine.console.output[before:].decode(errors="replace").replace("\r\n", "\n"),
            outcome.cause or "",
            -1 if outcome.exit_status is None else outcome.exit_status,
            time.process_time() - began,
        )

    def _read(self) -> Snapshot | None:
        """The snapshot, None where there is none that can be used."""
        try:
            snapshot = read_snapshot(self.file)
        except SnapshotError:
            return None
        os.utime(self.file)
        return snapshot

    def _boot(self) -> Snapshot:
        print("scripts/linux: booting once, up to where scenarios start", file=sys.stderr)
        with Machine(self._settings.machine, records=False) as machine:
            outcome = machine.run(until=AtOutput(READY), timeout=_BOOT_LIMIT)
            if outcome.ending != "until":
                said = machine.console.text.splitlines()[-3:]
                raise GuestError(
                    f"the guest does not say {READY!r}: {outcome.cause or 'it powers off'};"
                    f" it says {said}"
                )
            snapshot = machine.save()
            try:
                write_snapshot(snapshot, self.file)
            except SnapshotError as error:
                raise GuestError(str(error)) from error
            return snapshot


def typed(script: bytes) -> bytes:
    """What is typed to have a script run. Raises GuestError for one that is too long for that."""
    if len(script) > _MOST_TYPED:
        raise GuestError(
            f"a scenario from a snapshot has at most {_MOST_TYPED} bytes, this one {len(script)}:"
            " --add puts files into the guest"
        )
    return base64.encodebytes(script) + b"\4"


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
    with _refusing():
        booted = Booted(guest, folder, options)
        statuses = [booted.start(scenario(name)) for name in names]
    return next((status for status in statuses if status), 0)


def _write(file: Path, data: bytes) -> None:
    """Write a file, all of it or nothing."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise GuestError(f"cannot write {file}: {error.strerror}") from error


def _forget_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.snapshot"), key=lambda file: file.stat().st_mtime)
    for file in files[:-_KEPT]:
        file.unlink(missing_ok=True)
        file.with_suffix(".cpio").unlink(missing_ok=True)
