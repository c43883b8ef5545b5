"""A guest as it was asked for, and what it comes to: kernel, RAM disk, shared folders, steps."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spe_unicorn.compiled.cache import place
from spe_unicorn.machine.boot.kernel_image import parse_kernel
from spe_unicorn.machine.files import beginning, naming
from spe_unicorn.session.linux import steps
from spe_unicorn.session.linux.archive import GuestError, fetch
from spe_unicorn.session.linux.guest import VMM, Contents, module_path
from spe_unicorn.session.linux.modules import Modules
from spe_unicorn.session.linux.stored import Able, Stored, stored_by
from spe_unicorn.session.linux.virtual import vm_files

BOOT, MODULES = "boot", "modules"
"""Points before and after modules are loaded; any other is a command, after which it is."""
NO_BUSYBOX = "none"
RAM = 512 << 20
"""Bytes of RAM of a guest, if nothing is said of it."""
KVM_RAM = 1 << 30
"""The same of one that runs a virtual machine."""
_KERNELS = (b"\x7fELF", b"\x1f\x8b", b"MZ")
"""How vmlinux, a packed kernel, and one that EFI starts begin."""
_HEADER = 4096
"""Bytes that tell a kernel from others."""
_FLAVOUR = "standard"
_TOOLS = ("busybox-static",)
_DRIVER = "arm_spe_pmu"


def addition(text: str) -> tuple[Path, str]:
    """The file or folder that ``PATH[:GUEST]`` names, and its path in the guest.

    Raises GuestError.
    """
    name, _, where = text.partition(":")
    source = Path(name)
    if not source.exists():
        raise GuestError(f"no file and no folder is called {name!r}")
    where = where or f"/root/{source.resolve().name}"
    if not where.startswith("/") or ".." in where.split("/"):
        raise GuestError(f"{where!r} is no path in the guest: it begins with /")
    return source, where


def check_kernel(file: Path) -> None:
    """Raise GuestError for a file that is no kernel of Linux, LoadError for one of another kind.

    Firmware without a header can be loaded, too; a kernel has one.
    """
    data = beginning(file, _HEADER)
    with naming(file):
        if data.startswith(_KERNELS) or parse_kernel(data, len(data)).has_header:
            return
    raise GuestError(
        f"{file} is no kernel: give arch/arm64/boot/Image of a built tree, or a vmlinuz"
    )


@dataclass(frozen=True)
class Virtual:
    """A virtual machine of the guest's KVM: its kernel, the guest's own for None.

    ``under`` is a program of the guest, with arguments, that runs the virtual machine.
    """

    kernel: Path | None = None
    under: Sequence[str] = ()


@dataclass(frozen=True)
class Wanted:
    """A guest as it was asked for; None is for what is chosen here.

    ``shared`` are the folders that the machine shares besides, ``drives`` how many disks it has,
    and ``mounts`` more folders with the place where the guest has each.
    """

    command: Sequence[str] = ()
    kernel: Path | None = None
    initrd: Path | None = None
    add: Sequence[tuple[Path, str]] = ()
    module: Sequence[str] = ()
    modules: Path | None = None
    root: str | None = None
    out: Path | None = None
    busybox: str | None = None
    suite: str = "bookworm"
    cache: Path | None = None
    shared: Sequence[str] = ()
    drives: int = 0
    mounts: Sequence[tuple[str, str]] = ()
    point: str | None = None
    """Where the guest waits for the steps that follow."""
    virtual: Virtual | None = None
    """The virtual machine in which commands run; None where they run in the guest itself."""

    told: Path | None = None
    """Where the guest tells the names of its kernel, if it can; before the command, or by steps."""

    def words(self, command: Sequence[str]) -> tuple[str, ...]:
        """What the guest runs to have a command run."""
        within = () if self.virtual is None else (*self.virtual.under, VMM)
        return (*within, *command)

    @property
    def folder(self) -> Path:
        """Where packages and snapshots are kept."""
        return self.cache or place().expanduser().parent / "linux"

    def snapshots(self, release: str) -> Path:
        """Where a release of ours keeps its snapshots."""
        return self.folder / "snapshots" / release


@dataclass(frozen=True)
class Planned:
    """What a guest comes to."""

    kernel: Path
    initrd: bytes
    after: bytes
    """The steps that follow where it waits, but for the command."""
    stored: Stored
    modules: Sequence[tuple[str, bytes]] = ()
    """The modules that are loaded, by name."""


def planned(wanted: Wanted) -> Planned:
    """What a guest comes to. Raises GuestError and ArchiveError."""
    kernel, busybox, folders = _files(wanted)
    names = list(wanted.module) or ([] if wanted.kernel is not None else [_DRIVER])
    able = Able(Modules(folders), names, kernel)
    stored = stored_by(wanted, able)
    added = [*stored.added, *wanted.add]
    if wanted.add and not stored.in_ram_disk:
        raise GuestError("--add puts files beside the folder of --root: put them into that folder")
    loaded = able.modules.closure([*filter(able.modules.has, stored.modules), *names])
    loading = b"".join(
        steps.module(module_path(number, name)) for number, (name, _) in enumerate(loaded)
    )
    installing = b"" if busybox is None else steps.do(["/bin/busybox", "--install", "-s", "/bin"])
    known = loading + (stored.telling if wanted.point is None else b"")
    before, after = _parted(wanted.point, installing, known, stored.to_root)
    after += stored.mounting
    if wanted.point is None:
        before, after = before + after + steps.run(wanted.words(wanted.command)), b""
    made: Sequence[tuple[str, bytes]] = ()
    if wanted.virtual is not None:
        if wanted.root is not None:
            raise GuestError("--kvm has its files in the RAM disk: it does not go with --root")
        inner = Contents(b"", busybox, added=added).to_bytes()
        made = vm_files(wanted.virtual.kernel or kernel, inner, installing)
    contents = Contents(before, busybox, loaded, added, made).to_bytes()
    given = b"" if wanted.initrd is None else wanted.initrd.read_bytes()
    disk = given + bytes(-len(given) % 4) + contents
    return Planned(kernel, disk, after, stored, loaded)


def _parted(
    point: str | None, installing: bytes, loading: bytes, to_root: bytes
) -> tuple[bytes, bytes]:
    """The steps before and after the point."""
    if point is None:
        return installing + loading + to_root, b""
    if point == BOOT:
        return installing + steps.ready(), loading + to_root
    if point == MODULES:
        return installing + loading + steps.ready(), to_root
    words = shlex.split(point)
    return installing + loading + to_root + steps.do(words) + steps.ready(), b""


def _files(wanted: Wanted) -> tuple[Path, bytes | None, list[Path]]:
    """The kernel, busybox, and the folders with its modules; fetched where they are not given."""
    folders = [] if wanted.modules is None else [wanted.modules]
    own = wanted.kernel
    none = wanted.busybox == NO_BUSYBOX or (wanted.busybox is None and wanted.root is not None)
    given = None if none or wanted.busybox is None else Path(wanted.busybox)
    if own is not None and (none or given is not None):
        return own, None if given is None else given.read_bytes(), folders
    flavours = () if own is not None else (_FLAVOUR,)
    where = wanted.folder / ("tools" if own is not None else "kernel")
    packages = fetch(where, wanted.suite, flavours, _TOOLS)
    if not none and given is None:
        given = packages.file("usr/bin/busybox", "bin/busybox")
    if own is None:
        own = packages.kernel(_FLAVOUR)
        folders.append(packages.modules(_FLAVOUR))
    return own, None if given is None else given.read_bytes(), folders
