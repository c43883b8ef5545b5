"""Machine code while it is made: how long that has taken, and whether to go on.

An edit of the package lets the compiler work for most of a minute, a function at a time. Between
two functions whoever waits can end it, by an exception.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_spent = 0.0
_depth = 0
_check: Callable[[], object] | None = None


def seconds_spent() -> float:
    """Seconds of the host that this process has taken to read or make machine code."""
    return _spent


@contextmanager
def measured() -> Iterator[None]:
    """Count the time of the block. Of blocks in each other the outer one counts."""
    global _spent, _depth
    began = time.monotonic()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _spent += time.monotonic() - began


@contextmanager
def checked(check: Callable[[], object]) -> Iterator[None]:
    """Within the block ``check`` is called before each function that is made.

    It raises an exception to keep the function, and those after it, from being made.
    """
    global _check
    before, _check = _check, check
    try:
        yield
    finally:
        _check = before


def go_on() -> None:
    """Ask whoever waits; the exception is theirs."""
    if _check is not None:
        _check()
