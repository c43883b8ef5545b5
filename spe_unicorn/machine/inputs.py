"""A log of what comes to a machine from outside, and the answers from that log in a replay.

A machine is deterministic but for what people type, when they press a key, and what files of the
host hold. An :class:`InputLog` keeps each of these with the number of operations after which it
came. In a replay nothing is asked of the outside, and nothing goes there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.storage.backing import HostFile

T = TypeVar("T")
POLL, READ, WAIT, KEY, CALL, FILE = "poll", "read", "wait", "key", "call", "file"
"""Kinds: the UART was looked at between operations, input was read within one, an idle machine was
woken, the power key was pressed, a semihosting call was answered, a file of a device's was used."""
VIRTIO_POLL, VIRTIO_READ, VIRTIO_WAIT = "virtio poll", "virtio read", "virtio wait"
"""The first three, of the virtio console."""
_FROM_OUTSIDE: Final = frozenset({POLL, VIRTIO_POLL, KEY})
"""Kinds that come between two operations, whatever the guest does."""
_ASKED_FOR: Final = frozenset({READ, VIRTIO_READ, CALL, FILE})
"""Kinds that an operation of the guest asks for."""
_ENTRY: Final = 200
"""Bytes that an entry takes, about."""


class ReplayError(RuntimeError):
    """A replay differs from the run: somebody changed the machine, or this is a bug."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input that came after ``at`` operations. ``stores`` are what a call stored, and where."""

    at: int
    kind: str
    value: Any
    stores: tuple[tuple[int, bytes], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the host that it takes, about."""
        data = len(self.value) if isinstance(self.value, bytes) else 0
        return _ENTRY + data + sum(len(stored) for _, stored in self.stores)


class InputLog:
    """The inputs in order. ``cursor`` is how many of them came before the current place."""

    def __init__(self, most: int = sys.maxsize, full: Callable[[], None] = lambda: None) -> None:
        """``full`` is called if inputs since the last snapshot take more than ``most`` bytes.

        It is called at each operation that asks for more. See :meth:`begin_at_snapshot`.
        """
        self._most = most
        self._full = full
        self._new = 0
        self.entries: list[Input] = []
        """The inputs that are kept, from number :attr:`begin` on."""
        self.begin = 0
        self.cursor = 0
        self.replaying = False
        self.size = 0
        """Bytes of the host that it takes, about."""
        self._stores: list[tuple[int, bytes]] = []

    def add(self, at: int, kind: str, value: object) -> None:
        """Add an input that has come."""
        entry = Input(at, kind, value, tuple(self._stores))
        self._stores.clear()
        self.entries.append(entry)
        self.size += entry.size
        self._new += entry.size
        self.cursor = self.begin + len(self.entries)
        if self._new > self._most and kind in _ASKED_FOR:
            self._full()

    def begin_at_snapshot(self) -> None:
        """Count bytes from here on: a snapshot was taken."""
        self._new = 0

    def cut(self) -> None:
        """Forget the inputs after this place: the machine goes another way from here."""
        kept = self.cursor - self.begin
        self.size -= sum(entry.size for entry in self.entries[kept:])
        del self.entries[kept:]

    def forget(self, number: int) -> None:
        """Forget the inputs before that number: no replay goes back so far."""
        count = number - self.begin
        self.size -= sum(entry.size for entry in self.entries[:count])
        del self.entries[:count]
        self.begin = number

    def stored(self, address: int, data: bytes) -> None:
        """Note what a call has stored, before its answer is known."""
        self._stores.append((address, data))

    def next(self) -> Input | None:
        """The next input of the replay, None if there is none."""
        number = self.cursor - self.begin
        return self.entries[number] if number < len(self.entries) else None

    def take(self, at: int, kind: str) -> Input | None:
        """Take the next input if it came as ``kind`` after ``at`` operations, else None."""
        entry = self.next()
        if entry is None or entry.kind != kind or entry.at != at:
            return None
        self.cursor += 1
        return entry

    def due(self) -> int | None:
        """After how many operations the next input comes, None if the guest asks for it."""
        entry = self.next()
        return entry.at if entry is not None and entry.kind in _FROM_OUTSIDE else None


class LoggedFile:
    """A file of the host that a device uses, left alone in a replay."""

    def __init__(self, file: HostFile, inputs: Inputs) -> None:
        self._file = file
        self._inputs = inputs
        self.read_only = file.read_only
        self.size = file.size

    def read(self, offset: int, size: int) -> bytes | None:
        """Bytes, None where the host cannot read them."""
        return self._inputs.answer(FILE, lambda: self._file.read(offset, size))

    def write(self, offset: int, data: bytes) -> bool:
        """Store bytes; False where the host cannot."""
        return self._inputs.answer(FILE, lambda: self._file.write(offset, data))

    def flush(self) -> bool:
        """Have the bytes stored for good; False where the host cannot."""
        return self._inputs.answer(FILE, self._file.flush)


class Inputs:
    """The ways into one machine, and its console's way out.

    ``now`` gives the number of operations so far. While :attr:`log` is None nothing is logged.
    """

    WIRING = ("log",)
    TRANSIT = ("between",)

    def __init__(self, console: ConsoleEnds, now: Callable[[], int]) -> None:
        self._console = console
        self._now = now
        self.log: InputLog | None = None
        self.between = False
        """Whether devices are polled between two operations now."""
        self.ends = ConsoleEnds(
            self._out(console.write),
            self._read,
            self._arrived,
            self._wait,
            self._silent,
            console.patient,
            self._out(console.write_secure),
            self._out(console.write_virtio),
            self._arrived_virtio,
            self._wait_virtio,
        )
        """The console for the devices of the machine."""

    @property
    def replaying(self) -> bool:
        """Whether the machine repeats what it has done before."""
        return self.log is not None and self.log.replaying

    def _out(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        def out(data: bytes) -> None:
            if not self.replaying:
                write(data)

        return out

    def _read(self, size: int) -> bytes:
        return self._console.read(size)  # by semihosting alone, whose calls are written down

    def _arrived(self, size: int) -> bytes:
        kind = POLL if self.between else READ
        return self._asked(kind, lambda: self._console.arrived(size), b"")

    def _wait(self) -> bool:
        return self._asked(WAIT, self._console.wait, False)

    def _silent(self) -> bool:
        return not self.replaying and self._console.silent()

    def _arrived_virtio(self, size: int) -> bytes:
        kind = VIRTIO_POLL if self.between else VIRTIO_READ
        return self._asked(kind, lambda: self._console.arrived_virtio(size), b"")

    def _wait_virtio(self) -> bool:
        return self._asked(VIRTIO_WAIT, self._console.wait_virtio, False)

    def _asked(self, kind: str, live: Callable[[], T], nothing: T) -> T:
        log = self.log
        if log is None:
            return live()
        if log.replaying:
            entry = log.take(self._now(), kind)
            return nothing if entry is None else entry.value
        value = live()
        if value != nothing:
            log.add(self._now(), kind, value)
        return value

    def pressed(self) -> None:
        """The power key was pressed."""
        if self.log is not None and not self.log.replaying:
            self.log.add(self._now(), KEY, None)

    def stored(self, address: int, data: bytes) -> None:
        """A call stores something in the guest's memory."""
        if self.log is not None:
            self.log.stored(address, data)

    def call(self, live: Callable[[], T], store: Callable[[int, bytes], object]) -> T:
        """The answer to a semihosting call: ``live()``, or in a replay the logged answer.

        Raises ReplayError if the log has no such call here.
        """
        return self.answer(CALL, live, store)

    def answer(
        self,
        kind: str,
        live: Callable[[], T],
        store: Callable[[int, bytes], object] = lambda address, data: None,
    ) -> T:
        """The outside's answer to an act of the guest: ``live()``, or in a replay the logged one.

        Raises ReplayError if the log has no such act here.
        """
        log = self.log
        if log is None:
            return live()
        if not log.replaying:
            answer = live()
            log.add(self._now(), kind, answer)
            return answer
        entry = log.take(self._now(), kind)
        if entry is None:
            raise ReplayError(f"no {kind} was answered after {self._now()} operations")
        for address, data in entry.stores:
            store(address, data)
        answered: T = entry.value
        return answered
