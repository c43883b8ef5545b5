"""How many connections may be there that have not begun yet, and which one has to go."""

from __future__ import annotations

import select
import socket
from typing import Any

from spe_unicorn.debug.gdb.client import Client
from spe_unicorn.debug.gdb.connection import Address, Listener


def is_closed(peer: socket.socket) -> bool:
    """Whether the other end was closed: there is something to read, and it is the end."""
    return bool(select.select([peer], (), (), 0)[0]) and peer.recv(1) == b""


def test_the_oldest_of_nine_that_say_nothing_is_closed() -> None:
    said: list[str] = []
    commands: Any = None
    listener = Listener(Address("127.0.0.1", 0))
    client = Client(listener, commands, lambda: None, said.append)
    peers = []
    for _ in range(9):
        peers.append(socket.create_connection((listener.address.host, listener.address.port)))
        assert not client.has_come()
        if len(peers) == 8:
            assert not any(map(is_closed, peers))
    assert [is_closed(peer) for peer in peers] == [True] + [False] * 8
    client.close()
    assert all(map(is_closed, peers))
    assert said == []
    for peer in peers:
        peer.close()
    listener.close()
