"""``spe-unicorn linux``: a command in a Linux guest, or many."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from spe_unicorn.cli.commands.run import warn_options
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import Whole
from spe_unicorn.cli.run.messages import say
from spe_unicorn.cli.run.options import common_options
from spe_unicorn.cli.run.run_command import run_command
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.snapshots import Restored

if TYPE_CHECKING:
    from spe_unicorn.session.linux.planned import Planned, Wanted
    from spe_unicorn.session.linux.starts import Result
    from spe_unicorn.session.linux.watch import Watch
    from spe_unicorn.session.machine import Machine
    from spe_unicorn.symbols.choice import SymbolChoice

FAILED, NO_STATUS, COMPLAINTS = 1, 4, 5
"""Exit statuses: tests failed; the guest ended before its command; its kernel complained."""
_SECONDS = 120.0
"""Seconds of the host that a test may take."""
_TAIL = 20
"""Lines of a console that are shown of a test that failed."""
_MISUSES = 3
"""Mistakes in how the guest programs SPE that are shown of a test."""
_WRITTEN = {"output", "json", "coverage", "timeline", "trace", "warn_format", "snapshot"}
_LED = {"gdb", "until", "restore", "snapshot_at", "console", "secure_console", "virtio_console"}
_OF_ONE_RUN = _WRITTEN | _LED
"""Options that go with one command and not with many."""


def _addition(text: str) -> tuple[Path, str]:
    """A file or folder, and its path in the guest. Raises click.BadParameter."""
    from spe_unicorn.session.linux.archive import GuestError
    from spe_unicorn.session.linux.planned import addition

    try:
        return addition(text)
    except GuestError as error:
        raise click.BadParameter(str(error)) from None


def _busybox(text: str) -> str:
    """A file, or the word for none. Raises click.BadParameter."""
    from spe_unicorn.session.linux.planned import NO_BUSYBOX

    if text != NO_BUSYBOX and not Path(text).is_file():
        raise click.BadParameter(f"file {text!r} does not exist")
    return text


_FOLDER = click.Path(file_okay=False, path_type=Path)


@run_command(
    "spe-unicorn linux -- uname -a\n"
    "spe-unicorn linux --add driver_test --out results -- ./driver_test\n"
    "spe-unicorn linux --kernel arch/arm64/boot/Image --module drivers/perf/arm_spe_pmu.ko\n"
    "spe-unicorn linux --matrix tests/ --out results --junit results.xml"
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
    "--root",
    metavar="FOLDER[,readonly]",
    help="Have a folder of the host as the guest's root, by 9P; without 9P a copy on a disk.",
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
    help="What the guest writes below /out is in this folder at once, by 9P; without 9P it is"
    " there at the end, by a disk.",
)
@click.option(
    "--from",
    "point",
    metavar="boot|modules|COMMAND",
    help="Start from a snapshot, kept from the first time: before modules are loaded, after them,"
    " or after a command.",
)
@click.option(
    "--matrix",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|FOLDER",
    help="Run each command of a file, or each program of a folder, from the snapshot, and print"
    " TAP.",
)
@click.option(
    "--junit", type=click.Path(path_type=Path), metavar="FILE", help="Of --matrix: JUnit's XML."
)
@click.option(
    "--processes", type=Whole(min=1), metavar="N", help="Of --matrix: how many tests at a time."
)
@click.option(
    "--kvm",
    is_flag=True,
    help="Run COMMAND in a virtual machine of the guest's KVM, which gets EL2 for it.",
)
@click.option(
    "--kvm-kernel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Of --kvm: the virtual machine's kernel, or firmware, in place of the guest's kernel.",
)
@click.option(
    "--kvm-under",
    metavar="TEXT",
    help="Of --kvm: a program of the guest that runs the virtual machine, such as spe_client with"
    " its arguments.",
)
@click.option(
    "--busybox",
    type=_busybox,
    metavar="FILE|none",
    help="A static arm64 busybox in place of Debian's; none: no program but ours and yours.",
)
@click.option(
    "--suite", default="bookworm", show_default=True, metavar="RELEASE", help="Which Debian."
)
@click.option("--cache", type=_FOLDER, metavar="FOLDER", help="Where Debian's packages are kept.")
@common_options(output_required=False)
@warn_options
def linux(
    *,
    matrix: Path | None,
    junit: Path | None,
    processes: int | None,
    firmware: str | None,
    arguments: tuple[str, ...],
    **options: Any,
) -> None:
    """Boot Linux, run COMMAND in it as root, and end with its exit status.

    Without --kernel it is Debian's kernel with its SPE driver, which apt fetches once. Without
    COMMAND it is a shell. Put -- before COMMAND. --initrd is a file whose contents are in the
    guest, too.

    Exit status: the command's; of --matrix 0, or 1 if a test fails; 4 if the guest ended before
    the command; 5 if the kernel reported a warning, an oops, a stall or the like; others as of
    "run".
    """
    command = () if firmware is None else (firmware, *arguments)
    context = click.get_current_context()
    given = {n for n in options if context.get_parameter_source(n) is ParameterSource.COMMANDLINE}
    with _refused():
        from spe_unicorn.session.linux.guest import command_line
        from spe_unicorn.session.linux.planned import KVM_RAM, RAM

        options["append"] = command_line(options["append"])
        _with_kvm(options, command, given, many=matrix is not None)
        if "ram" not in given:
            options["ram"] = RAM if options["virtual"] is None else KVM_RAM
        if matrix is None:
            if junit is not None or processes is not None:
                raise UsageProblem("--junit and --processes go with --matrix")
            with _with_names(_wanted(options, command), options) as wanted:
                sys.exit(_one(wanted, options))
        if command:
            raise UsageProblem("--matrix has the commands: it goes with none of its own")
        for name in sorted(_OF_ONE_RUN & given):
            raise UsageProblem(f"--{name.replace('_', '-')} does not go with --matrix")
        sys.exit(_many(matrix, options, junit, processes or os.cpu_count() or 1))


def _with_kvm(
    options: dict[str, Any], command: Sequence[str], given: Set[str], *, many: bool
) -> None:
    """Put the virtual machine that options ask for into them, in place of those options."""
    from spe_unicorn.session.linux.planned import Virtual

    wanted, kernel, under = (options.pop(name) for name in ("kvm", "kvm_kernel", "kvm_under"))
    if not wanted and (kernel is not None or under is not None):
        raise UsageProblem("--kvm-kernel and --kvm-under go with --kvm")
    options["virtual"] = Virtual(kernel, shlex.split(under or "")) if wanted else None
    if wanted and not (command or kernel or many):
        raise UsageProblem("--kvm needs a command: nothing can be typed to a virtual machine")
    if wanted and "el" not in given:
        options["el"] = 2


def _named_command() -> None:
    for parameter in linux.params:
        if parameter.name == "firmware":
            parameter.metavar = "[COMMAND]"


_named_command()


@contextmanager
def _refused() -> Iterator[None]:
    """Say what keeps a guest from being made as other commands do."""
    from spe_unicorn.cores.profile import CoreError
    from spe_unicorn.machine.boot.image import LoadError
    from spe_unicorn.machine.options import OptionError
    from spe_unicorn.session.linux.archive import ArchiveError, GuestError
    from spe_unicorn.symbols.errors import ElfError

    wrong = (ArchiveError, GuestError, OSError, CoreError, ElfError, LoadError, OptionError)
    try:
        yield
    except wrong as error:
        raise UsageProblem(str(error)) from None


def _wanted(options: dict[str, Any], command: Sequence[str]) -> Wanted:
    """What the options that are this command's own say; they are taken out of ``options``."""
    from spe_unicorn.session.linux.planned import Wanted, check_kernel

    if options["kernel"] is not None:
        check_kernel(Path(options["kernel"]))
    own = ("add", "module", "modules", "root", "out", "busybox", "suite", "cache")
    wanted = Wanted(
        command,
        kernel=None if options["kernel"] is None else Path(options["kernel"]),
        initrd=None if options["initrd"] is None else Path(options["initrd"]),
        shared=options["share"],
        drives=len(options["drive"]),
        point=options.pop("point"),
        virtual=options.pop("virtual"),
        **{name: options.pop(name) for name in own},
    )
    if wanted.out is not None:
        wanted.out.mkdir(parents=True, exist_ok=True)
    return wanted


@contextmanager
def _settings(plan: Planned, options: dict[str, Any]) -> Iterator[Settings]:
    """The run of a guest; its RAM disk is a file for so long."""
    with tempfile.TemporaryDirectory(prefix="spe-unicorn-") as folder:
        disk = Path(folder, "initrd")
        disk.write_bytes(plan.initrd)
        options |= {"initrd": str(disk), "kernel": str(plan.kernel), "share": plan.stored.share}
        options["drive"] = (*options["drive"], *plan.stored.drives(Path(folder)))
        yield Settings.of(firmware=None, arguments=(), **{**options, "no_reboot": True})


def _one(wanted: Wanted, options: dict[str, Any]) -> int:
    """Make the guest and run its command; the exit status."""
    from spe_unicorn.cli.run.session import run_session
    from spe_unicorn.session.linux import steps
    from spe_unicorn.session.linux.booted import of_machine
    from spe_unicorn.session.linux.planned import planned
    from spe_unicorn.session.linux.watch import Watch
    from spe_unicorn.session.snapshot_file import read_snapshot

    watch = Watch()
    plan = planned(wanted)
    given = _placed_later(wanted, plan, options)
    words = b""
    if wanted.point is not None:
        words = steps.typed(plan.after + steps.run(wanted.words(wanted.command)))

    def attach(machine: Machine) -> None:
        machine.console.written.connect(watch.read)
        if words:
            machine.console.type(words)
        elif wanted.told is not None and plan.stored.telling:
            machine.console.written.connect(_names_taker(machine, watch, wanted.told, plan, given))

    with _settings(plan, options) as settings:
        if wanted.point is not None:
            file = _snapshot(wanted, plan, settings)
            settings = _names(wanted, plan, settings, file, given)
            snapshot = of_machine(read_snapshot(file), settings.machine)
            settings = replace(settings, restored=Restored(str(file), snapshot, settings.machine))
        with _emptied(settings, plan.stored.out):
            ended = run_session(settings, attach)
        # firmware of a virtual machine ends the whole machine by semihosting, with its own status
        if wanted.virtual is not None and wanted.virtual.kernel and watch.status is None:
            watch.status = ended
        return _verdict(watch, ended)


@contextmanager
def _emptied(settings: Settings, out: Path | None) -> Iterator[None]:
    """Have what the guest leaves on a disk that is /out in that folder, however its run ends."""
    from spe_unicorn.session.linux.disks import take_out

    try:
        yield
    finally:
        said = None if out is None else take_out(settings.machine.drive[-1], out)
        if said is not None:
            say(f"spe-unicorn linux: {said}\n")


def _snapshot(wanted: Wanted, plan: Planned, settings: Settings) -> Path:
    """The snapshot in which the guest waits."""
    from spe_unicorn import __version__
    from spe_unicorn.session.linux.booted import snapshot_file

    folder = wanted.snapshots(__version__)
    return snapshot_file(settings.machine, plan.stored.mounted, folder, partial(_tell, settings))


def _tell(settings: Settings, text: str) -> None:
    """Say what goes on before the command runs."""
    if not settings.quiet:
        say(f"spe-unicorn linux: {text}\n")


@contextmanager
def _with_names(wanted: Wanted, options: Mapping[str, Any]) -> Iterator[Wanted]:
    """The guest, which has a folder to tell the names of its kernel and modules, for --warn."""
    if options["warn"] is None:
        yield wanted
        return
    with tempfile.TemporaryDirectory(prefix="spe-unicorn-") as folder:
        yield replace(wanted, told=Path(folder))


def _placed_later(
    wanted: Wanted, plan: Planned, options: dict[str, Any]
) -> tuple[SymbolChoice, ...]:
    """The files of --symbols, taken out of ``options``, where the guest tells where they are."""
    if wanted.told is None or not plan.stored.telling:
        return ()
    given: tuple[SymbolChoice, ...] = options["symbols"]
    for choice in given:
        if not Path(choice.path).is_file():
            raise UsageProblem(f"no file is called {choice.path!r}")
    options["symbols"] = ()
    return given


def _names(
    wanted: Wanted,
    plan: Planned,
    settings: Settings,
    snapshot: Path,
    given: Sequence[SymbolChoice],
) -> Settings:
    """The run from a snapshot, with the names and lines of what the guest tells, if it does."""
    from spe_unicorn.session.linux.lines import placed
    from spe_unicorn.session.linux.names import kernel_names

    if wanted.told is None or not plan.stored.telling:
        return settings
    tell = partial(_tell, settings)
    file = kernel_names(settings.machine, snapshot, plan.stored.telling, wanted.told, tell)
    return replace(settings, symbols=placed(file, plan.modules, given, wanted.told))


def _names_taker(
    machine: Machine, watch: Watch, folder: Path, plan: Planned, given: Sequence[SymbolChoice]
) -> Callable[[bytes], None]:
    """What takes the names that a guest tells before its command, once it has told them.

    A guest can say so and have told nothing, or what is no listing: there are no names then.
    """
    from spe_unicorn.session.linux.archive import GuestError
    from spe_unicorn.session.linux.lines import placed
    from spe_unicorn.session.linux.names import told
    from spe_unicorn.symbols.errors import ElfError
    from spe_unicorn.symbols.kallsyms import read_names

    waiting = [told(folder)]

    def take(_: bytes) -> None:
        if not waiting or not watch.copied:
            return
        listing = waiting.pop()
        try:
            names = read_names(listing)
        except ElfError as error:
            say(f"spe-unicorn linux: the guest does not tell its kernel's names: {error}\n")
            return
        try:
            for choice in placed(listing, plan.modules, given, folder)[:-1]:
                machine.board.names.add(read_names(Path(choice.path)), choice.address)
        except (ElfError, GuestError, OSError) as error:
            say(f"spe-unicorn linux: {error}\n")
        machine.board.names.add(names)

    return take


def _many(path: Path, options: dict[str, Any], junit: Path | None, processes: int) -> int:
    """Run each test of a file or folder; the exit status."""
    from spe_unicorn.report.campaigns.junit import suite_of
    from spe_unicorn.session.linux.matrix import TESTS, read_tests, run_all
    from spe_unicorn.session.linux.planned import MODULES, planned
    from spe_unicorn.session.linux.starts import Limits, Point

    wanted = _wanted(options, ())
    if wanted.virtual is not None and path.is_dir():
        raise UsageProblem("--kvm runs the commands of a file: a folder is the guest's alone")
    tests = [replace(test, words=wanted.words(test.words)) for test in read_tests(path)]
    wanted = replace(wanted, point=wanted.point or MODULES)
    if path.is_dir():
        wanted = replace(wanted, mounts=((f"{path.resolve()},readonly", TESTS),))
    results = []
    with _with_names(wanted, options) as wanted:
        plan = planned(wanted)
        given = _placed_later(wanted, plan, options)
        with _settings(plan, options) as settings:
            limits = Limits(settings.max_insns, settings.timeout or _SECONDS)
            file = _snapshot(wanted, plan, settings)
            strict, misuse = settings.warn == "error", settings.warn is not None
            names = tuple(_names(wanted, plan, settings, file, given).symbols) if misuse else ()
            point = Point(settings.machine, file, plan.after, wanted.out, misuse, names)
            click.echo(f"TAP version 13\n1..{len(tests)}")
            for number, result in enumerate(run_all(point, tests, limits, processes), 1):
                if strict and result.why is None and result.misuses:
                    said = result.misuses[0].splitlines()[0]
                    result = replace(result, why=f"SPE is misused: {said}")
                click.echo(_tap(number, result))
                results.append(result)
    failed = sum(result.why is not None for result in results)
    spent = sum(result.seconds for result in results)
    click.echo(
        f"# {len(results)} tests, {failed} failed, {sum(r.skipped for r in results)} skipped;"
        f" {spent:.1f} s of CPU, {spent / len(results):.2f} s a test"
    )
    if junit is not None:
        junit.write_text(suite_of(path.name, map(_case, results)), encoding="utf-8")
    return FAILED if failed else 0


def _tap(number: int, result: Result) -> str:
    """The lines of a test; of one that failed with the end of its console."""
    from spe_unicorn.output.names import printable

    name = printable(result.command.name).replace("#", "\\#")
    shown = result.misuses[:_MISUSES]
    said = [f"misuse: {line}" for misuse in shown for line in misuse.splitlines()]
    if len(shown) < len(result.misuses):
        said.append(f"misuse: and {len(result.misuses) - len(shown)} more")
    if result.why is None:
        verdict = f"ok {number} - {name}" + (" # SKIP it does not apply" if result.skipped else "")
        return "\n".join((verdict, *(f"# {printable(line)}" for line in said)))
    said = [result.why, *said, *result.console.splitlines()[-_TAIL:]]
    return "\n".join((f"not ok {number} - {name}", *(f"# {printable(line)}" for line in said)))


def _case(result: Result) -> Any:
    """A test as JUnit has it."""
    from spe_unicorn.report.campaigns.junit import Case

    failed = None if result.why is None else ("failure", result.why, result.why)
    return Case(result.command.name, failed, result.seconds, result.console)  # type: ignore[arg-type]


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
