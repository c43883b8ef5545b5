"""GDB and clients of its protocol, against machines in this process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from spe_unicorn import Machine
from spe_unicorn.debug.gdb.connection import Address, Listener
from spe_unicorn.debug.gdb.debugger import Debugger
from spe_unicorn.debug.gdb.packets import Reader, frame
from spe_unicorn.debug.gdb.surroundings import Surroundings
from spe_unicorn.debug.travel import HISTORY
from spe_unicorn.host.ports import Ending
from spe_unicorn.session.outcome import Outcome
from tests.support.running.processes import WALL_SECONDS

GDB = shutil.which("gdb-multiarch")
_STEPPED = b"T05thread"
STATUSES = {Ending.LIMIT: 124, Ending.ASLEEP: 125, Ending.FAILED: 126}


@dataclass
class Session:
    """What a debugged run came to: its outcome, what GDB printed, what the user is told."""

    outcome: Outcome
    text: str
    said: list[str]

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def met_the_beginning(self) -> bool:
        """Whether GDB was told that nothing is recorded before, in words of GDB 13 or of GDB 16."""
        words = ("No more reverse-execution history", "Reached end of recorded history")
        return any(said in self.text for said in words)


@dataclass
class Held:
    """Stands for the command line: what the debugger tells it, and asks of it."""

    said: list[str] = field(default_factory=list)
    ended: bool = False
    killed: bool = False
    held: list[bool] = field(default_factory=list)

    def around(self) -> Surroundings:
        def kill() -> None:
            self.ended = self.killed = True

        return Surroundings(
            say=self.said.append,
            stopping=lambda: self.ended,
            held=self.held.append,
            killed=kill,
            statuses=STATUSES,
        )


def with_gdb(
    machine: Machine,
    commands: Sequence[str],
    folder: Path,
    *,
    operations: int = 20_000_000,
    before: Callable[[Debugger], None] = lambda _: None,
    history: int = HISTORY,
) -> Session:
    """Run a machine under ``gdb-multiarch``, which executes ``commands`` and then detaches.

    The first command that fails is the last one.
    """
    listener = Listener(Address(path=str(folder / "socket")))
    script = folder / "commands"
    script.write_text("\n".join(commands) + "\n")
    held = Held()
    debugger = machine.debug(listener, held.around(), history=history)
    before(debugger)
    with subprocess.Popen(
        [
            *(str(GDB), "-batch", "-nx", "-ex", "set pagination off", "-ex", "set width 0"),
            *("-ex", f"set remotetimeout {WALL_SECONDS}"),  # 2 s are few on a busy machine
            *("-ex", f"target remote {listener.address}", "-x", str(script)),
            str(machine.image.path),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as gdb:
        watchdog = threading.Timer(WALL_SECONDS, gdb.kill)
        watchdog.start()
        text: list[str] = []
        reader = threading.Thread(target=lambda: text.append(gdb.stdout.read()))  # type: ignore[union-attr]
        reader.start()
        try:
            outcome = machine.run(operations)
        finally:
            debugger.close()
            reader.join()
            watchdog.cancel()
    print("".join(text), file=sys.stderr)
    return Session(outcome, "".join(text), held.said)


class Client:
    """Speaks the protocol by hand, in a thread of its own: ``talk`` is its script."""

    def __init__(self, listener: Listener) -> None:
        self._socket = socket.create_connection((listener.address.host, listener.address.port))
        self._socket.settimeout(WALL_SECONDS)
        self._reader = Reader()
        self._arrived: list[bytes] = []

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ask(self, data: str | bytes) -> bytes:
        """Send a packet; the next packet that comes."""
        self.send(frame(data.encode() if isinstance(data, str) else data))
        return self.answer()

    def answer(self) -> bytes:
        while not self._arrived:
            data = self._socket.recv(1 << 16)
            if not data:
                return b""
            self._arrived += [item for item in self._reader.feed(data) if isinstance(item, bytes)]
        return self._arrived.pop(0)

    def try_to_send(self, data: bytes) -> None:
        """Send to somebody who may have closed the connection."""
        with suppress(OSError):
            self._socket.sendall(data)

    def rest(self) -> bytes:
        """All that still comes before the other side closes the connection."""
        found = b""
        with suppress(ConnectionError):
            while data := self._socket.recv(1 << 16):
                found += data
        return found

    def close(self) -> None:
        self._socket.close()


def ask_past_text(client: Client, packet: str) -> bytes:
    """The answer to a packet, after the text that comes before it."""
    answer = client.ask(packet)
    while answer.startswith(b"O") and answer != b"OK":
        answer = client.answer()
    return answer


def back_to_last_stop(client: Client, machine: Machine) -> int | None:
    """``reverse-continue``, as GDB has it: the position of the stop, None for the beginning."""
    said = ask_past_text(client, "bc")
    if b"replaylog:begin" in said:
        return None
    if b"watch:" in said:  # the machine stands after the access
        assert ask_past_text(client, "bs").startswith(b"T05")
    return machine.operations


def on_to_next_stop(client: Client, machine: Machine, breakpoints: Collection[int]) -> list[int]:
    """``continue``, as GDB has it: the positions of the stop, two of them after a watched access.

    GDB steps over a breakpoint where the machine stands, and over a watched access. It takes a
    plain SIGTRAP for the end of that step.
    """
    cpu = machine.pes[0]
    said = b""
    if cpu.pc in breakpoints:
        said = ask_past_text(client, "vCont;s:1")
    if not said or said.startswith(_STEPPED):
        said = ask_past_text(client, "vCont;c")
    found = [machine.operations]
    if b"watch:" in said:
        said = ask_past_text(client, "vCont;s:1")
        if not said.startswith(_STEPPED) or cpu.pc in breakpoints:
            found.append(machine.operations)
    return found


def with_client(
    machine: Machine,
    talk: Callable[[Callable[[], Client]], None],
    *,
    operations: int | None = None,
    waits: bool = True,
    history: int = HISTORY,
) -> tuple[Outcome, Held]:
    """Run a machine while ``talk`` connects to it as often as it likes.

    When ``talk`` is done, the run is ended.
    """
    listener = Listener(Address(port=0))
    held = Held()
    debugger = machine.debug(listener, held.around(), waits=waits, history=history)
    failures: list[BaseException] = []
    clients: list[Client] = []

    def connect() -> Client:
        clients.append(Client(listener))
        return clients[-1]

    def act() -> None:
        try:
            talk(connect)
        except BaseException as error:
            failures.append(error)
        finally:
            held.ended = True
            machine.stop()

    thread = threading.Thread(target=act)
    thread.start()
    try:
        outcome = machine.run(operations)
    except BaseException:
        debugger.close()  # or a client waits for an answer that never comes
        raise
    finally:
        thread.join()
        for client in clients:
            client.close()
        debugger.close()
    if failures:
        raise failures[0]
    return outcome, held
