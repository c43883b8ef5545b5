"""Commands of many runs: a signal ends them, and they tell what they have found until then."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StoppedError(Exception):
    """Somebody stopped the command, by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Have Ctrl-C, SIGTERM and SIGHUP raise StoppedError where a command waits; a second is let go.

    Under ``nohup`` SIGHUP is ignored, as before.
    """
    taken = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        taken.append(signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise StoppedError(number)

    before = {each: signal.signal(each, stop) for each in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
