"""``spe-unicorn linux``: a command in a Linux guest."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from spe_unicorn.cli.commands.run import warn_options
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.messages import say
from spe_unicorn.cli.run.options import common_options
from spe_unicorn.cli.run.run_command import run_command
from spe_unicorn.cli.run.settings import Settings

if TYPE_CHECKING:
    from spe_unicorn.session.linux.watch import Watch
    from spe_unicorn.session.machine import Machine

NO_STATUS, COMPLAINTS = 4, 5
"""Exit statuses: the guest ended before its command did, or its kernel reported something."""
_RAM = 512 << 20
_FLAVOUR = "standard"
_TOOLS = ("busybox-static",)
_SHARING = ("virtio_mmio", "9pnet_virtio", "9p")
_DISK = ("virtio_mmio", "virtio_blk")
_DRIVER = "arm_spe_pmu"


@dataclass(frozen=True)
class _Wanted:
    """What the options that are this command's own say."""

    add: tuple[tuple[Path, str], ...]
    module: tuple[str, ...]
    modules: Path | None
    out: Path | None
    busybox: Path | None
    suite: str
    cache: Path | None


def _addition(text: str) -> tuple[Path, str]:
    """A file or folder, and its path in the guest. Raises click.BadParameter."""
    name, _, place = text.partition(":")
    source = Path(name)
    if not source.exists():
        raise click.BadParameter(f"no file and no folder is called {name!r}")
    place = place or f"/root/{source.resolve().name}"
    if not place.startswith("/") or ".." in place.split("/"):
        raise click.BadParameter(f"{place!r} is no path in the guest: it begins with /")
    return source, place


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@run_command(
    "spe-unicorn linux -- uname -a\n"
    "spe-unicorn linux --add driver_test --out results -- ./driver_test\n"
    "spe-unicorn linux --kernel arch/arm64/boot/Image --module drivers/perf/arm_spe_pmu.ko"
)
@click.option(
    "--add",
    type=_addition,
    multiple=True,
    metavar="PATH[:GUEST]",
    help="Put a file, or a folder with all that is in it, into the guest, as /root/NAME or as"
    " GUEST. Repeatable.",
)
@click.option(
    "--module",
    multiple=True,
    metavar="FILE|NAME",
    help="Load a module, after those that it needs, before the command. Repeatable.",
)
@click.option(
    "--modules",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where the modules of your --kernel are, such as its build folder.",
)
@click.option(
    "--out",
    type=_FOLDER,
    metavar="FOLDER",
    help="What the guest writes below /out is in this folder at once, by 9P.",
)
@click.option(
    "--busybox",
    type=_FILE,
    metavar="FILE",
    help="A static arm64 busybox to use in place of Debian's.",
)
@click.option(
    "--suite", default="bookworm", show_default=True, metavar="RELEASE", help="Which Debian."
)
@click.option("--cache", type=_FOLDER, metavar="FOLDER", help="Where Debian's packages are kept.")
@common_options(output_required=False)
@warn_options
def linux(
    *,
    add: tuple[tuple[Path, str], ...],
    module: tuple[str, ...],
    modules: Path | None,
    out: Path | None,
    busybox: Path | None,
    suite: str,
    cache: Path | None,
    firmware: str | None,
    arguments: tuple[str, ...],
    **options: Any,
) -> None:
    """Boot Linux, run COMMAND in it as root, and end with its exit status.

    Without --kernel it is Debian's kernel with its SPE driver, which apt fetches once. Without
    COMMAND it is a shell. Put -- before COMMAND. --initrd is a file whose contents are in the
    guest, too.

    Exit status: the command's; 4 if the guest ended before it; 5 if the kernel reported a warning,
    an oops, a stall or the like; others as of "run".
    """
    wanted = _Wanted(add, module, modules, out, busybox, suite, cache)
    command = () if firmware is None else (firmware, *arguments)
    source = click.get_current_context().get_parameter_source
    if source("ram") is not ParameterSource.COMMANDLINE:
        options["ram"] = _RAM
    sys.exit(_boot(wanted, command, options))


def _named_command() -> None:
    for parameter in linux.params:
        if parameter.name == "firmware":
            parameter.metavar = "[COMMAND]"


_named_command()


def _boot(wanted: _Wanted, command: Sequence[str], options: dict[str, Any]) -> int:
    """Make the guest and run it; the exit status."""
    from spe_unicorn.cli.run.session import run_session
    from spe_unicorn.session.linux.archive import ArchiveError, GuestError
    from spe_unicorn.session.linux.guest import ENDING, SETTINGS
    from spe_unicorn.session.linux.watch import Watch

    watch = Watch()

    def attach(machine: Machine) -> None:
        machine.console.written.connect(watch.read)

    text = options["append"]
    options["append"] = f"console=ttyAMA0 {ENDING} {SETTINGS if text is None else text}"
    with tempfile.TemporaryDirectory(prefix="spe-unicorn-") as folder:
        disk = Path(folder, "initrd")
        try:
            disk.write_bytes(_initrd(wanted, command, options))
        except (ArchiveError, GuestError, OSError) as error:
            raise UsageProblem(str(error)) from None
        options |= {"initrd": str(disk), "no_reboot": True}
        status = run_session(Settings.of(firmware=None, arguments=(), **options), attach)
    return _verdict(watch, status)


def _initrd(wanted: _Wanted, command: Sequence[str], options: dict[str, Any]) -> bytes:
    """The initial RAM disk; ``options`` get a kernel and the shared folder."""
    from spe_unicorn.compiled.cache import place
    from spe_unicorn.session.linux.archive import fetch
    from spe_unicorn.session.linux.guest import Contents
    from spe_unicorn.session.linux.modules import Modules

    modules = list(wanted.module)
    folders = [] if wanted.modules is None else [wanted.modules]
    cache = wanted.cache or place().expanduser().parent / "linux"
    busybox = wanted.busybox
    own = options["kernel"] is not None
    if not own or busybox is None:
        flavours = () if own else (_FLAVOUR,)
        packages = fetch(cache / ("tools" if own else "kernel"), wanted.suite, flavours, _TOOLS)
        busybox = busybox or packages.file("usr/bin/busybox", "bin/busybox")
        if not own:
            options["kernel"] = str(packages.kernel(_FLAVOUR))
            folders.append(packages.modules(_FLAVOUR))
            shares = bool(wanted.out or options["share"])
            needed = _SHARING * shares + _DISK * bool(options["drive"])
            modules = [*needed, *(modules or [_DRIVER])]
    mounts = []
    if wanted.out is not None:
        wanted.out.mkdir(parents=True, exist_ok=True)
        mounts.append((f"share{len(options['share'])}", "/out"))
        options["share"] = (*options["share"], str(wanted.out))
    contents = Contents(
        busybox.read_bytes(), command, Modules(folders).closure(modules), wanted.add, mounts
    )
    given = Path(options["initrd"]).read_bytes() if options["initrd"] else b""
    return given + bytes(-len(given) % 4) + contents.to_bytes()


def _verdict(watch: Watch, status: int) -> int:
    """The exit status of the whole, once the run has ended with ``status``."""
    if watch.complaints:
        say("spe-unicorn linux: the guest's kernel reported:\n")
        for line in watch.complaints:
            say(f"  {line}\n")
        return status or COMPLAINTS
    if status or watch.status is not None:
        return status or int(watch.status or 0)
    say("spe-unicorn linux: the guest ended before its command did\n")
    return NO_STATUS
