"""The command line, one file a sub-command.

What a sub-command needs of the engine it imports when it runs, so that help, ``decode`` and
``regs`` answer at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

import click

from spe_unicorn.cli.run.stopping import CLOSED_STATUS, INTERRUPTED_STATUS
from spe_unicorn.host.accelerators import chosen

_HOMES: Final = {
    "run": "commands.run",
    "record": "commands.record",
    "stat": "commands.stat",
    "decode": "commands.decode",
    "report": "commands.report",
    "annotate": "commands.report",
    "diff": "commands.report",
    "export": "commands.export",
    "coverage": "commands.coverage",
    "campaign": "commands.campaign",
    "regs": "commands.regs",
    "cores": "commands.cores",
    "scan": "commands.scan",
    "choices": "commands.choices",
    "torture": "commands.torture",
    "doctor": "commands.doctor",
    "linux": "commands.linux",
    "demo": "commands.demo",
    "completion": "completing",
}
"""Where each command is at home."""

PROGRAM = "spe-unicorn"
"""What the program is called."""

INTERNAL_ERROR = 70
"""Exit status where the program itself is wrong: EX_SOFTWARE of sysexits.h."""

BAD_STREAM = 74
"""Exit status where standard output takes no more: EX_IOERR of sysexits.h."""

_OWN = (click.ClickException, click.exceptions.Exit, click.Abort, OSError)
"""Exceptions by which click itself ends a command, and those that ``main`` tells of."""


class _InternalError(click.ClickException):
    exit_code = INTERNAL_ERROR

    def show(self, file: Any = None) -> None:
        """Print the one line."""
        click.echo(f"spe-unicorn: {self.format_message()}", file=file, err=file is None)


class _Commands(Mapping[str, click.Command]):
    """All commands by name. A command's file is imported when it is asked for: a run needs one."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(f"spe_unicorn.cli.{_HOMES[name]}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


@contextmanager
def _unread() -> Iterator[None]:
    """End with the status of a closed pipe where nobody reads standard output any more."""
    try:
        yield
    except BrokenPipeError:
        sys.stdout = io.StringIO()  # what is left in the old one would fail once more
        raise click.exceptions.Exit(CLOSED_STATUS) from None


class _SignalError(BaseException):
    """SIGTERM or SIGHUP has come: the command is given up as by KeyboardInterrupt."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _unwound() -> Iterator[None]:
    """Have SIGTERM and SIGHUP unwind a command, so that it ends its processes and removes folders.

    A second one ends it at once. A command that takes these signals itself is left alone, and so is
    SIGHUP under ``nohup``.
    """

    def unwind(number: int, _frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise _SignalError(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, unwind)
    try:
        yield
    except _SignalError as error:
        raise click.exceptions.Exit(128 + error.number) from None
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)


class Guarded(click.Group):
    """A group whose commands never end in a traceback, unless one is asked for."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program. A disk that is full is one line; a pipe that nobody reads is none."""
        # Python has None for a stream that was closed before the start.
        sys.stdout = sys.stdout or io.StringIO()
        sys.stderr = sys.stderr or io.StringIO()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except OSError as error:
            # What is left in the buffer would fail once more when the interpreter ends.
            sys.stdout = io.StringIO()
            if isinstance(error, BrokenPipeError):
                sys.exit(CLOSED_STATUS)
            where = "" if error.filename is None else f"{error.filename}: "
            click.echo(f"spe-unicorn: {where}{error.strerror or error}", err=True)
            sys.exit(BAD_STREAM)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line; ``--help`` prints here."""
        with _unread():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            with _unread(), _unwound():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED_STATUS) from None
        except _OWN:
            raise
        except Exception as error:
            if ctx.params["debug"]:
                raise
            import traceback  # nothing else needs it at a start

            said = " ".join(traceback.format_exception_only(error)[-1].split())
            raise _InternalError(
                f"internal error: {said} (please report; --debug shows the traceback)"
            ) from error


def _say_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    from spe_unicorn.host.engine.known import why_not

    why = why_not()
    click.echo(f"spe-unicorn, version {version('spe-unicorn')}")
    click.echo("inline counting: on" if why is None else f"inline counting: off ({why})")
    ctx.exit()


@click.group(
    cls=Guarded, commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version, and whether inline counting is on; then exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
def main(*, debug: bool) -> None:
    """Run AArch64 firmware with Arm's Statistical Profiling Extension (SPE), and read its records.

    Start with "spe-unicorn demo".
    """
    del debug  # looked at where a command fails
    try:
        chosen()
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def program() -> None:
    """The command as a process: it ends at once, since tearing compiled code down takes a while.

    Files are complete by then: commands close what they open.
    """
    status: Any = 0
    try:
        main(prog_name=PROGRAM)
    except SystemExit as ending:
        status = ending.code
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status if isinstance(status, int) else bool(status))
