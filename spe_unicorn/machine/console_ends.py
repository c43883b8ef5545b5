"""Where the machine's console leads to: what takes its output, and where its input comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


def drop(data: bytes) -> None:
    """A console that nobody looks at."""


def end_of_input(size: int) -> bytes:
    """A console that nobody types at."""
    return b""


def nobody() -> bool:
    """Nobody will type."""
    return False


@dataclass(frozen=True)
class ConsoleEnds:
    """The console's ends, as functions.

    ``write`` takes output. ``read`` waits and returns up to that many bytes, none at the end of
    input. The UART asks ``arrived`` for what has come in, and a machine that nothing but input can
    wake calls ``wait``, which says whether there may be some. ``write_secure`` takes the output of
    the second UART, which is there with ``MachineOptions.secure``; nobody types at that. The other
    three are those of the virtio console, which is there with ``MachineOptions.virtio_console``.
    """

    write: Callable[[bytes], None] = drop
    read: Callable[[int], bytes] = end_of_input
    arrived: Callable[[int], bytes] = end_of_input
    wait: Callable[[], bool] = nobody
    write_secure: Callable[[bytes], None] = drop
    write_virtio: Callable[[bytes], None] = drop
    arrived_virtio: Callable[[int], bytes] = end_of_input
    wait_virtio: Callable[[], bool] = nobody


NO_CONSOLE: Final = ConsoleEnds()
"""A console that leads nowhere."""
