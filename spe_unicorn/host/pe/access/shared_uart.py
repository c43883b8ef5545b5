"""What compiled code needs to answer for the UART: where it is, and what may be known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spe_unicorn.devices.pl011 import PL011
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.pe.stops import StopHandler


class SharedUART:
    """Has compiled code answer most accesses of a guest that prints.

    ``base`` is the UART's physical address. ``patient`` says whether no observer has to be told of
    each access or character at once.
    """

    def __init__(
        self, uart: PL011, base: int, pes: Sequence[StopHandler], patient: Callable[[], bool]
    ) -> None:
        self._base = base
        self._patient = patient
        for pe in pes:
            pe.cpu.state.uart = uart.cells.ctypes.data
            pe.accelerators.append(self)
            pe.uart_sent = uart.send

    def offer(self, request: RunRequest) -> None:
        """Have compiled code answer in a run, if no observer is told of each character."""
        if request.goes_through and self._patient():
            request.uart_at = self._base
