"""The names of a guest's kernel and modules, as the guest tells them where it waits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.linux import steps
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.booted import names_beside, of_machine
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.snapshot_file import read_snapshot

OUT = "/out"
"""Where the guest has the last of the shared folders."""
_TOLD = "/proc/kallsyms"
_SECONDS = 600.0
"""Seconds of the host that the guest may take to tell them."""


def kernel_names(
    options: MachineOptions, snapshot: Path, before: bytes, say: Callable[[str], None]
) -> Path:
    """A copy of the guest's ``/proc/kallsyms``, kept beside its snapshot.

    ``before`` are the steps that mount the last of the shared folders as :data:`OUT`. Raises
    GuestError for a guest that does not tell.
    """
    kept = names_beside(snapshot)
    if kept.is_file():
        os.utime(kept)
        return kept
    say("reading the names of the kernel and its modules, once")
    with tempfile.TemporaryDirectory(prefix="spe-unicorn-") as folder:
        told = Path(folder, "names")
        mine = replace(options, share=(*options.share[:-1], folder))
        with Machine(mine, records=False) as machine:
            machine.restore(of_machine(read_snapshot(snapshot), mine))
            machine.console.type(steps.typed(before + steps.copy(_TOLD, f"{OUT}/{told.name}")))
            machine.run(timeout=_SECONDS)
        try:
            names = told.read_bytes()
        except OSError:
            names = b""
    if b" T _stext\n" not in names:
        raise GuestError(f"the guest does not tell the names of its kernel by {_TOLD}")
    part = kept.with_name(f".{kept.name}.{os.getpid()}.part")
    part.write_bytes(names)
    part.replace(kept)
    return kept
