"""The guest's console as Python holds it: what it printed, and what it will read."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.machine.console_ends import NO_CONSOLE, ConsoleEnds
from spe_unicorn.signals import Signal

KEPT = 16 << 20
"""Bytes of output that are kept, the last ones, so that no guest grows its host."""


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """The saved state of a console."""

    position: int = 0
    """Bytes printed since reset."""
    output: bytes = b""
    """The bytes of these that are kept."""
    typed: bytes = b""
    """What Python has typed and the guest has not read."""


class Console:
    """One console. The guest reads what Python types here before what the other end gives."""

    def __init__(self) -> None:
        self.written: Signal[[bytes]] = Signal()
        """Told of each piece of output."""
        self.typed: Signal[[]] = Signal()
        """Told when there may be input: after each :meth:`type` and :meth:`lead_to`."""
        self.position = 0
        """Bytes that the guest has printed since reset."""
        self._kept = True
        self._to = NO_CONSOLE
        self._output = bytearray()
        self._input = bytearray()
        self.ends = ConsoleEnds(
            self._write, self._read, self._arrived, self._wait, self._silent, self._patient
        )
        """The ends that the board is given."""

    def lead_to(self, ends: ConsoleEnds) -> None:
        """From now on send output to ``ends`` instead of keeping it, and take input from there."""
        self._kept = False
        self._to = ends
        self.typed()

    @property
    def output(self) -> bytes:
        """What the guest printed so far, of more than :data:`KEPT` bytes the last ones.

        It is empty if the console leads somewhere else.
        """
        return bytes(self._output[-KEPT:])

    @property
    def text(self) -> str:
        """:attr:`output` as UTF-8; what is none is replaced."""
        return self.output.decode(errors="replace")

    def type(self, data: str | bytes) -> None:
        """Type ``data``, which the guest reads from its UART or by semihosting.

        Text is sent as UTF-8. A line ends with what the guest expects, mostly a carriage return.
        Raises TypeError for what is neither text nor bytes.
        """
        if not isinstance(data, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"text or bytes are typed, got {data!r}")
        self._input += data.encode() if isinstance(data, str) else data
        self.typed()

    def save(self) -> ConsoleState:
        """What was printed and typed so far."""
        return ConsoleState(self.position, self.output, bytes(self._input))

    def restore(self, state: ConsoleState) -> None:
        """Hold what :meth:`save` gave, and nothing else."""
        self.position = state.position
        self._output = bytearray(state.output)
        self._input = bytearray(state.typed)

    def _write(self, data: bytes) -> None:
        self.position += len(data)
        if self._kept:
            self._output += data
            if len(self._output) > 2 * KEPT:
                del self._output[:-KEPT]
        self._to.write(data)
        self.written(data)

    def _take(self, size: int) -> bytes:
        data = bytes(self._input[:size])
        del self._input[:size]
        return data

    def _read(self, size: int) -> bytes:
        return self._take(size) if self._input else self._to.read(size)

    def _arrived(self, size: int) -> bytes:
        return self._take(size) if self._input else self._to.arrived(size)

    def _wait(self) -> bool:
        return bool(self._input) or self._to.wait()

    def _silent(self) -> bool:
        return not self._input and self._to.silent()

    def _patient(self) -> bool:
        return not self.written and self._to.patient()
