"""One run from the command line: a machine, and all that is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spe_unicorn.cli.annotating import annotated, written
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.console import Console
from spe_unicorn.cli.run.consoles import CONSOLE, Consoles
from spe_unicorn.cli.run.coverage import CoverageFile
from spe_unicorn.cli.run.debugging import debug, listening
from spe_unicorn.cli.run.device_tree import dump_device_tree
from spe_unicorn.cli.run.files import Files, complaint
from spe_unicorn.cli.run.legs import Legs, check_points
from spe_unicorn.cli.run.messages import say
from spe_unicorn.cli.run.progress import Progress
from spe_unicorn.cli.run.recording import record_to_file
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.snapshots import check_target, run_with_snapshot
from spe_unicorn.cli.run.stopping import (
    BAD_FILE_STATUS,
    CLOSED_STATUS,
    OUTPUT,
    Reason,
    StoppedError,
    Stopper,
    reason_of,
)
from spe_unicorn.cli.run.summary import Report, json_object, summary
from spe_unicorn.cli.run.symbols import add_symbols
from spe_unicorn.cli.run.traces import TimelineFile, Traces
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.cli.sweeping import inject
from spe_unicorn.compiled import checked, interruptible, say_nothing
from spe_unicorn.cores.profile import CoreError
from spe_unicorn.debug.advice.unavailable import watch_unavailable
from spe_unicorn.debug.report import failure_report
from spe_unicorn.debug.whereabouts import Whereabouts, whereabouts, whereabouts_text
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.options import OptionError
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.outcome import Outcome

if TYPE_CHECKING:  # a run that nobody debugs needs no debugger
    from spe_unicorn.debug.gdb.connection import Listener
    from spe_unicorn.debug.misuse_found import Misuse
    from spe_unicorn.session.checking.found import CheckFinding
    from spe_unicorn.session.sweeping.inject import Planned


def run_session(
    settings: Settings, attach: Callable[[Machine], None] = lambda machine: None
) -> int:
    """Run firmware as ``settings`` say; the exit status.

    ``attach`` is called with the machine before it runs, and may raise UsageProblem, too.
    Raises UsageProblem, before anything has run, for what cannot be run or written.
    """
    if settings.dump_dtb is not None:
        dump_device_tree(settings, settings.dump_dtb)
        return 0
    with Stopper(settings.timeout) as stopper, listening(settings) as listener:
        try:
            with checked(stopper.check), interruptible():
                session = _Session(settings, stopper, listener, attach)
        except StoppedError as stopped:
            if not settings.quiet:
                say(f"spe-unicorn: {stopped} while it compiled its hooks\n")
            return stopped.reason.status
        return session.run()


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
        self.checks: tuple[CheckFinding, ...] | None = None
        """What checks of memory have found; None where none was asked for, and before the end."""
        if settings.quiet:
            say_nothing()
        try:
            self.machine = Machine(settings.machine, records=False)
        except (CoreError, LoadError, OptionError) as error:
            raise UsageProblem(spelled(str(error))) from error
        check_target(settings.snapshot_at, settings.snapshot)
        if settings.restored is not None:
            settings.restored.restore(self.machine)
        points = {
            "--snapshot-at": settings.snapshot_at,
            "--trace-start": settings.trace_start,
            "--trace-stop": settings.trace_stop,
            "--until": settings.until,
        }
        if settings.inject is not None:
            _check_injection(self.machine, settings, settings.inject)
            points["--inject"] = settings.inject.at
        check_points(self.machine, points, "--until")
        self.legs = Legs(self.machine, settings.max_insns, settings.until)
        self.board = self.machine.board
        traced = any(trace.file is None for trace in settings.trace)
        self.progress = Progress(enabled=not settings.quiet and not traced)
        self.debugger = (
            None
            if listener is None
            else debug(self.machine, settings, listener, stopper, self.progress.hide)
        )
        add_symbols(self.board.names, settings.symbols)
        self.files = Files(settings.inputs, self._on_file_error)
        self.consoles = Consoles(
            settings,
            self.files,
            partial(
                Console,
                stopping=stopper.asked,
                pausing=self._pausing,
                before_write=self.progress.hide,
            ),
            on_error=self._on_file_error,
            on_line=self._tell,
            buffered=self.debugger is None,
        )
        try:
            self.consoles.lead(self.machine)
            record_to_file(self.machine, settings, self.files)
            self.traces = Traces(
                self.machine, settings, lambda name: self.files.text(name).write, self._tell
            )
            attach(self.machine)
            if not settings.quiet:
                watch_unavailable(self.board, self._on_undefined)
            if settings.warn is not None:
                self.machine.watch_misuse()
                self.machine.observe("misuse", self._on_misuse)
            self.json = None if settings.json is None else self.files.text(settings.json)
            wanted = settings.warn_format
            named = None if wanted is None else wanted.file
            self.annotations = None if named is None else self.files.text(named)
            self.timeline = TimelineFile.of(self.machine, settings.timeline, self.files)
            self.coverage = CoverageFile.of(self.machine, settings.coverage, self.files)
        except (UsageProblem, StoppedError):
            self.files.discard()
            raise

    def _pausing(self) -> bool:
        """Whether the guest is not to wait for input any longer."""
        wanted = self.debugger is not None and self.debugger.wanted()
        return wanted or self.stopper.asked()

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
            outcome = replace(outcome, misuses=machine.finish_misuses())
        except BaseException:
            self.files.close()
            raise
        finally:
            self.progress.hide()
            if self.debugger is not None:
                self.debugger.close()
            self.consoles.close()
        kept = None if self.coverage is None else self.coverage.file
        timeline = None if self.timeline is None else self.timeline.file
        self.files.close(self.json, kept, self.annotations, timeline)
        if problem is not None:
            self._stop_for(self.settings.snapshot or "", Reason(OUTPUT, problem, BAD_FILE_STATUS))
        if self.settings.machine.check:
            self.checks = machine.finish_checks()
        reason = self._reason(outcome)
        self._annotate(outcome)
        if outcome.ending == "failed":
            say(spelled(failure_report(self.board)))
        elif reason.unfinished:
            self._print_places(reason, outcome.places)
        if self.coverage is not None:
            self.coverage.write()
        if self.timeline is not None:
            self.timeline.write(outcome.misuses or ())
        report = Report(
            outcome,
            reason,
            machine.few_places,
            machine.why_no_samples,
            machine.trapped_accesses,
            machine.why_few_samples,
            machine.hidden_spe,
            self.checks,
        )
        if self.summary_follows:
            self.summary_follows = False
            say(summary(report))
        if self.json is not None:
            self.json.write(json.dumps(json_object(report), indent=2) + "\n")
            self.json.close()  # which may be the first output that fails
        return self._reason(outcome).status

    def _run_machine(self) -> tuple[Outcome, str | None]:
        """Run the machine; what became of it, and what kept the snapshot from being written."""
        legs, path, point = self.legs, self.settings.snapshot, self.settings.snapshot_at
        if (remark := self.traces.remark) is not None and not self.settings.quiet:
            say(f"spe-unicorn: {remark}\n")
        if self.settings.inject is not None:
            return inject(self.machine, legs, self.settings.inject)
        if self.traces.have_points:
            return self.traces.run(legs)
        if path is None or point is None:
            return legs.run(None), None
        return run_with_snapshot(self.machine, legs, point, path)

    def _annotate(self, outcome: Outcome) -> None:
        """Say what checks have found, and all that is wrong in the form that was asked for."""
        wanted, checks = self.settings.warn_format, self.checks or ()
        if wanted is None:
            for found in checks:
                say(f"spe-unicorn: check: {found}\n")
            return
        every = list(annotated(self.board.names, outcome.misuses or (), checks))
        if self.annotations is None:
            say(written(wanted.form, every))
        else:
            self.annotations.write(written(wanted.form, every))
            self.annotations.close()

    def _reason(self, outcome: Outcome) -> Reason:
        misuse_is_error = self.settings.warn == "error"
        return reason_of(
            outcome,
            self.stopper.reason,
            misuse_is_error=misuse_is_error,
            found=len(self.checks or ()),
            missed=self.settings.until if self.legs.missed else None,
        )

    def _print_places(self, reason: Reason, places: tuple[Whereabouts, ...]) -> None:
        """Where the guest was. With -q only if the end is not one that the user asked for."""
        text = spelled(whereabouts_text(places))
        if not self.settings.quiet:
            say(text)
        elif not reason.wanted:
            say(f"spe-unicorn: {reason.cause}\n{text}")

    # While it runs

    def _show(self) -> None:
        self._tell(spelled(whereabouts_text(whereabouts(self.board))))

    def _press_power_key(self) -> None:
        self.machine.press_power_key()
        self.consoles.wake()

    def _on_slice(self) -> None:
        self.stopper.asked()
        self.consoles.flush()
        if not self.consoles.mid_line:
            written = sum(pe.unit.statistics.written for pe in self.board.pes)
            self.progress.update(self.board.executed, written)

    def _on_misuse(self, misuse: Misuse) -> None:
        if self.settings.warn_format is None:
            self._tell(f"spe-unicorn: misuse: {misuse}\n")

    def _on_undefined(self, said: str) -> None:
        self._tell(f"spe-unicorn: {spelled(said)}\n")

    def _tell(self, text: str) -> None:
        """Write to standard error while the guest runs, after what the guest has printed."""
        self.progress.hide()
        self.consoles.flush()
        say(text)

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
        if reason.status != CLOSED_STATUS or path != CONSOLE:
            self.progress.hide()
            say(f"spe-unicorn: {reason.cause}\n")


def _check_injection(machine: Machine, settings: Settings, planned: Planned) -> None:
    """Raise UsageProblem for a fault that cannot be injected here."""
    if settings.snapshot_at is not None or settings.trace_start or settings.trace_stop:
        raise UsageProblem("--inject goes without --snapshot-at, --trace-start and --trace-stop")
    try:
        planned.what.check(machine.board)
    except ValueError as error:
        raise UsageProblem(f"--inject: {error}") from None
