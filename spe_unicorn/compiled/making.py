"""Machine code while it is made: how long that has taken, and whether to go on.

An edit of the package lets the compiler work for most of a minute, a function at a time. Between
two functions whoever waits can end it, by an exception; where they asked for it, within one, too.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import Final

_LOOK: Final = 0.05
"""Seconds between two checks while a function is made."""
_spent = 0.0
_depth = 0
_check: Callable[[], object] | None = None
_interruptible = False
_left: Final[list[Future[bytes]]] = []
"""Functions that nobody waits for any more, while they were made."""


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


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block no signal waits for a function that is being made.

    What its handler raises, and what the check of :func:`checked` does, leaves at once. The
    compiler goes on in a thread of its own; the process is to end by :func:`end_if_left`.
    """
    global _interruptible
    before, _interruptible = _interruptible, True
    try:
        yield
    finally:
        _interruptible = before


def made_by(make: Callable[[], bytes]) -> bytes:
    """What ``make`` makes: machine code."""
    if not _interruptible or threading.current_thread() is not threading.main_thread():
        return make()
    made: Future[bytes] = Future()
    threading.Thread(target=_make, args=(make, made), daemon=True).start()
    try:
        while not made.done():
            wait([made], _LOOK)
            go_on()
        return made.result()
    finally:
        if not made.done():
            _left.append(made)


def _make(make: Callable[[], bytes], made: Future[bytes]) -> None:
    try:
        made.set_result(make())
    except BaseException as error:
        made.set_exception(error)


def is_left() -> bool:
    """Whether a function is still being made that nobody waits for."""
    return not all(made.done() for made in _left)


def end_if_left(status: int) -> None:
    """End the process with ``status`` if a function is still being made, before Python does.

    Python would wait for the compiler's lock, which a thread that it has given up never frees.
    """
    if is_left():
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
