"""One run from the command line: a machine, and all that is said of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spe_unicorn.arch.counter import FREQUENCY
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.console import Console, Lines
from spe_unicorn.cli.run.files import STANDARD_OUTPUT, Files, Happening, OutputFile, complaint
from spe_unicorn.cli.run.progress import Progress
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.snapshots import check_target, run_with_snapshot
from spe_unicorn.cli.run.stopping import (
    ASLEEP_STATUS,
    BAD_FILE_STATUS,
    CLOSED_STATUS,
    FAILED_STATUS,
    INTERRUPTED_STATUS,
    KILLED_STATUS,
    LIMIT_STATUS,
    MISUSE_STATUS,
    OUTPUT,
    Reason,
    Stopper,
)
from spe_unicorn.cli.run.summary import Report, json_object, summary
from spe_unicorn.cli.run.symbols import add_symbols
from spe_unicorn.cli.run.traces import Traces
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.compiled import say_nothing
from spe_unicorn.cores.profile import CoreError
from spe_unicorn.debug.report import failure_report
from spe_unicorn.debug.whereabouts import Whereabouts, whereabouts, whereabouts_text
from spe_unicorn.host import ports
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.plan import boot_plan, machine_dtb
from spe_unicorn.machine.console_ends import ConsoleEnds, drop, end_of_input, nobody
from spe_unicorn.machine.options import OptionError
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.outcome import Outcome
from spe_unicorn.session.point import PointError
from spe_unicorn.session.records import image_info
from spe_unicorn.session.reproduce import command_words
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.unit import StatisticalProfilingUnit

if TYPE_CHECKING:  # a run that nobody debugs needs no debugger
    from spe_unicorn.debug.gdb.connection import Listener
    from spe_unicorn.debug.gdb.debugger import Debugger
    from spe_unicorn.debug.misuse_found import Misuse


def run_session(
    settings: Settings, attach: Callable[[Machine], None] = lambda machine: None
) -> int:
    """Run firmware as ``settings`` say; the exit status.

    ``attach`` is called with the machine before it runs, and may raise UsageProblem, too.
    Raises UsageProblem, before anything has run, for what cannot be run or written.
    """
    if settings.dump_dtb is not None:
        _dump_dtb(settings, settings.dump_dtb)
        return 0
    with Stopper(settings.timeout) as stopper, _listening(settings) as listener:
        return _Session(settings, stopper, listener, attach).run()


@contextmanager
def _listening(settings: Settings) -> Iterator[Listener | None]:
    """Where GDB connects, from before anything is built or compiled."""
    if settings.gdb is not None and settings.snapshot_at is not None:
        raise UsageProblem("--snapshot-at: under --gdb, GDB says `monitor snapshot save NAME`")
    if settings.gdb is None:
        if settings.gdb_continue:
            raise UsageProblem("--gdb-continue is about the debugger of --gdb, and there is none")
        yield None
        return
    from spe_unicorn.debug.gdb.connection import AddressError, Listener

    try:
        listener = Listener(settings.gdb)
    except AddressError as error:
        raise UsageProblem(f"--gdb: {error}") from error
    try:
        waits = "" if settings.gdb_continue else "waiting for GDB, "
        _print(f"spe-unicorn: {waits}say to it: target remote {listener.address}\n")
        yield listener
    finally:
        listener.close()


def _dump_dtb(settings: Settings, path: str) -> None:
    """Write the device tree that the guest would find."""
    try:
        machine = settings.machine
        dtb = boot_plan(machine).dtb if machine.names_a_program else machine_dtb(machine)
    except (CoreError, LoadError) as error:
        raise UsageProblem(spelled(str(error))) from error
    problems: list[str] = []
    files = Files(_inputs(settings), lambda name, error: problems.append(complaint(name, error)))
    files.binary(path).write(dtb)
    files.close()
    if problems:
        raise UsageProblem(problems[0])


def _inputs(settings: Settings) -> tuple[str, ...]:
    """The files that the run reads."""
    options = settings.machine
    names = (
        *(options.firmware, options.kernel, options.bios),
        *(options.initrd, options.dtb, options.core),
        *(choice.path for choice in settings.symbols),
    )
    return tuple(name for name in names if isinstance(name, str) and os.path.isfile(name))


class _Session:
    """The board, and what is attached to it."""

    def __init__(
        self,
        settings: Settings,
        stopper: Stopper,
        listener: Listener | None,
        attach: Callable[[Machine], None],
    ) -> None:
        self.settings = settings
        self.stopper = stopper
        self.summary_follows = not settings.quiet
        """Whether a summary is still to come, which names the first output that failed."""
        if settings.quiet:
            say_nothing()
        try:
            self.machine = Machine(settings.machine, records=False)
        except (CoreError, LoadError, OptionError) as error:
            raise UsageProblem(spelled(str(error))) from error
        check_target(settings.snapshot_at, settings.snapshot)
        if settings.snapshot_at is not None:
            try:
                self.machine.place(settings.snapshot_at)
            except PointError as error:
                raise UsageProblem(f"--snapshot-at: {error}") from None
        if settings.restored is not None:
            settings.restored.restore(self.machine)
        self.board = self.machine.board
        self.debugger = None if listener is None else self._debugger(listener)
        add_symbols(self.board.names, settings.symbols)
        traced = any(trace.file is None for trace in settings.trace)
        self.progress = Progress(enabled=not settings.quiet and not traced)
        self.files = Files(_inputs(settings), self._on_file_error)
        self.console: Console | None = None
        self.lines: list[Lines] = []
        """Consoles whose lines go to standard error."""
        try:
            self._lead_consoles()
            self._attach_records()
            self.traces = Traces(
                self.machine, settings, lambda name: self.files.text(name).write, self._tell
            )
            attach(self.machine)
            self.machine.observe("misuse", self._on_misuse)
            if settings.warn is not None:
                self.machine.watch_misuse()
            self.json = None if settings.json is None else self.files.text(settings.json)
        except UsageProblem:
            self.files.discard()
            raise

    def _debugger(self, listener: Listener) -> Debugger:
        from spe_unicorn.debug.gdb.surroundings import Surroundings

        stopper = self.stopper
        around = Surroundings(
            say=lambda text: self._say(f"spe-unicorn: {text}\n"),
            stopping=stopper.asked,
            held=self._hold,
            killed=lambda: stopper.ask(Reason("killed", "GDB killed the run", KILLED_STATUS)),
            why_ended=self._why_ended,
            statuses={
                ports.Ending.LIMIT: LIMIT_STATUS,
                ports.Ending.ASLEEP: ASLEEP_STATUS,
                ports.Ending.FAILED: FAILED_STATUS,
            },
        )
        settings = self.settings
        waits = not settings.gdb_continue
        return self.machine.debug(listener, around, waits=waits, history=settings.history)

    def _say(self, text: str) -> None:
        self.progress.hide()
        _print(text)

    def _hold(self, held: bool) -> None:
        """GDB holds the machine, or lets it go on."""
        self.progress.hide()
        self.stopper.hold_clock(held)

    def _why_ended(self, ending: ports.Ending) -> str:
        if ending is ports.Ending.LIMIT:
            return f"the limit of {self.settings.max_insns} operations was reached"
        if ending is ports.Ending.FAILED:
            return spelled(failure_report(self.board))
        return "the guest waits for an interrupt, and nothing can ever raise one"

    def _lead_consoles(self) -> None:
        write, read = self._console()
        console = self.console
        self.machine.console.lead_to(
            ConsoleEnds(
                write,
                read,
                end_of_input if console is None else console.arrived,
                nobody if console is None else console.wait,
            )
        )
        self.machine.secure_console.lead_to(ConsoleEnds(self._secure_console()))
        self._lead_virtio_console()

    def _lead_virtio_console(self) -> None:
        choice = self.settings.virtio_console
        if not self.settings.machine.virtio_console:
            return
        if choice == "stdio":
            console = self.console or self._terminal()
            if self.console is not None:
                self.machine.console.lead_to(ConsoleEnds(console.write))
            self.console = console
            ends = ConsoleEnds(console.write, arrived=console.arrived, wait=console.wait)
        else:
            ends = ConsoleEnds(self._output(choice, "virtio: "))
        self.machine.virtio_console.lead_to(ends)

    def _console(self) -> tuple[Callable[[bytes], None], Callable[[int], bytes]]:
        """How the guest writes to its console, and reads from it."""
        choice = self.settings.console
        if choice == "none":
            return drop, end_of_input
        if choice != "stdio":
            return self.files.binary(choice.removeprefix("file:")).write, end_of_input
        self.console = self._terminal()
        return self.console.write, self.console.read

    def _terminal(self, *, buffered: bool = True) -> Console:
        return Console(
            sys.stderr if _takes_standard_output(self.settings) else sys.stdout,
            stopping=self.stopper.asked,
            pausing=self._pausing,
            on_error=lambda error: self._on_file_error(_CONSOLE, error),
            before_write=self.progress.hide,
            buffered=buffered and self.debugger is None,
        )

    def _secure_console(self) -> Callable[[bytes], None]:
        """How the guest writes to the second UART."""
        choice = self.settings.secure_console
        if not self.settings.machine.secure:
            if choice is not None:
                raise UsageProblem("--secure-console: the second UART is there with --secure only")
            return drop
        if choice == "stdio":
            return (self.console or self._terminal(buffered=False)).write
        return self._output(choice, "secure: ")

    def _output(self, choice: str | None, prefix: str) -> Callable[[bytes], None]:
        """How a console is written to of which nothing is read."""
        if choice == "none":
            return drop
        if choice is None or choice == "stderr":
            self.lines.append(Lines(prefix, self._on_line))
            return self.lines[-1].write
        return self.files.binary(choice.removeprefix("file:")).write

    def _pausing(self) -> bool:
        """Whether the guest is not to wait for input any longer."""
        wanted = self.debugger is not None and self.debugger.wanted()
        return wanted or self.stopper.asked()

    def _attach_records(self) -> None:
        settings = self.settings
        if settings.output is None:
            if settings.format is not None:
                raise UsageProblem("--format is the format of -o, and there is no -o")
            return
        sampling = settings.machine.sampling
        files, events = self.files.records(
            settings.output,
            settings.format,
            image_info(self.machine.image),
            cpus=len(self.board.pes),
            frequency=FREQUENCY,
            midr=self.board.core.midr,
            period=1 if sampling is None else sampling.period,
            event=None if sampling is None else sampling.event,
            command=tuple(command_words(settings.machine)),
        )
        for pe, file, managed in zip(self.board.pes, files, events, strict=True):
            pe.unit.streamed.connect(file.write)

            def tell(
                event: ManagementEvent,
                _el: int,
                pe: ProcessingElement = pe,
                managed: OutputFile[Happening] = managed,
            ) -> None:
                managed.write((pe.cpu.physical_count(), event.data_lost))

            if isinstance(pe.unit, StatisticalProfilingUnit):
                pe.unit.managed.connect(tell)

    def run(self) -> int:
        """Run to the end, report, and return the exit status."""
        machine, stopper = self.machine, self.stopper
        self.board.slice_ended.connect(self._on_slice)
        stopper.stopped.connect(machine.stop)
        stopper.shown.connect(self._show)
        stopper.pressed.connect(self._press_power_key)
        stopper.start_clock()
        if stopper.reason is not None:
            machine.stop()
        try:
            outcome, problem = self._run_machine()
        except BaseException:
            self.files.close()
            raise
        finally:
            self.progress.hide()
            if self.debugger is not None:
                self.debugger.close()
            if self.console is not None:
                self.console.close()
            for lines in self.lines:
                lines.close()
        self.files.close(but=self.json)
        if problem is not None:
            self._stop_for(self.settings.snapshot or "", Reason(OUTPUT, problem, BAD_FILE_STATUS))
        reason = self._reason(outcome)
        if outcome.ending == "failed":
            _print(spelled(failure_report(self.board)))
        elif reason.unfinished:
            self._print_places(reason, outcome.places)
        report = Report(outcome, reason, machine.few_places, machine.why_no_samples)
        if self.summary_follows:
            self.summary_follows = False
            _print(summary(report))
        if self.json is not None:
            self.json.write(json.dumps(json_object(report), indent=2) + "\n")
            self.json.close()  # which may be the first output that fails
        return self._reason(outcome).status

    def _run_machine(self) -> tuple[Outcome, str | None]:
        """Run the machine; what became of it, and what kept the snapshot from being written."""
        limit, path, point = (
            self.settings.max_insns,
            self.settings.snapshot,
            self.settings.snapshot_at,
        )
        if (remark := self.traces.remark) is not None and not self.settings.quiet:
            self._say(f"spe-unicorn: {remark}\n")
        if self.traces.have_points:
            return self.traces.run(limit)
        if path is None or point is None:
            return self.machine.run(limit), None
        return run_with_snapshot(self.machine, limit, point, path)

    def _print_places(self, reason: Reason, places: tuple[Whereabouts, ...]) -> None:
        """Where the guest was. With -q only if the end is not one that the user asked for."""
        text = spelled(whereabouts_text(places))
        if not self.settings.quiet:
            _print(text)
        elif not reason.wanted:
            _print(f"spe-unicorn: {reason.cause}\n{text}")

    def _reason(self, outcome: Outcome) -> Reason:
        """Why the run ended, with its exit status."""
        asked = self.stopper.reason
        if asked is not None and (asked.ending == OUTPUT or outcome.ending in _CUT_SHORT):
            return asked
        ending, cause, status = outcome.ending, outcome.cause, outcome.exit_status
        if self.settings.warn == "error" and outcome.misuses and ending in _OF_ITSELF:
            places = len(outcome.misuses)
            cause = f"the guest misuses SPE at {places} place{'s' if places > 1 else ''}"
            if status is not None:
                cause += f", and ended with status {status}"
            return Reason("misuse", cause, MISUSE_STATUS)
        if ending == "exit" and status is not None:
            return Reason(ending, cause, status)
        return Reason(ending, cause, _STATUS[ending])

    # While it runs

    def _show(self) -> None:
        self.progress.hide()
        self._tell(spelled(whereabouts_text(whereabouts(self.board))))

    def _press_power_key(self) -> None:
        self.machine.press_power_key()
        if self.console is not None:
            self.console.wake()

    def _on_slice(self) -> None:
        self.stopper.asked()
        if self.console is not None:
            self.console.flush()
        if self.console is None or not self.console.mid_line:
            written = sum(pe.unit.statistics.written for pe in self.board.pes)
            self.progress.update(self.board.executed, written)

    def _on_line(self, line: str) -> None:
        self.progress.hide()
        self._tell(line)

    def _on_misuse(self, misuse: Misuse) -> None:
        self.progress.hide()
        self._tell(f"spe-unicorn: misuse: {misuse}\n")

    def _tell(self, text: str) -> None:
        """Write to standard error while the guest runs, after what the guest has printed."""
        if self.console is not None:
            self.console.flush()
        _print(text)

    def _on_file_error(self, path: str, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            reason = Reason("closed", f"nobody reads {path} any more", CLOSED_STATUS)
        else:
            reason = Reason(OUTPUT, complaint(path, error), BAD_FILE_STATUS)
        self._stop_for(path, reason)

    def _stop_for(self, path: str, reason: Reason) -> None:
        """End the run for an output that cannot be written."""
        if not self.summary_follows or self.stopper.reason is not None:
            self._tell_of_failed_file(path, reason)
        self.stopper.ask(reason)

    def _tell_of_failed_file(self, path: str, reason: Reason) -> None:
        """Say what no summary says. A reader of standard output who leaves knows that himself."""
        if reason.status != CLOSED_STATUS or path != _CONSOLE:
            self.progress.hide()
            _print(f"spe-unicorn: {reason.cause}\n")


_CONSOLE = "standard output"
"""The name of the guest's console among the outputs."""

_CUT_SHORT = frozenset({"interrupted", "asleep"})
"""How a run ends that was asked to: at once, or where it waited for input."""
_OF_ITSELF = frozenset({"exit", "interrupted"})
"""How a run ends that nothing of ours has ended."""
_STATUS = {
    "limit": LIMIT_STATUS,
    "asleep": ASLEEP_STATUS,
    "failed": FAILED_STATUS,
    "interrupted": INTERRUPTED_STATUS,
}


def _takes_standard_output(settings: Settings) -> bool:
    """Whether an output goes to standard output, so that the console cannot."""
    names = (settings.output, settings.json, *(trace.file for trace in settings.trace))
    return STANDARD_OUTPUT in names


def _print(text: str) -> None:
    """Write to standard error; nobody has to listen."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
