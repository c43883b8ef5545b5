"""How a guest reaches folders of the host: by virtiofs, 9P, a disk, or a copy in its RAM disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.kernel_image import parse_kernel
from spe_unicorn.machine.storage.backing import VIRTIOFS, split_read_only
from spe_unicorn.session.linux import disks, steps
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.modules import Modules, module_name, unpacked
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
    "virtiofs": b"virtiofs",
    "virtio_blk": b"virtio_blk",
    "ext4": b"EXT4-fs",
    "ext2": b"EXT2-fs",
}
"""Words that a kernel holds if a module is built in."""
_VERSION = re.compile(rb"(?:vermagic=|Linux version )(\d+)\.(\d+)")
"""What a module, and a kernel, says of the kernel's version."""
_MAPPED = (6, 6)
"""The Linux from which on a file of virtiofs may be mapped that is written past the cache. Since
6.8 one of 9P is written by 4 KiB, or slowly."""
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
    def fast_virtiofs(self) -> bool:
        """Whether it has virtiofs, and writes more by it in the same time than by 9P."""
        if not self.has("virtiofs"):
            return False
        module = self.modules.file("virtiofs")
        try:
            data = self._built_in if module is None else unpacked(module)
        except LoadError:  # which the machine says with the name of the file
            return False
        found = _VERSION.search(data)
        return found is not None and (int(found[1]), int(found[2])) >= _MAPPED

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
    by_9p = (wanted.root is not None or bool(wanted.shared)) and able.has("9p")
    shares = list(wanted.shared)
    to_root = b""
    if wanted.root is not None and by_9p:
        to_root = steps.root(f"share{len(shares)}")
        shares.append(wanted.root)
    mounted = len(shares)
    way = _way(able) if wanted.out or wanted.mounts or wanted.told else None
    if way is None:
        return _without_sharing(wanted, able, shares, to_root, by_9p=by_9p)
    mount, behind, needed = way

    def mounts(text: str, where: str) -> bytes:
        shares.append(text + behind)
        return mount(f"share{len(shares) - 1}", where)

    told = b"" if wanted.told is None else telling(partial(mounts, str(wanted.told)))
    mounting = b"".join(mounts(text, where) for text, where in wanted.mounts)
    if wanted.out is not None:
        mounting += mounts(str(wanted.out), "/out")
    modules = (*_SHARING * by_9p, *needed, *_DISK * bool(wanted.drives))
    found = Stored(modules, tuple(shares), mounted, to_root, mounting, told)
    return found if to_root or wanted.root is None else _with_root(found, wanted.root, able)


_Way = tuple[Callable[[str, str], bytes], str, Sequence[str]]
"""The step that mounts a folder, what is behind its name in ``--share``, and modules."""


def _way(able: Able) -> _Way | None:
    """How a guest has folders that it writes to; None for a guest that has no way."""
    if not able.fast_virtiofs and able.has("9p"):
        return steps.share, "", _SHARING
    if able.has("virtiofs"):
        return steps.file_system, VIRTIOFS, ("virtio_mmio", "virtiofs")
    return None


def _with_root(stored: Stored, text: str, able: Able) -> Stored:
    """The same with a copy of a folder as the root: on a disk, else in the RAM disk."""
    root, system = _folder(text), able.disk
    if system is None:
        _check_small(root)
        return replace(stored, added=((root, "/"), *stored.added))
    modules = dict.fromkeys((*stored.modules, *_DISK, _CHECKSUM, system))
    return replace(stored, modules=tuple(modules), to_root=steps.root_disk(disks.ROOT), root=root)


def _without_sharing(
    wanted: Wanted, able: Able, shares: Sequence[str], to_root: bytes, *, by_9p: bool
) -> Stored:
    """A disk for ``/out``; what is only read is in the RAM disk."""
    added = [(Path(split_read_only(text)[0]), where) for text, where in wanted.mounts]
    system = able.disk if wanted.out is not None else None
    if wanted.out is not None and system is None:
        raise GuestError(
            f"{able.kernel} has no virtiofs and no 9p, by which folders are shared, and no"
            " virtio_blk with ext4, by which a disk would be: build one of them in, or name its"
            " modules by --modules or --module"
        )
    mounting = b"" if wanted.out is None else steps.disk(disks.OUT, "/out")
    modules = _SHARING * by_9p + _DISK * bool(wanted.drives or system)
    modules += (_CHECKSUM, system) if system else ()
    found = Stored(
        modules, tuple(shares), len(shares), to_root, mounting, added=added, out=wanted.out
    )
    return found if to_root or wanted.root is None else _with_root(found, wanted.root, able)


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
