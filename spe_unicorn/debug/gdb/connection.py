"""The socket at which debuggers connect, and the connection of one: no call waits for ever.

Whatever the other side sends or leaves unread at worst ends its connection, with a
:class:`ConnectionLost` that says why in a sentence. A connection that does not begin as a
debugger's does is a web page's or somebody's mistake: nothing of it is obeyed.
"""

from __future__ import annotations

import errno
import os
import re
import selectors
import socket
import stat
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from spe_unicorn.debug.gdb.packets import (
    Event,
    ProtocolError,
    Reader,
    begins_with_packet,
    frame,
)

_LOOPBACK: Final = "127.0.0.1"
_PATIENCE: Final = 10.0
"""Seconds for which the other side may leave data unread."""
_CHUNK: Final = 1 << 16
_CHUNKS: Final = 1 << 4
"""The most pieces that are received at a time: who sends without end does not hold the run."""
_SHOWN: Final = 16
"""Bytes of a stranger's beginning that the user is shown."""
_QUEUED: Final = 1 << 10
"""The most packets of the other side that wait for an answer; one more ends the connection."""
_ADDRESS: Final = re.compile(r"(?:(?P<host>\[[^\]]+\]|[^:\[\]]+)?:)?(?P<port>[0-9]{1,5})", re.ASCII)


_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""What waits for sockets whatever their numbers are: `select` takes none above 1,023."""


class _Source(Protocol):
    def fileno(self) -> int:
        """The number by which the host knows it."""
        ...


_S = TypeVar("_S", bound=_Source)


def readable(sources: Sequence[_S], seconds: float) -> list[_S]:
    """Those of ``sources`` from which something can be read, waited for so long at most."""
    with _Selector() as waiting:
        for source in sources:
            waiting.register(source, selectors.EVENT_READ, source)
        return [key.data for key, _ in waiting.select(seconds)]


class AddressError(ValueError):
    """A text that is no address, or an address that cannot be used; the message is one line."""


class ConnectionLost(Exception):  # noqa: N818
    """The connection is over; the message says why, for people."""


@dataclass(frozen=True)
class Address:
    """Where to listen: a host and a port, or the ``path`` of a Unix socket."""

    host: str = _LOOPBACK
    port: int = 0
    path: str | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """``PORT``, ``HOST:PORT`` or ``unix:PATH``. Raises AddressError.

    Without a host it is loopback: nobody else on the network reaches it. Port 0 is a free one.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise AddressError(f"{text!r}: the path of the socket is missing after the colon")
        return Address(path=path)
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise AddressError(f"{text!r} is no place to listen at: write PORT, HOST:PORT or unix:PATH")
    port = int(match["port"])
    if port > 0xFFFF:
        raise AddressError(f"{text!r}: a port is a number up to 65535")
    host = (match["host"] or _LOOPBACK).strip("[]")
    return Address(host, port)


class Listener:
    """Takes connections of debuggers. Raises AddressError where that is not possible."""

    def __init__(self, address: Address) -> None:
        try:
            self._socket = _listen(address)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise AddressError(f"GDB cannot connect to {address}: {why}") from error
        if address.path is None:
            host, port = self._socket.getsockname()[:2]
            address = Address(host, port)
        self.address = address
        """Where it listens, with the port that was chosen."""

    def accept(self) -> Connection | None:
        """The connection of a debugger that has come, None for none."""
        try:
            peer, _ = self._socket.accept()
        except OSError:  # nobody has come, or has gone again
            return None
        return Connection(peer)

    def fileno(self) -> int:
        """For ``select``."""
        return self._socket.fileno()

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()
        if self.address.path is not None:
            with suppress(OSError):
                os.unlink(self.address.path)


def _listen(address: Address) -> socket.socket:
    if address.path is not None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        where: object = address.path
        _forget_stale(address.path)
    else:
        kind = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listener = socket.socket(kind, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        where = (address.host, address.port)
    try:
        listener.bind(where)  # type: ignore[arg-type]
        listener.listen(4)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _forget_stale(path: str) -> None:
    """Remove the socket of a killed run, at which nobody listens any more."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                os.unlink(path)


class StrangerError(ConnectionLost):
    """The connection does not begin as a debugger's; the message says how it begins."""


class Connection:
    """Somebody who has connected: a debugger, once :attr:`greeted`."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self.greeted = False
        """Whether the connection has begun as a debugger's does."""
        self._reader = Reader()
        self._packets: deque[bytes | None] = deque()
        """Packets that have arrived and were not taken; None is a Ctrl-C after a packet."""
        self._last = b""
        self._acknowledges = True
        self._interrupted = False
        peer.settimeout(_PATIENCE)
        if peer.family != socket.AF_UNIX:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        """For ``select``."""
        return self._peer.fileno()

    @property
    def waiting(self) -> bool:
        """Whether there are packets that have arrived and were not taken."""
        return any(item is not None for item in self._packets)

    def packet(self) -> bytes | None:
        """The data of the next packet that has arrived, None for none.

        A Ctrl-C that came before it is forgotten: it was sent while the machine stood.
        """
        self._interrupted = False
        while self._packets:
            item = self._packets.popleft()
            if item is not None:
                return item
        return None

    def interrupted(self) -> bool:
        """Whether Ctrl-C has come since the last packet that was taken, or the last call."""
        found = self._interrupted or None in self._packets
        self._interrupted = False
        while None in self._packets:
            self._packets.remove(None)
        return found

    def receive(self) -> None:
        """Take what has arrived. Raises ConnectionLost, StrangerError."""
        for _ in range(_CHUNKS):
            if not readable((self._peer,), 0):
                return
            try:
                data = self._peer.recv(_CHUNK)
            except OSError as error:
                raise ConnectionLost(f"the connection broke ({error.strerror})") from error
            if not data and self._packets:
                return  # the packets are answered first
            if not data:
                raise ConnectionLost("the debugger has gone without detaching")
            self._take(data)

    def _take(self, data: bytes) -> None:
        greets = self.greeted or begins_with_packet(data)
        if greets is False:
            raise StrangerError(f"its first bytes are {ascii(data[:_SHOWN])[1:]}")
        try:
            arrived = self._reader.feed(data)
        except ProtocolError as error:
            if not self.greeted:
                raise StrangerError(f"its first bytes are {ascii(data[:_SHOWN])[1:]}") from error
            raise ConnectionLost(f"the debugger sent what no GDB sends: {error}") from error
        self.greeted = greets is True
        for item in arrived:
            if item is Event.INTERRUPT:
                if not self._packets:
                    self._interrupted = True
                elif self._packets[-1] is not None:
                    self._packets.append(None)
            elif item is Event.REFUSED:
                self._write(b"-")
            elif item is Event.REPEAT:
                if self._acknowledges:
                    self._write(self._last)
            elif isinstance(item, bytes):
                if self._acknowledges:
                    self._write(b"+")
                if len(self._packets) >= _QUEUED:
                    raise ConnectionLost("the debugger does not wait for answers")
                self._packets.append(item)

    def send(self, data: bytes) -> None:
        """Send a packet. Raises ConnectionLost."""
        self._last = frame(data)
        self._write(self._last)

    def send_last(self, data: bytes) -> None:
        """Answer the first packet, which may still be on its way, and send nothing after that.

        Raises ConnectionLost.
        """
        self._write(b"+" + frame(data))
        with suppress(OSError):
            self._peer.shutdown(socket.SHUT_WR)

    def stop_acknowledging(self) -> None:
        """From now on neither side acknowledges packets."""
        self._acknowledges = False

    def _write(self, data: bytes) -> None:
        try:
            self._peer.sendall(data)
        except OSError as error:
            late = isinstance(error, TimeoutError)
            why = "the debugger does not read" if late else error.strerror or str(error)
            raise ConnectionLost(f"the connection broke ({why})") from error

    def close(self) -> None:
        """End the connection."""
        self._peer.close()
