"""What compiled code needs to answer for the UART: where it is, and what may be known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spe_unicorn.devices.pl011 import PL011
from spe_unicorn.host.pe.stops import StopHandler


class SharedUART:
    """Has compiled code answer most accesses of a guest that prints.

    ``base`` is the UART's physical address. ``patient`` says whether nobody has to be told of each
    access or character at once.
    """

    def __init__(
        self, uart: PL011, base: int, pes: Sequence[StopHandler], patient: Callable[[], bool]
    ) -> None:
        self._base = base
        self._patient = patient
        for pe in pes:
            pe.cpu.state.uart = uart.cells.ctypes.data
            pe.uart_at = self._at
            pe.uart_sent = uart.send

    def _at(self) -> int:
        """``State.uart_at`` for the run that begins."""
        return self._base if self._patient() else 0
