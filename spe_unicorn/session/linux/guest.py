"""What a guest is made of: an initial RAM disk whose first program does steps in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spe_unicorn.machine.shipped import linux_program
from spe_unicorn.session.linux import steps
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.initramfs import Initramfs

SETTINGS = "kpti=off arm64.nopauth cryptomgr.notests"
"""The SPE driver asks for the first; the second halves the time of a boot; without the third the
kernel tries its own ciphers, which is two thirds of the operations of a boot."""
ENDING = "panic=-1"
"""A kernel that panics resets the machine at once, which ends the run."""
CLIENT, VMM = "spe_client", "vm"
"""Our client of perf_event_open, and what runs a virtual machine by KVM."""
PROGRAMS = (CLIENT, VMM)
"""Programs that every guest has in ``/bin``."""


def command_line(append: str | None) -> str:
    """The kernel's command line, with ``append`` in place of our settings."""
    return f"console=ttyAMA0 {ENDING} {SETTINGS if append is None else append}"


@dataclass(frozen=True)
class Contents:
    """What goes into the initial RAM disk.

    ``steps`` are what the first program does (``steps``), ``added`` files and folders of the host
    with their path in the guest, ``modules`` what :func:`module_path` names, ``made`` files that
    are made here, by their path, and ``links`` symbolic links with their targets.
    """

    steps: bytes
    busybox: bytes | None = None
    modules: Sequence[tuple[str, bytes]] = ()
    added: Sequence[tuple[Path, str]] = ()
    made: Sequence[tuple[str, bytes]] = ()
    links: Sequence[tuple[str, str]] = ()

    def to_bytes(self) -> bytes:
        """The archive. Raises GuestError for a file that cannot be read."""
        if len(self.steps) > steps.MOST:
            raise GuestError(f"a command has at most {steps.MOST} bytes")
        disk = Initramfs()
        if self.busybox is not None:
            disk.add("bin/busybox", self.busybox)
        for program in PROGRAMS:
            disk.add(f"bin/{program}", linux_program(program).read_bytes())
        for number, (name, data) in enumerate(self.modules):
            disk.add(module_path(number, name), data)
        try:
            for source, place in self.added:
                _add(disk, source, place)
        except OSError as error:
            raise GuestError(f"{error.filename}: {error.strerror}") from error
        for path, data in self.made:
            disk.add(path, data)
        for path, target in self.links:
            disk.link(path, target)
        disk.add("init", linux_program("init").read_bytes())
        disk.add("init.steps", self.steps)
        return disk.to_bytes()


def module_path(number: int, name: str) -> str:
    """Where a module is in the guest; modules are loaded in the order of their numbers."""
    return f"/modules/{number:03}-{name}.ko"


def _add(disk: Initramfs, source: Path, place: str) -> None:
    """A file, or a folder with all that is in it; links stay links."""
    if not source.is_dir():
        disk.add(place, source.read_bytes())
        return
    if place.strip("/"):
        disk.folder(place)
    for entry in sorted(source.iterdir()):
        inner = f"{place.rstrip('/')}/{entry.name}"
        if entry.is_symlink():
            disk.link(inner, str(entry.readlink()))
        elif entry.is_dir() or entry.is_file():
            _add(disk, entry, inner)
