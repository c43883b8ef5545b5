"""How a guest reaches folders of the host: by 9P, by a disk, or with a copy in its RAM disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.kernel_image import parse_kernel
from spe_unicorn.machine.storage.backing import split_read_only
from spe_unicorn.session.linux import disks, steps
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.modules import Modules, module_name
from spe_unicorn.session.linux.names import telling

if TYPE_CHECKING:
    from spe_unicorn.session.linux.planned import Wanted

_SHARING = ("virtio_mmio", "9pnet_virtio", "9p")
_DISK = ("virtio_mmio", "virtio_blk")
_CHECKSUM = "crc32c_generic"
"""What ext4 asks the kernel for by another name than that of the module."""
_FILES_ON_DISK = ("ext4", "ext2")
"""File systems that read what is made here; one is enough."""
_IN_KERNEL = {
    "9p": b"9p2000.L",
    "virtio_blk": b"virtio_blk",
    "ext4": b"EXT4-fs",
    "ext2": b"EXT2-fs",
}
"""Words that a kernel holds if a module is built in."""
_LARGEST_KERNEL = 1 << 30
_MOST_ROOT = 256 << 20
"""Bytes of a root that is put into the RAM disk."""


class Able:
    """What a guest can do, by modules or by the kernel itself."""

    def __init__(self, modules: Modules, names: Sequence[str], kernel: Path) -> None:
        self.modules = modules
        self._named = {module_name(Path(name)) for name in names}
        self.kernel = kernel

    def has(self, name: str) -> bool:
        """Whether it has a module, or the same built in."""
        if name in self._named or self.modules.has(name):
            return True
        try:
            return _IN_KERNEL[name] in self._built_in
        except LoadError:  # which the machine says with the name of the file
            return True

    @cached_property
    def _built_in(self) -> bytes:
        return parse_kernel(self.kernel.read_bytes(), _LARGEST_KERNEL).data

    @property
    def disk(self) -> str | None:
        """A file system for disks that are made here; None if it can use no such disk."""
        systems = filter(self.has, _FILES_ON_DISK)
        return next(systems, None) if self.has("virtio_blk") else None


@dataclass(frozen=True)
class Stored:
    """What a guest needs for it, and what the machine has then."""

    modules: Sequence[str] = ()
    """Modules that are loaded where the kernel has them as such."""
    share: tuple[str, ...] = ()
    """The folders that the machine shares."""
    mounted: int = 0
    """How many of them may be mounted where the guest waits."""
    to_root: bytes = b""
    """The steps that go to the root; those that mount what is not the root; that tell names."""
    mounting: bytes = b""
    telling: bytes = b""
    added: Sequence[tuple[Path, str]] = ()
    """What is put into the RAM disk."""
    root: Path | None = None
    """The folder of which a copy on a disk is the root."""
    out: Path | None = None
    """The folder into which the disk is emptied that is ``/out``."""

    def drives(self, place: Path) -> tuple[str, ...]:
        """Drives, the last that the machine has, whose files are made in ``place``."""
        found = []
        for name, folder in ((disks.ROOT, self.root), (disks.OUT, self.out)):
            if folder is not None:
                found.append(disks.drive_of(name, place))
                disks.make(found[-1], folder if name == disks.ROOT else None)
        return tuple(found)

    @property
    def in_ram_disk(self) -> bool:
        """Whether the guest goes on in its RAM disk."""
        return not self.to_root


def stored_by(wanted: Wanted, able: Able) -> Stored:
    """How a guest reaches what it was asked for. Raises GuestError."""
    folders = (wanted.out, wanted.shared, wanted.mounts, wanted.root, wanted.told)
    if any(folders) and able.has("9p"):
        return _by_9p(wanted)
    return _without_9p(wanted, able)


def _by_9p(wanted: Wanted) -> Stored:
    shares = list(wanted.shared)
    to_root = told = mounting = b""
    if wanted.root is not None:
        to_root = steps.root(f"share{len(shares)}")
        shares.append(wanted.root)
    mounted = len(shares)
    if wanted.told is not None:
        told = telling(f"share{len(shares)}")
        shares.append(str(wanted.told))
    out = [] if wanted.out is None else [(str(wanted.out), "/out")]
    for text, where in (*wanted.mounts, *out):
        mounting += steps.share(f"share{len(shares)}", where)
        shares.append(text)
    modules = (*_SHARING, *_DISK * bool(wanted.drives))
    return Stored(modules, tuple(shares), mounted, to_root, mounting, told)


def _without_9p(wanted: Wanted, able: Able) -> Stored:
    """Disks for the root and for ``/out``; what is only read is in the RAM disk."""
    root = None if wanted.root is None else _folder(wanted.root)
    added = [(Path(split_read_only(text)[0]), where) for text, where in wanted.mounts]
    system = able.disk if root or wanted.out else None
    if wanted.out is not None and system is None:
        raise GuestError(
            f"{able.kernel} has no 9p, by which folders are shared, and no virtio_blk with ext4,"
            " by which a disk would be: build one of them in, or name its modules by --modules or"
            " --module"
        )
    if root is not None and system is None:
        _check_small(root)
        added.insert(0, (root, "/"))
        root = None
    to_root = b"" if root is None else steps.root_disk(disks.ROOT)
    mounting = b"" if wanted.out is None else steps.disk(disks.OUT, "/out")
    modules = _DISK * bool(wanted.drives or system) + ((_CHECKSUM, system) if system else ())
    shares = tuple(wanted.shared)
    return Stored(
        modules, shares, len(shares), to_root, mounting, added=added, root=root, out=wanted.out
    )


def _folder(root: str) -> Path:
    """The folder of a root. Raises GuestError."""
    folder = Path(split_read_only(root)[0])
    if not folder.is_dir():
        raise GuestError(f"{folder} is no folder")
    return folder


def _check_small(folder: Path) -> None:
    """Raise GuestError for a root that is too large for the RAM disk."""
    size = sum(f.lstat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink())
    if size > _MOST_ROOT:
        raise GuestError(
            f"the kernel has no 9p and no virtio_blk with ext4, and {folder} has {size >> 20} MiB,"
            f" of which a RAM disk takes {_MOST_ROOT >> 20}"
        )
