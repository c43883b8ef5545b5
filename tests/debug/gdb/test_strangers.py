"""Who is obeyed at GDB's port: debuggers by how they begin, and nobody else."""

from __future__ import annotations

import select
import socket
import time
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.gdb import connection as connections
from spe_unicorn.debug.gdb.connection import Connection, StrangerError
from spe_unicorn.debug.gdb.packets import begins_with_packet, frame
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import GDB, with_client, with_gdb
from tests.support.small_programs import LOOP, program

CELL = RAM + 0x1000
OBEYED = frame(b"M%x,4:deadbeef" % CELL) + frame(b"m%x,4" % CELL) + frame(b"k")


def post(body: bytes) -> bytes:
    """What a browser sends for a form or a fetch() of a page from elsewhere."""
    head = [
        b"POST / HTTP/1.1",
        b"Host: localhost:1234",
        b"Origin: http://elsewhere.example",
        b"Content-Type: text/plain",
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join([*head, b"", body])


# The first bytes of GDB, of GDB with `set remote interrupt-on-connect on`, of a serial line that
# begins with a refusal, and of LLDB.
DEBUGGERS = [b"+$qSupported", b"+\x03$qSupported", b"-$?#3f", b"$qSupported", b"+$QStartNoAckMode"]
STRANGERS = [b"POST / HTTP/1.1", b"GET /", b"OPTIONS", b"\x16\x03\x01", b"\r\n$k#6b", b" $k#6b"]


@pytest.mark.parametrize("received", DEBUGGERS)
def test_a_debugger_begins_with_a_packet(received: bytes) -> None:
    assert begins_with_packet(received) is True


@pytest.mark.parametrize("received", [*STRANGERS, *(b"+" + stranger for stranger in STRANGERS)])
def test_whoever_begins_otherwise_is_no_debugger(received: bytes) -> None:
    assert begins_with_packet(received) is False


def test_many_acknowledgements_before_the_first_packet_are_no_debuggers() -> None:
    assert begins_with_packet(b"+" * 17 + b"$k#6b") is False


@pytest.mark.parametrize("method", [b"$k#6b", b"+$k#6b", b"$g#67$k#6b"])
def test_a_request_whose_method_is_a_packet_is_not_obeyed(method: bytes) -> None:
    """A page may choose the method where its own name leads to this address (DNS rebinding)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(post(OBEYED).replace(b"POST", method))
        connection = Connection(ours)
        with pytest.raises(StrangerError, match="its first bytes are"):
            connection.receive()
        assert connection.packet() is None
        assert not select.select((theirs,), (), (), 0)[0]  # it is not even acknowledged


@pytest.mark.parametrize("received", [b"", b"+", b"++-\x03"])
def test_acknowledgements_alone_leave_it_open(received: bytes) -> None:
    assert begins_with_packet(received) is None


def test_a_web_page_drives_nothing_and_gdb_is_served_after_it(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP))

    def talk(connect):
        page = connect()
        page.send(post(OBEYED))
        assert page.rest() == b""
        page.close()
        client = connect()
        assert client.ask("qSupported").startswith(b"PacketSize")
        assert client.ask(f"m{CELL:x},4") == b"00000000"

    _, held = with_client(machine, talk, operations=1000)
    assert held.said == [
        "a connection that is no debugger's was refused: its first bytes are 'POST / HTTP/1.1\\r';"
        " others like it are refused without a word"
    ]


def test_packets_after_a_strange_beginning_are_not_obeyed_when_they_come_later(
    tmp_path: Path,
) -> None:
    machine = Machine(program(tmp_path, LOOP))

    def talk(connect):
        for beginning in (b"P", b"+P", post(b"")):
            page = connect()
            page.send(beginning)
            time.sleep(0.2)
            page.try_to_send(OBEYED)
            assert page.rest() == b""
        assert connect().ask(f"m{CELL:x},4") == b"00000000"

    with_client(machine, talk, operations=1000)


def test_a_web_page_does_not_stop_a_machine_that_runs(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP))

    def talk(connect):
        connect()  # says nothing: browsers open connections for later
        connect().send(b"+")
        page = connect()
        page.send(post(OBEYED + b"\x03"))
        assert page.rest() == b""

    _, held = with_client(machine, talk, waits=False)
    assert held.held == []
    assert not held.killed


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("first", [b"+", b"-", b"\x03", b"+\x03+", b""])
@pytest.mark.parametrize("packet", [b"qSupported:swbreak+;hwbreak+", b"QStartNoAckMode", b"?"])
def test_debuggers_that_acknowledge_first_are_served(
    tmp_path: Path, first: bytes, packet: bytes
) -> None:
    def talk(connect):
        client = connect()
        client.send(first)
        time.sleep(0.1)
        client.send(frame(packet))
        assert client.answer().startswith((b"PacketSize", b"OK", b"T05"))
        client.close()
        whole = connect()
        whole.send(first + frame(packet))
        assert whole.answer()

    with_client(Machine(program(tmp_path, LOOP)), talk, operations=1000)


def test_many_that_say_nothing_keep_no_debugger_away(tmp_path: Path) -> None:
    def talk(connect):
        idle = [connect() for _ in range(20)]
        client = connect()
        assert client.ask("?").startswith(b"T05")
        late = idle[-1]
        late.send(frame(b"?"))
        assert late.answer() == b"E.another debugger holds this machine"

    with_client(Machine(program(tmp_path, LOOP)), talk, operations=1000)


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_the_real_gdb_is_served_after_a_web_page(tmp_path: Path) -> None:
    pages = []

    def browse(_):
        page = socket.socket(socket.AF_UNIX)
        page.connect(str(tmp_path / "socket"))
        page.sendall(post(OBEYED))
        pages.append(page)

    session = with_gdb(
        Machine(program(tmp_path, a64.code([a64.movz(0, 5), a64.b(0)]))),
        ["stepi", "p $x0", f"x/1xw {CELL:#x}"],
        tmp_path,
        operations=1000,
        before=browse,
    )
    for page in pages:
        page.close()
    assert "$1 = 5" in session.text
    assert f"{CELL:#x}:\t0x00000000" in session.text
    assert len(session.said) == 1


def test_who_sends_without_end_does_not_hold_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_CHUNK", 1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours)
        theirs.sendall(b"+" * 100)
        connection.receive()
        assert select.select((ours,), (), (), 0)[0]


def test_what_a_stranger_sends_is_shown_without_its_control_characters() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"\x1b[31mred" + bytes(100))
        with pytest.raises(StrangerError, match=r"are '\\x1b\[31mred(\\x00){8}'$"):
            Connection(ours).receive()
