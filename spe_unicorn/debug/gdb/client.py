"""The connected debugger, at most one: what it is sent, and how others are turned away."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from spe_unicorn.debug.gdb.commands import Commands
from spe_unicorn.debug.gdb.connection import (
    Connection,
    ConnectionLost,
    Listener,
    StrangerError,
    readable,
)

_PATIENCE: Final = 0.05
"""Seconds between two checks, while GDB holds the machine, of whether the run is to end."""
_LONGEST_TEXT: Final = 1 << 12
_HELD: Final = b"E.another debugger holds this machine"
_STRANGERS: Final = 8
"""The most connections at a time that have not begun yet: one more ends the oldest."""


class Client:
    """The debugger at ``listener``, if there is one.

    ``commands`` makes the object that answers a new debugger's packets. ``gone`` is called when the
    debugger has gone. ``say`` prints a sentence for the user of this program.

    A connection is a debugger's from its first packet on. Until then the machine takes no notice of
    it, and a connection that begins with anything else is closed.
    """

    def __init__(
        self,
        listener: Listener,
        commands: Callable[[Connection], Commands],
        gone: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self.connection: Connection | None = None
        self.commands: Commands | None = None
        self.new = False
        """Whether the debugger has just come: it then asks why the machine stands."""
        self._listener = listener
        self._make_commands = commands
        self._gone = gone
        self._say = say
        self._strangers: list[Connection] = []
        """Connections that have sent no packet yet, in the order in which they came."""
        self._refused = False
        """Whether a stranger was refused: the user is told of the first one alone."""
        self._turned_away: Connection | None = None
        """The last debugger that was turned away: it may not have read the reason yet."""

    def has_come(self) -> bool:
        """Whether a debugger has come just now, and was accepted."""
        come = False
        sources: list[Listener | Connection] = [self._listener, *self._strangers]
        for source in readable(sources, 0):
            if isinstance(source, Listener):
                self._accept()
            elif source in self._strangers:
                come |= self._greet(source)
        return come

    def wait(self) -> None:
        """Wait a little for something to arrive."""
        sources: list[Listener | Connection] = [self._listener, *self._strangers]
        if self.connection is not None:
            sources.append(self.connection)
        for source in readable(sources, _PATIENCE):
            if isinstance(source, Listener):
                self._accept()
            elif source in self._strangers:
                self._greet(source)
            elif source is self.connection and self.connection is not None:
                self.connection.receive()

    def _accept(self) -> None:
        """Accept a connection that has come, unless a debugger is there already."""
        if self.connection is not None:
            try:
                self.connection.receive()  # it may have gone just before
            except ConnectionLost as lost:
                self._say(f"{lost}; the next one has come")
                self.drop()
        if self.connection is not None and self.connection.waiting:
            return  # the present debugger is answered first
        connection = self._listener.accept()
        if connection is None:
            return
        if self.connection is not None:
            self._turn_away(connection)
            return
        if len(self._strangers) >= _STRANGERS:
            self._strangers.pop(0).close()
        self._strangers.append(connection)

    def _greet(self, stranger: Connection) -> bool:
        """Receive what a connection sends first; whether it is now the debugger's."""
        try:
            stranger.receive()
        except StrangerError as error:
            self._refuse(stranger, error)
            return False
        except ConnectionLost as lost:
            self._strangers.remove(stranger)
            stranger.close()
            if stranger.greeted:
                self._say(str(lost))
            return False
        if not stranger.greeted:
            return False
        self._strangers.remove(stranger)
        if self.connection is not None:
            self._turn_away(stranger)
            return False
        self.connection = stranger
        self.new = True
        self.commands = self._make_commands(stranger)
        return True

    def _refuse(self, stranger: Connection, error: StrangerError) -> None:
        self._strangers.remove(stranger)
        stranger.close()
        if not self._refused:
            self._say(
                f"a connection that is no debugger's was refused: {error}; others like it are"
                " refused without a word"
            )
        self._refused = True

    def _turn_away(self, connection: Connection) -> None:
        """Tell a debugger why it is not accepted; it reads that after its first packet."""
        if self._turned_away is not None:
            self._turned_away.close()
        self._turned_away = connection
        with suppress(ConnectionLost):
            connection.send_last(_HELD)
        self._say("a second debugger was turned away: one holds this machine already")

    def close(self) -> None:
        """Close all connections."""
        self.drop()
        for stranger in self._strangers:
            stranger.close()
        self._strangers.clear()
        if self._turned_away is not None:
            self._turned_away.close()
            self._turned_away = None

    def drop(self) -> None:
        """The debugger has gone: forget it."""
        if self.connection is not None:
            self.connection.close()
        self.connection = self.commands = None
        self._gone()

    def print(self, text: str) -> None:
        """Have GDB print a text."""
        data = text.encode()
        try:
            while data and self.connection is not None:
                self.connection.send(b"O" + data[:_LONGEST_TEXT].hex().encode())
                data = data[_LONGEST_TEXT:]
        except ConnectionLost as lost:
            self.drop()
            self._say(str(lost))

    def tell_last(self, reply: str) -> None:
        """Send a last packet, and close the connection."""
        if self.connection is not None:
            with suppress(ConnectionLost):
                self.connection.send(reply.encode())
            self.drop()
