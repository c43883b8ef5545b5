"""Where the machine's console leads to: what takes its output, and where its input comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


def drop(data: bytes) -> None:
    """Drop output: nobody reads this console."""


def end_of_input(size: int) -> bytes:
    """Return no input: nobody types on this console."""
    return b""


def nobody() -> bool:
    """Say that no input will come."""
    return False


def never() -> bool:
    """Say that input may come at any time, or that each character has to be told of at once."""
    return False


def always() -> bool:
    """Say that no input is expected, or that output can wait."""
    return True


@dataclass(frozen=True)
class ConsoleEnds:
    """The console's ends, as functions.

    ``write`` takes output. ``read`` waits for input and returns up to that many bytes, none at the
    end of input. ``arrived`` returns what has come in, without waiting, for the UART. A machine
    that only input can wake calls ``wait``, which returns whether there may be some. ``silent``
    says that ``arrived`` has just found nothing, and need not be asked for some hundredths of a
    second. ``patient`` says that output may come some operations late, in pieces of a line at most.
    ``write_secure`` takes the output of the second UART, which is there with
    ``MachineOptions.secure`` and has no input. The last three are those of the virtio console,
    which is there with ``MachineOptions.virtio_console``.
    """

    write: Callable[[bytes], None] = drop
    read: Callable[[int], bytes] = end_of_input
    arrived: Callable[[int], bytes] = end_of_input
    wait: Callable[[], bool] = nobody
    silent: Callable[[], bool] = never
    patient: Callable[[], bool] = never
    write_secure: Callable[[bytes], None] = drop
    write_virtio: Callable[[bytes], None] = drop
    arrived_virtio: Callable[[int], bytes] = end_of_input
    wait_virtio: Callable[[], bool] = nobody


NO_CONSOLE: Final = ConsoleEnds(silent=always, patient=always)
"""A console that leads nowhere."""
