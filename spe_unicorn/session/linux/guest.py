"""What a guest is made of: an initial RAM disk that runs one command and tells its status."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.initramfs import Initramfs
from spe_unicorn.session.linux.watch import STATUS

SETTINGS = "kpti=off arm64.nopauth"
"""The SPE driver asks for the first; the second halves the time of a boot."""
ENDING = "panic=-1"
"""A kernel that panics resets the machine at once, which ends the run."""
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/sbin:/usr/sbin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
[ -d /sys/kernel/tracing ] && mount -t tracefs tracefs /sys/kernel/tracing
for module in /modules/*.ko; do
    [ -e "$module" ] && {{ insmod "$module" || echo "$module cannot be loaded" >&2; }}
done
{mounts}cd /root
{command}
status=$?
cd /
{unmounts}dmesg -n 1
echo
echo "{said} $status"
poweroff -f
"""
_MOUNT = "mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none {tag} {place}"
_SHELL = "setsid cttyhack sh"


@dataclass(frozen=True)
class Contents:
    """What goes into the initial RAM disk.

    ``modules`` are in the order in which they are loaded, ``added`` are files and folders of the
    host with their path in the guest, and ``mounts`` where it mounts shared folders, by tag.
    """

    busybox: bytes
    command: Sequence[str] = ()
    """The command with its arguments; a shell if there is none."""
    modules: Sequence[tuple[str, bytes]] = ()
    added: Sequence[tuple[Path, str]] = ()
    mounts: Sequence[tuple[str, str]] = ()

    def to_bytes(self) -> bytes:
        """The archive. Raises GuestError for a file that cannot be read."""
        disk = Initramfs()
        disk.add("bin/busybox", self.busybox)
        disk.add("init", self._init().encode())
        for number, (name, data) in enumerate(self.modules):
            disk.add(f"modules/{number:03}-{name}.ko", data)
        for _, place in self.mounts:
            disk.folder(place)
        try:
            for source, place in self.added:
                _add(disk, source, place)
        except OSError as error:
            raise GuestError(f"{error.filename}: {error.strerror}") from error
        return disk.to_bytes()

    def _init(self) -> str:
        return _INIT.format(
            mounts=_lines(_MOUNT.format(tag=tag, place=place) for tag, place in self.mounts),
            unmounts=_lines(f"umount {place}" for _, place in self.mounts),
            command=shlex.join(self.command) or _SHELL,
            said=STATUS,
        )


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _add(disk: Initramfs, source: Path, place: str) -> None:
    """A file, or a folder with all that is in it; links stay links."""
    if not source.is_dir():
        disk.add(place, source.read_bytes())
        return
    disk.folder(place)
    for entry in sorted(source.iterdir()):
        inner = f"{place}/{entry.name}"
        if entry.is_symlink():
            disk.link(inner, str(entry.readlink()))
        elif entry.is_dir() or entry.is_file():
            _add(disk, entry, inner)
