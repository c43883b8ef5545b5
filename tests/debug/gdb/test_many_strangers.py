"""How many connections may be there that have not begun yet, and which one has to go."""

from __future__ import annotations

import os
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from spe_unicorn.debug.gdb.client import Client
from spe_unicorn.debug.gdb.connection import Address, Connection, Listener


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


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """All numbers below 1,100 are taken: `select` takes none above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < 1200:
        pytest.skip(f"the host lets nobody have more than {hard} files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    with ExitStack() as opened:
        while (number := os.open(os.devnull, os.O_RDONLY)) < 1100:
            opened.callback(os.close, number)
        os.close(number)
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open_files")
def test_a_debugger_comes_to_a_process_with_many_open_files() -> None:
    class Nobody:
        stop = ""

    greeted: list[Connection] = []

    def commands(connection: Connection) -> Any:
        greeted.append(connection)
        return Nobody()

    listener = Listener(Address("127.0.0.1", 0))
    assert listener.fileno() >= 1100
    client = Client(listener, commands, lambda: None, lambda _: None)
    peer = socket.create_connection((listener.address.host, listener.address.port))
    assert not client.has_come()  # it has said nothing yet
    peer.sendall(b"$?#3f")
    while not client.has_come():
        pass
    client.wait()
    assert len(greeted) == 1
    client.close()
    peer.close()
    listener.close()
