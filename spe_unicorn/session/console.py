"""The guest's console as Python holds it: what it printed, and what it will read."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.machine.console_ends import NO_CONSOLE, ConsoleEnds
from spe_unicorn.signals import Signal

KEPT = 16 << 20
"""Bytes of output that are kept, the last ones: no guest grows its host."""


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """What is saved of a console."""

    position: int = 0
    """Bytes printed since reset."""
    output: bytes = b""
    """What is kept of them."""
    typed: bytes = b""
    """What was typed by Python and has not been read."""


class Console:
    """One console. What is typed here is read before what comes from where it leads to."""

    def __init__(self) -> None:
        self.written: Signal[[bytes]] = Signal()
        """Told of output, as it comes."""
        self.typed: Signal[[]] = Signal()
        """Told after each :meth:`type`."""
        self.position = 0
        """Bytes that the guest has printed since reset."""
        self._kept = True
        self._to = NO_CONSOLE
        self._output = bytearray()
        self._input = bytearray()
        self.ends = ConsoleEnds(self._write, self._read, self._arrived, self._wait)
        """The ends that the board is given."""

    def lead_to(self, ends: ConsoleEnds) -> None:
        """Send output there from now on, in place of keeping it, and read from there."""
        self._kept = False
        self._to = ends

    @property
    def output(self) -> bytes:
        """What the guest printed so far; of more than :data:`KEPT` bytes the last ones.

        Empty where the output goes somewhere else.
        """
        return bytes(self._output[-KEPT:])

    @property
    def text(self) -> str:
        """:attr:`output` as UTF-8; what is none is replaced."""
        return self.output.decode(errors="replace")

    def type(self, data: str | bytes) -> None:
        """Type: the guest reads it from its UART, or by semihosting, behind what was typed before.

        Text is UTF-8; a line ends with what the guest expects, mostly a carriage return.
        """
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
