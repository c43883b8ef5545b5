"""A run under a debugger, ``--gdb``: where GDB connects, and what it may do with the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.messages import say
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.stopping import (
    ASLEEP_STATUS,
    FAILED_STATUS,
    KILLED_STATUS,
    LIMIT_STATUS,
    Reason,
    Stopper,
)
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.debug.report import failure_report
from spe_unicorn.host import ports
from spe_unicorn.session.machine import Machine

if TYPE_CHECKING:  # a run that nobody debugs needs no debugger
    from spe_unicorn.debug.gdb.connection import Listener
    from spe_unicorn.debug.gdb.debugger import Debugger


@contextmanager
def listening(settings: Settings) -> Iterator[Listener | None]:
    """Where GDB connects, from before anything is built or compiled. Raises UsageProblem."""
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
        say(f"spe-unicorn: {waits}say to it: target remote {listener.address}\n")
        yield listener
    finally:
        listener.close()


def debug(
    machine: Machine,
    settings: Settings,
    listener: Listener,
    stopper: Stopper,
    hide_progress: Callable[[], None],
) -> Debugger:
    """Have GDB, which connects to ``listener``, hold ``machine``."""
    from spe_unicorn.debug.gdb.surroundings import Surroundings

    def say_of_debugger(text: str) -> None:
        hide_progress()
        say(f"spe-unicorn: {text}\n")

    def hold(held: bool) -> None:
        """GDB holds the machine, or lets it go on."""
        hide_progress()
        stopper.hold_clock(held)

    def why_ended(ending: ports.Ending) -> str:
        if ending is ports.Ending.LIMIT:
            return f"the limit of {settings.max_insns} operations was reached"
        if ending is ports.Ending.FAILED:
            return spelled(failure_report(machine.board))
        return "the guest waits for an interrupt, and nothing can ever raise one"

    around = Surroundings(
        say=say_of_debugger,
        stopping=stopper.asked,
        held=hold,
        killed=lambda: stopper.ask(Reason("killed", "GDB killed the run", KILLED_STATUS)),
        why_ended=why_ended,
        statuses={
            ports.Ending.LIMIT: LIMIT_STATUS,
            ports.Ending.ASLEEP: ASLEEP_STATUS,
            ports.Ending.FAILED: FAILED_STATUS,
        },
    )
    waits = not settings.gdb_continue
    return machine.debug(listener, around, waits=waits, history=settings.history)
