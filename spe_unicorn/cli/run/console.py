"""The guest's console: our standard input and output, byte by byte, never waiting for ever.

What waits for a terminal or a pipe looks every few hundredths of a second whether the run is to
end, so that Ctrl-C works there as well.
"""

from __future__ import annotations

import io
import os
import select
import sys
import termios
import tty
from collections.abc import Callable
from typing import IO, Any

_PATIENCE = 0.05
"""Seconds between two looks at whether to go on."""
_LONGEST = 4096
"""Bytes after which a line comes out without its end."""


class Console:
    """``read`` and ``write`` of the machine's console.

    ``before_write`` is called before each output (it takes the progress line away),
    ``stopping`` says whether to give up waiting, ``pausing`` whether to give up a wait that goes on
    later where it was; ``on_error`` is told why output cannot go on. ``buffered``: output waits for
    the end of its line, for a guest that reads, and for :meth:`flush`.
    """

    def __init__(
        self,
        out: IO[Any] | None,
        *,
        stopping: Callable[[], bool],
        pausing: Callable[[], bool] | None = None,
        on_error: Callable[[OSError], None],
        before_write: Callable[[], None] = lambda: None,
        buffered: bool = True,
    ) -> None:
        self.mid_line = False
        """Whether a line of the guest stands unfinished on a terminal."""
        self._out: IO[bytes] | None = getattr(out, "buffer", None)
        self._out_fd = _descriptor(out)
        self._is_terminal = self._out_fd is not None and os.isatty(self._out_fd)
        self._in = sys.stdin
        self._in_fd = _descriptor(sys.stdin)
        self._stopping = stopping
        self._pausing = pausing or stopping
        self._on_error = on_error
        self._before_write = before_write
        self._buffered = buffered
        self._unwritten = bytearray()
        self._looked = False
        """Whether the guest has looked for input since its last output."""
        self._nothing_came = False
        """Whether there was no input when the guest looked last."""
        self._in_ended = False
        self._woken = False
        self._typed_at: list[Any] | None = None
        """How the terminal was before keys came one by one."""

    def write(self, data: bytes) -> None:
        """Print bytes, at the latest with the end of their line."""
        self._unwritten += data
        self._looked = False
        if not self._buffered or b"\n" in data or len(self._unwritten) >= _LONGEST:
            self.flush()

    def flush(self) -> None:
        """Print what has been written so far."""
        data = bytes(self._unwritten)
        self._unwritten.clear()
        if not data or self._out is None:
            return
        self._before_write()
        self.mid_line = self._is_terminal and not data.endswith(b"\n")
        try:
            if self._out_fd is None:
                self._out.write(data)
            else:
                self._write_descriptor(self._out_fd, data)
        except OSError as error:
            self._out = None
            self._on_error(error)

    def _write_descriptor(self, descriptor: int, data: bytes) -> None:
        while data:
            # What select lets through is sure not to wait for a reader.
            if select.select((), (descriptor,), (), _PATIENCE)[1]:
                data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
            elif self._stopping():
                return

    def read(self, size: int) -> bytes:
        """Wait for input: 1 to ``size`` bytes, none at its end."""
        self.flush()
        if self._in_fd is None:
            return b"" if self._in is None else self._in.buffer.read(size)
        try:
            while not select.select((self._in_fd,), (), (), _PATIENCE)[0]:
                if self._stopping():
                    return b""
            return os.read(self._in_fd, size)
        except OSError:  # closed, or the terminal belongs to somebody else
            return b""

    def arrived(self, size: int) -> bytes:
        """Input that is there already, up to ``size`` bytes.

        Output comes out at the second look for input since it was written: before each character
        many guests look once whether there is room, and read the same register for it.
        From a terminal it comes key by key from the first call on, and only the guest echoes it;
        Ctrl-C stays ours.
        """
        if self._looked:
            self.flush()
        self._looked = True
        data = self.read(size) if self._in_fd is None else self._waiting(size)
        self._nothing_came = not data
        return data

    def _waiting(self, size: int) -> bytes:
        if self._in_ended or self._in_fd is None:
            return b""
        try:
            if self._typed_at is None and os.isatty(self._in_fd):
                self._typed_at = termios.tcgetattr(self._in_fd)
                _hand_over_keys(self._in_fd)
            if not select.select((self._in_fd,), (), (), 0)[0]:
                return b""
            data = os.read(self._in_fd, size)
        except (OSError, termios.error):
            data = b""
        self._in_ended = not data
        return data

    def silent(self) -> bool:
        """Whether the last :meth:`arrived` found nothing, so that the next may wait for a while."""
        return self._nothing_came

    def patient(self) -> bool:
        """Whether output may wait for the end of its line."""
        return self._buffered

    def wait(self) -> bool:
        """Wait until there may be input, or :meth:`wake`; False if neither comes any more."""
        self.flush()
        while not self._in_ended and self._in_fd is not None and not self._pausing():
            if self._woken:
                self._woken = False
                return True
            if select.select((self._in_fd,), (), (), _PATIENCE)[0]:
                return True
        return False

    def wake(self) -> None:
        """Something else than input has come for the guest; from a signal handler, too."""
        self._woken = True

    def close(self) -> None:
        """Print what is left, and leave the terminal as it was."""
        self.flush()
        if self._typed_at is not None and self._in_fd is not None:
            termios.tcsetattr(self._in_fd, termios.TCSANOW, self._typed_at)
            self._typed_at = None


def _hand_over_keys(descriptor: int) -> None:
    """Let a terminal give key by key what a serial line would: Enter is a carriage return."""
    tty.setcbreak(descriptor, termios.TCSANOW)
    modes = termios.tcgetattr(descriptor)
    modes[tty.IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
    termios.tcsetattr(descriptor, termios.TCSANOW, modes)


class Lines:
    """Takes a console's output, and gives it line by line to ``write``, each after ``prefix``.

    Control characters and what is no UTF-8 are shown as Python escapes. A line without an end comes
    out when it has :data:`_LONGEST` bytes, and at :meth:`close`.
    """

    def __init__(self, prefix: str, write: Callable[[str], None]) -> None:
        self._prefix = prefix
        self._write = write
        self._line = b""

    def write(self, data: bytes) -> None:
        """Print what lines there are."""
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._print(line)
        while len(self._line) >= _LONGEST:
            line, self._line = self._line[:_LONGEST], self._line[_LONGEST:]
            self._print(line)

    def close(self) -> None:
        """Print a line that has no end."""
        if self._line:
            self._print(self._line)
            self._line = b""

    def _print(self, line: bytes) -> None:
        text = line.rstrip(b"\r").decode("utf-8", "backslashreplace")
        shown = "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)
        self._write(f"{self._prefix}{shown}\n")


def _descriptor(stream: IO[Any] | None) -> int | None:
    """The file descriptor of a stream, None for one inside Python."""
    if stream is None:
        return None
    try:
        return stream.fileno()
    except (io.UnsupportedOperation, ValueError):
        return None
