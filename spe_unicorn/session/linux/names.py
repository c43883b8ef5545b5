"""The names of a guest's kernel and modules, as the guest itself tells them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.linux import steps
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.booted import names_beside, of_machine
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.snapshot_file import read_snapshot
from spe_unicorn.symbols.errors import ElfError
from spe_unicorn.symbols.kallsyms import read_names

_FILE = "kallsyms"
_PLACE = "/names"
"""Where the guest has the folder into which it copies them."""
_SECONDS = 600.0
"""Seconds of the host that the guest may take for it."""


def telling(mount: Callable[[str], bytes]) -> bytes:
    """The steps that tell them by a folder that ``mount`` has the guest mount."""
    return mount(_PLACE) + steps.copy(f"/proc/{_FILE}", f"{_PLACE}/{_FILE}")


def told(folder: Path) -> Path:
    """What a guest that has taken the steps has left in that folder."""
    return folder / _FILE


def kernel_names(
    options: MachineOptions,
    snapshot: Path,
    steps_to_tell: bytes,
    folder: Path,
    say: Callable[[str], None],
) -> Path:
    """The names of the kernel of a snapshot, kept beside it.

    ``folder`` is the one that the machine shares for it. Raises GuestError for a guest that does
    not tell.
    """
    kept = names_beside(snapshot)
    if kept.is_file():
        os.utime(kept)
        return kept
    say("reading the names of the kernel and its modules, once")
    with Machine(options, records=False) as machine:
        machine.restore(of_machine(read_snapshot(snapshot), options))
        machine.console.type(steps.typed(steps_to_tell))
        machine.run(timeout=_SECONDS)
    try:
        read_names(told(folder))
    except ElfError as error:
        raise GuestError(f"the guest does not tell its kernel's names: {error}") from error
    part = kept.with_name(f".{kept.name}.{os.getpid()}.part")
    part.write_bytes(told(folder).read_bytes())
    part.replace(kept)
    return kept
