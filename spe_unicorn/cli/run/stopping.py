"""Why a run ends, with which exit status, and what ends it from outside: signals, a time limit."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from spe_unicorn.signals import Signal

if TYPE_CHECKING:  # commands that run no guest load no engine
    from spe_unicorn.session.outcome import Outcome
    from spe_unicorn.session.point import Point

_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
"""The signals that end a run, as people know them."""
_SHOW, _PRESS = signal.SIGUSR1, signal.SIGUSR2


BAD_FILE_STATUS = 2
MISUSE_STATUS = 3
MISSED_STATUS = 4
LIMIT_STATUS = 124
ASLEEP_STATUS = 125
FAILED_STATUS = 126
INTERRUPTED_STATUS = 128 + 2
KILLED_STATUS = 128 + 9
CLOSED_STATUS = 128 + 13
"""Exit statuses beside the guest's own; the last three are as of processes that a signal ended."""

OUTPUT = "output"
"""The ending of a run whose output could not be written."""

_CUT_SHORT = frozenset({"interrupted", "asleep"})
"""How a run ends that was asked to: at once, or where it waited for input."""
_OF_ITSELF = frozenset({"exit", "until", "interrupted"})
"""How a run ends that nothing but the guest and the user has ended."""
_STATUS = {
    "until": 0,
    "limit": LIMIT_STATUS,
    "asleep": ASLEEP_STATUS,
    "failed": FAILED_STATUS,
    "interrupted": INTERRUPTED_STATUS,
}


@dataclass(frozen=True)
class Reason:
    """Why a run ended: a word for programs, a sentence for people, and the exit status.

    The words are exit, until, misuse, missed, limit, timeout, interrupted, killed, closed, output,
    asleep and failed.
    There is no sentence if the guest ended the run itself.
    """

    ending: str
    cause: str | None
    status: int

    @property
    def unfinished(self) -> bool:
        """Whether the guest did not come to an end of its own: where it was is of interest."""
        return self.ending in ("limit", "timeout", "interrupted", "asleep", "killed")

    @property
    def wanted(self) -> bool:
        """Whether the user asked for this end: a number of operations, a signal, a debugger."""
        return self.ending in ("limit", "interrupted", "killed")


def reason_of(
    outcome: Outcome,
    asked: Reason | None,
    *,
    misuse_is_error: bool,
    found: int = 0,
    missed: Point | None = None,
) -> Reason:
    """Why a run ended that came to ``outcome``, and that was ``asked`` to end for a reason.

    ``found`` is how many things checks of memory have found, errors with ``misuse_is_error``, too.
    ``missed`` is the point at which it was to end, if the guest ended itself before.
    """
    if asked is not None and (asked.ending == OUTPUT or outcome.ending in _CUT_SHORT):
        return asked
    ending, cause, status = outcome.ending, outcome.cause, outcome.exit_status
    if misuse_is_error and outcome.misuses and ending in _OF_ITSELF:
        places = len(outcome.misuses)
        cause = f"the guest misuses SPE at {places} place{'s' if places > 1 else ''}"
        if status is not None:
            cause += f", and ended with status {status}"
        return Reason("misuse", cause, MISUSE_STATUS)
    if misuse_is_error and found and ending in _OF_ITSELF:
        return Reason("check", f"checks of memory: {found} found", MISUSE_STATUS)
    if missed is not None and not status:
        cause = f"the guest ended with status {status}, and {missed} was not reached"
        return Reason("missed", cause, MISSED_STATUS)
    if ending == "exit" and status is not None:
        return Reason(ending, cause, status)
    return Reason(ending, cause, _STATUS[ending])


class StoppedError(Exception):
    """The run was asked to end before the machine was ready to run."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.cause)
        self.reason = reason


class Stopper:
    """Collects reasons to end; the first one counts. While entered, it takes the signals.

    ``stopped`` is told as soon as there is a reason, also from a signal handler. ``shown`` is
    called after SIGUSR1, which ends nothing, when :meth:`asked` is asked next; ``pressed`` after
    SIGUSR2, from the signal handler.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self.reason: Reason | None = None
        self.stopped: Signal[[]] = Signal()
        self.shown: Signal[[]] = Signal()
        self.pressed: Signal[[]] = Signal()
        self._show = False
        self._timeout = timeout
        self._deadline: float | None = None
        self._left: float | None = None
        """Seconds that are left of the time limit, while that stands still."""
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stopper:
        for number in _NAMES:
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup: the run outlives its terminal
            self._handlers[number] = signal.signal(number, self._on_signal)
        self._handlers[_SHOW] = signal.signal(_SHOW, self._on_show_signal)
        self._handlers[_PRESS] = signal.signal(_PRESS, lambda number, frame: self.pressed())
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def start_clock(self) -> None:
        """The time limit counts from now on."""
        if self._timeout is not None:
            self._deadline = time.monotonic() + self._timeout

    def hold_clock(self, held: bool) -> None:
        """Let the time limit stand still, or go on from where it stood."""
        now = time.monotonic()
        if held and self._deadline is not None:
            self._left, self._deadline = self._deadline - now, None
        elif not held and self._left is not None:
            self._deadline, self._left = now + self._left, None

    def ask(self, reason: Reason) -> None:
        """End the run."""
        if self.reason is None:
            self.reason = reason
        self.stopped()

    def asked(self) -> bool:
        """Whether to end; looks at the clock. Nothing of the machine is half done meanwhile."""
        if self._show:
            self._show = False
            self.shown()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            cause = f"the time limit of {self._timeout:g} s was reached"
            self.ask(Reason("timeout", cause, LIMIT_STATUS))
        return self.reason is not None

    def check(self) -> None:
        """Raise StoppedError if the run is to end, where nothing has to be left in order."""
        self.asked()
        if self.reason is not None:
            raise StoppedError(self.reason)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = _NAMES[signal.Signals(number)]
        self.ask(Reason("interrupted", f"stopped by {name}", 128 + number))

    def _on_show_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._show = True
