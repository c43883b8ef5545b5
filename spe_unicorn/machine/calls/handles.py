"""What a handle of semihosting stands for that is no file of the host: the console, a constant."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Protocol


class File(Protocol):
    """What a handle stands for. All methods raise OSError."""

    is_terminal: bool

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, none at the end."""
        ...

    def write(self, data: bytes) -> None:
        """Store bytes where the file stands."""
        ...

    def seek(self, position: int) -> None:
        """Stand at ``position``, in bytes from the beginning."""
        ...

    def position(self) -> int:
        """Where the file stands."""
        ...

    def length(self) -> int:
        """How many bytes it has."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class ConsoleFile:
    """``:tt`` opened for reading or for writing; the other direction is refused."""

    is_terminal = True

    def __init__(
        self,
        read: Callable[[int], bytes] | None = None,
        write: Callable[[bytes], None] | None = None,
    ) -> None:
        self._read, self._write = read, write

    def read(self, size: int) -> bytes:
        """Wait for input: up to ``size`` bytes, none at its end. EBADF if opened for writing."""
        if self._read is None:
            raise os_error(errno.EBADF)
        return self._read(size)

    def write(self, data: bytes) -> None:
        """Print. EBADF if opened for reading."""
        if self._write is None:
            raise os_error(errno.EBADF)
        self._write(data)

    def seek(self, position: int) -> None:
        """ESPIPE: a terminal has no position."""
        raise os_error(errno.ESPIPE)

    def position(self) -> int:
        """0, since a terminal has none."""
        return 0

    def length(self) -> int:
        """0: an interactive device has no length, and the specification allows that."""
        return 0

    def close(self) -> None:
        """The console stays."""


class ConstantFile:
    """A read-only file whose contents are known beforehand."""

    DERIVED = ("_position",)

    is_terminal = False

    def __init__(self, contents: bytes) -> None:
        self._contents = contents
        self._position = 0

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, none at the end."""
        data = self._contents[self._position : self._position + size]
        self._position += len(data)
        return data

    def write(self, data: bytes) -> None:
        """EBADF: nobody writes to it."""
        raise os_error(errno.EBADF)

    def seek(self, position: int) -> None:
        """Stand at ``position``, in bytes from the beginning."""
        self._position = position

    def position(self) -> int:
        """Where the file stands."""
        return self._position

    def length(self) -> int:
        """How many bytes it has."""
        return len(self._contents)

    def close(self) -> None:
        """Nothing to give back."""


def os_error(number: int) -> OSError:
    """The error of that number, with the host's text for it."""
    return OSError(number, os.strerror(number))
