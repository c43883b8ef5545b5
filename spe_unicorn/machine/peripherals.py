"""What sits around the PEs: interrupt controller, UARTs, clock, and the bus to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spe_unicorn.arch.counter import FREQUENCY
from spe_unicorn.arch.ports import Clock
from spe_unicorn.devices.empty import EmptyECAM, EmptyVirtioSlots
from spe_unicorn.devices.gicv3 import GICPort, GICv3, InputLine
from spe_unicorn.devices.pl011 import PL011
from spe_unicorn.devices.pl031 import PL031
from spe_unicorn.devices.pl061 import PL061
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.machine import memory_map
from spe_unicorn.machine.bus import Bus, BySecurity, Device, ReadOnlyMemory
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.memory_map import Region

Windows = list[tuple[Region, Device]]
"""Devices and where they answer."""


class Peripherals:
    """The devices of one board.

    ``ports`` connect the GIC to the PEs. ``clock`` is the system counter. ``secure`` tells whether
    the access that is being made is to the Secure address space. ``power_pin(pin, level)`` is told
    of each output of the Secure GPIO controller that changes.
    """

    def __init__(
        self,
        ports: Sequence[GICPort],
        memory: RamMemory,
        console: ConsoleEnds,
        clock: Clock,
        secure: Callable[[], bool],
        power_pin: Callable[[int, bool], None],
        *,
        two_security_states: bool,
    ) -> None:
        self.gic = GICv3(ports, two_security_states=two_security_states)
        """The interrupt controller."""
        self.uart = PL011(console.write, self._spi(memory_map.UART_SPI), console.arrived)
        """The console."""
        self.rtc = PL031(clock, FREQUENCY, self._spi(memory_map.RTC_SPI))
        """The clock that knows the date."""
        windows: Windows = [
            (memory_map.GIC_DISTRIBUTOR, BySecurity(self.gic.distributor, secure)),
            (memory_map.GIC_REDISTRIBUTORS, BySecurity(self.gic.redistributors, secure)),
            (memory_map.UART, self.uart),
            (memory_map.RTC, self.rtc),
            (memory_map.VIRTIO, EmptyVirtioSlots()),
            (memory_map.PCIE_ECAM, EmptyECAM()),
        ]
        secure_windows: Windows = []
        self._uarts = [self.uart]
        self._secure_gpio: PL061 | None = None
        if two_security_states:
            other = PL011(console.write_secure, self._spi(memory_map.SECURE_UART_SPI))
            self._uarts.append(other)
            self._secure_gpio = PL061(self._spi(memory_map.SECURE_GPIO_SPI), power_pin)
            secure_windows += [
                (memory_map.SECURE_UART, other),
                (memory_map.SECURE_GPIO, self._secure_gpio),
            ]
        for region in memory.regions:
            if not region.writable:
                place = Region("flash", region.base, region.size)
                (secure_windows if region.secure else windows).append((place, ReadOnlyMemory()))
        self.bus = Bus(windows, secure_windows, secure)
        """Where they are reached."""

    def _spi(self, number: int) -> InputLine:
        return self.gic.spi(32 + number)

    def reset(self, nonsecure: bool) -> None:
        """Reset all devices; with ``nonsecure`` the GIC is as firmware leaves it to a kernel."""
        self.gic.reset(nonsecure)
        for uart in self._uarts:
            uart.reset()
        self.rtc.reset()
        if self._secure_gpio is not None:
            self._secure_gpio.reset()
