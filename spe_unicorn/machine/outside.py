"""What comes to a machine from outside between two operations: typed text, and the power key."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.machine.inputs import KEY, Inputs, ReplayError
from spe_unicorn.machine.peripherals import Peripherals


class Outside:
    """Hands what comes from outside to the devices that wait for it.

    ``executed`` gives the operations of all PEs so far. ``work_out_deadlines`` is called after a
    device has got something: it may drive a line some time from now.
    """

    TRANSIT = ("_key_asked",)

    def __init__(
        self,
        inputs: Inputs,
        peripherals: Peripherals,
        executed: Callable[[], int],
        work_out_deadlines: Callable[[], None],
    ) -> None:
        self._inputs = inputs
        self._peripherals = peripherals
        self._executed = executed
        self._work_out_deadlines = work_out_deadlines
        self._key_asked = False

    def press_power_key(self) -> None:
        """Ask for a press of the power key; from anywhere, at any time.

        The next :meth:`press_if_asked` presses it.
        """
        self._key_asked = True

    def press_if_asked(self) -> bool:
        """Press the power key if that was asked for. Return whether it was pressed."""
        if not self._key_asked or self._inputs.replaying:
            return False
        self._key_asked = False
        self._press()
        self._inputs.pressed()
        return True

    def _press(self) -> None:
        self._peripherals.power_key.press()
        self._work_out_deadlines()

    def poll(self) -> None:
        """Have the devices that listen take what was typed. Called between two operations."""
        uart, virtio = self._peripherals.uart, self._peripherals.virtio
        uart.forget()
        self._inputs.between = True
        try:
            if uart.listening:
                uart.poll()
            if virtio.listening:
                virtio.poll()
                self._work_out_deadlines()
        finally:
            self._inputs.between = False

    def wait(self) -> bool:
        """Wait for input, when nothing else can wake the machine. Return False if none can come."""
        uart, virtio = self._peripherals.uart.listening, self._peripherals.virtio.listening
        key = self._peripherals.gpio.listening
        console = self._inputs.ends
        came = (uart or key) and console.wait()
        typed = came and uart
        if not came and (virtio or key):
            typed = console.wait_virtio() and virtio
        if typed:
            self.poll()
        return self.press_if_asked() or typed

    def replay(self) -> None:
        """In a replay: repeat what came from outside after as many operations as there are now.

        Raises ReplayError if no device takes what was typed.
        """
        log = self._inputs.log
        while log is not None and log.due() == self._executed():
            if log.take(self._executed(), KEY) is not None:
                self._press()
                continue
            before = log.cursor
            self.poll()
            if log.cursor == before:
                raise ReplayError(
                    f"no device takes what was typed after {self._executed()} operations"
                )
