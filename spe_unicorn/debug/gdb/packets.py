"""The frames of GDB's remote serial protocol, as bytes (GDB manual, "Remote Protocol").

A packet is ``$data#cc`` with ``cc`` the sum of the data modulo 256, in hexadecimal digits. ``#``,
``$``, ``}`` and ``*`` stand in data as ``}`` and the byte exclusive-or 0x20. The receiver answers
``+`` or ``-`` until both sides agree on doing without. A byte 0x03 outside a packet is Ctrl-C.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

PACKET_SIZE: Final = 0x4000
"""Bytes of data that a packet may have, before escaping; GDB is told so."""
_LONGEST: Final = 2 * PACKET_SIZE + 16
"""The most bytes of a packet on the wire; a longer one is refused."""
_ESCAPE: Final = 0x7D
_ESCAPED: Final = frozenset(b"#$}*")
INTERRUPT: Final = 0x03
_BEFORE_PACKETS: Final = bytes((*b"+-", INTERRUPT))
"""What may come before the first packet, of GDB, LLDB and their like."""
_MOST_BEFORE: Final = 16
"""The most bytes of those at once: with many, a request would come in pieces."""


class Event(Enum):
    """What arrived besides packets."""

    INTERRUPT = auto()
    """Ctrl-C in the debugger."""
    REFUSED = auto()
    """A packet whose checksum is wrong: it is asked for again."""
    REPEAT = auto()
    """The other side did not understand our last packet."""


class ProtocolError(Exception):
    """The other side does not speak the protocol; the connection is of no use any more."""


def begins_with_packet(received: bytes) -> bool | None:
    """Whether the first bytes of a connection are a debugger's; None if that is still open.

    A debugger's first byte that is no acknowledgement and no Ctrl-C begins a packet. A request that
    a browser sends begins with a word, a TLS connection with the byte 0x16. The word may be
    ``$k#6b``, where the page has made this address one of its own: then a space follows, which
    :class:`Reader` refuses.
    """
    rest = received.lstrip(_BEFORE_PACKETS)
    if len(received) - len(rest) > _MOST_BEFORE:
        return False
    return rest[:1] == b"$" if rest else None


def frame(data: bytes) -> bytes:
    """``data`` as a packet."""
    escaped = bytearray()
    for byte in data:
        if byte in _ESCAPED:
            escaped += bytes((_ESCAPE, byte ^ 0x20))
        else:
            escaped.append(byte)
    return b"$%s#%02x" % (bytes(escaped), sum(escaped) & 0xFF)


class Reader:
    """Takes bytes as they arrive and gives packets and events in their order.

    It keeps one incomplete packet of bounded size, whatever is sent.
    """

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, received: bytes) -> list[bytes | Event]:
        """The packets (their data, unescaped) and events that ``received`` completes.

        Raises ProtocolError, and gives nothing, for a packet that is longer than any that we allow
        and for bytes outside packets that mean nothing there.
        """
        self._pending += received
        arrived: list[bytes | Event] = []
        while self._pending:
            first = self._pending[0]
            if first == ord("$"):
                packet = self._packet()
                if packet is None:
                    break
                arrived.append(packet)
                continue
            del self._pending[0]
            if first == INTERRUPT:
                arrived.append(Event.INTERRUPT)
            elif first == ord("-"):
                arrived.append(Event.REPEAT)
            elif first != ord("+"):
                raise ProtocolError(f"{chr(first)!a} outside a packet")
        return arrived

    def _packet(self) -> bytes | Event | None:
        """The packet at the beginning of what is pending, None while it is incomplete."""
        end = self._pending.find(b"#")
        if end < 0 or len(self._pending) < end + 3:
            if len(self._pending) > _LONGEST:
                raise ProtocolError(f"a packet of more than {_LONGEST} bytes")
            return None
        if end > _LONGEST:
            raise ProtocolError(f"a packet of {end} bytes, {_LONGEST} are allowed")
        data = bytes(self._pending[1:end])
        digits = bytes(self._pending[end + 1 : end + 3])
        del self._pending[: end + 3]
        try:
            expected = int(digits, 16)
        except ValueError:
            return Event.REFUSED
        if sum(data) & 0xFF != expected:
            return Event.REFUSED
        return unescape(data)


def unescape(data: bytes) -> bytes:
    """Data of a packet without its escapes; a lone escape at the end is dropped."""
    plain = bytearray()
    flip = 0
    for byte in data:
        if byte == _ESCAPE and not flip:
            flip = 0x20
        else:
            plain.append(byte ^ flip)
            flip = 0
    return bytes(plain)
