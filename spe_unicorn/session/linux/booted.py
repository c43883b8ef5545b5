"""A guest that has booted once and waits: a snapshot from which any number of commands start."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.storage.backing import split_share
from spe_unicorn.session.identity import core_and_engine, digest, with_files
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.disks import contents, made_here
from spe_unicorn.session.linux.steps import READY
from spe_unicorn.session.linux.watch import Watch
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.point import AtOutput
from spe_unicorn.session.snapshot import Snapshot, SnapshotError
from spe_unicorn.session.snapshot_file import read_snapshot, write_snapshot

_FAILED = re.compile(r"^init: (cannot load .*|.* ended with status \d+)\r$", re.M)
"""What our first program says of a step that failed."""
_KEPT = 8
"""Snapshots that are kept in a folder; the one that was not used for longest goes first."""
_BOOT_LIMIT = 1800.0
"""Seconds of the host that a boot may take."""


def snapshot_file(
    options: MachineOptions, mounted: int, folder: Path, say: Callable[[str], None]
) -> Path:
    """The snapshot of a guest where it waits, from ``folder`` or, the first time, booted.

    The first ``mounted`` shared folders are mounted there, of the others the names do not matter.
    Raises GuestError for a guest that never waits and for a folder that cannot be written, and
    what making a machine raises.
    """
    file = folder / f"{_key(options, mounted)}.snapshot"
    with suppress(SnapshotError, OSError):
        read_snapshot(file)
        os.utime(file)
        return file
    say("booting once, up to where commands start")
    watch = Watch()
    with Machine(options, records=False) as machine:
        machine.console.written.connect(watch.read)
        outcome = machine.run(until=AtOutput(f"{READY}\r\n"), timeout=_BOOT_LIMIT)
        if outcome.ending != "until":
            said = " | ".join(machine.console.text.splitlines()[-3:])
            raise GuestError(
                f"the guest does not come to the point: {outcome.cause or 'it ended'};"
                f" it said: {said}"
            )
        for line in watch.complaints:
            say(f"while it booted, the kernel reported: {line}")
        if failed := _FAILED.search(machine.console.text):
            raise GuestError(f"the guest does not come to the point: {failed.group(1)}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_snapshot(machine.save(), file)
        except (SnapshotError, OSError) as error:
            raise GuestError(str(error)) from error
    _forget_oldest(folder)
    return file


def of_machine(snapshot: Snapshot, options: MachineOptions) -> Snapshot:
    """A snapshot of :func:`snapshot_file` for a machine that has other folders of those names.

    The disks that are made here may be other files.
    """
    moved = [file for text in options.drive if (file := made_here(text)) is not None]
    found = with_files(snapshot.identity, options.share, options.drive, moved)
    return replace(snapshot, identity=found)


def _key(options: MachineOptions, mounted: int) -> str:
    """A name for a guest; guests with other kernels, files or machines have others."""
    share = (*options.share[:mounted], *map(_but_name, options.share[mounted:]))
    drive = tuple(text if made_here(text) is None else contents(text) for text in options.drive)
    told = repr(replace(options, kernel=None, initrd=None, share=(), drive=drive))
    files = (
        Path(os.fspath(name)).read_bytes() for name in (options.kernel, options.initrd) if name
    )
    parts = (told, repr(share), core_and_engine(options), *map(digest, files))
    return blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _but_name(share: str) -> str:
    return str(split_share(share)[1:])


def _forget_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.snapshot"), key=lambda file: file.stat().st_mtime)
    for file in files[:-_KEPT]:
        file.unlink(missing_ok=True)
        names_beside(file).unlink(missing_ok=True)


def names_beside(snapshot: Path) -> Path:
    """Where the names of a snapshot's kernel and modules are kept."""
    return snapshot.with_suffix(".kallsyms")
