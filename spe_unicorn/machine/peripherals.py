"""What sits around the PEs: interrupt controller, UARTs, clock, and the bus to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spe_unicorn.arch.counter import FREQUENCY
from spe_unicorn.arch.ports import Clock, IRQLine
from spe_unicorn.devices.empty import EmptyECAM
from spe_unicorn.devices.flash import Flash
from spe_unicorn.devices.fw_cfg import FwCfg
from spe_unicorn.devices.gicv3 import GICPort, GICv3, InputLine
from spe_unicorn.devices.pl011 import PL011
from spe_unicorn.devices.pl031 import PL031
from spe_unicorn.devices.pl061 import PL061
from spe_unicorn.devices.power_key import PowerKey
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.machine import memory_map
from spe_unicorn.machine.bus import (
    Bus,
    BySecurity,
    Device,
    FlashWindow,
    NonSecureMemory,
    Timed,
)
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.inputs import LoggedFile
from spe_unicorn.machine.memory_map import Region
from spe_unicorn.machine.storage.virtio import VirtioSlots

Windows = list[tuple[Region, Device]]
"""Devices, each with the region in which it answers."""
MakeSlots = Callable[[NonSecureMemory, Clock, Callable[[int], IRQLine]], VirtioSlots]
"""Makes the virtio places of the memory that devices reach, the clock, and the lines."""


@dataclass(frozen=True)
class Wiring:
    """What the devices of a board are connected to, and what they hold."""

    ports: Sequence[GICPort]
    """They connect the GIC to the PEs."""
    memory: RamMemory
    console: ConsoleEnds
    clock: Clock
    """The system counter."""
    secure: Callable[[], bool]
    """Whether the access that is being made is to the Secure address space."""
    power_pin: Callable[[int, bool], None]
    """``power_pin(pin, level)`` is told of each output of the Secure GPIO controller that
    changes."""
    two_security_states: bool
    flash_files: Mapping[int, LoggedFile]
    """They keep what is stored in flash, by its address."""
    fw_cfg: Mapping[int, bytes]
    """What that device has to read, by key."""
    virtio: MakeSlots


class Peripherals:
    """The devices of one board."""

    def __init__(self, to: Wiring) -> None:
        clock, console, secure = to.clock, to.console, to.secure
        self.gic = GICv3(to.ports, two_security_states=to.two_security_states)
        """The interrupt controller."""
        self.uart = PL011(
            console.write, self._spi(memory_map.UART_SPI), console.arrived, console.silent
        )
        """The console."""
        self.rtc = PL031(clock, FREQUENCY, self._spi(memory_map.RTC_SPI))
        """The clock that knows the date."""
        self.gpio = PL061(self._spi(memory_map.GPIO_SPI))
        """The controller with the power key."""
        self.power_key = PowerKey(
            clock,
            FREQUENCY,
            lambda level: self.gpio.set_input(memory_map.POWER_KEY_PIN, level=level),
        )
        """What a user presses to have the guest shut down."""
        reached = NonSecureMemory(to.memory)
        self._fw_cfg = FwCfg(to.fw_cfg, reached)
        self.virtio = to.virtio(reached, clock, lambda n: self._spi(memory_map.VIRTIO_SPI + n))
        """The virtio places."""
        self._timed: tuple[Timed, ...] = (
            self.rtc,
            self.power_key,
            *self.virtio.transports.values(),
        )
        windows: Windows = [
            (memory_map.GIC_DISTRIBUTOR, BySecurity(self.gic.distributor, secure)),
            (memory_map.GIC_REDISTRIBUTORS, BySecurity(self.gic.redistributors, secure)),
            (memory_map.UART, self.uart),
            (memory_map.RTC, self.rtc),
            (memory_map.GPIO, self.gpio),
            (memory_map.FW_CFG, self._fw_cfg),
            (memory_map.VIRTIO, self.virtio),
            (memory_map.PCIE_ECAM, EmptyECAM()),
        ]
        secure_windows: Windows = []
        self._uarts = [self.uart]
        self._gpios = [self.gpio]
        if to.two_security_states:
            other = PL011(console.write_secure, self._spi(memory_map.SECURE_UART_SPI))
            self._uarts.append(other)
            switches = PL061(self._spi(memory_map.SECURE_GPIO_SPI), to.power_pin)
            self._gpios.append(switches)
            secure_windows += [
                (memory_map.SECURE_UART, other),
                (memory_map.SECURE_GPIO, switches),
            ]
        self._flashes = []
        for region in to.memory.regions:
            if not region.writable:
                place = Region("flash", region.base, region.size)
                flash = Flash(region.bytes, to.flash_files.get(region.base), region.let_read)
                self._flashes.append(flash)
                (secure_windows if region.secure else windows).append(
                    (place, FlashWindow(flash, region))
                )
        self.bus = Bus(windows, secure_windows, secure)
        """The windows in which the devices are reached."""

    def _spi(self, number: int) -> InputLine:
        return self.gic.spi(32 + number)

    def next_deadline(self) -> int | None:
        """The count at which a device drives a line by itself, None for never."""
        due = None
        for device in self._timed:
            count = device.next_deadline()
            if count is not None and (due is None or count < due):
                due = count
        return due

    def update(self) -> None:
        """Drive the lines of devices whose time has come."""
        for device in self._timed:
            device.update()

    def reset(self, *, nonsecure: bool) -> None:
        """Reset all devices; with ``nonsecure`` the GIC is as firmware leaves it to a kernel."""
        self.gic.reset(nonsecure=nonsecure)
        for uart in self._uarts:
            uart.reset()
        self.rtc.reset()
        self._fw_cfg.reset()
        for transport in self.virtio.transports.values():
            transport.reset()
        for flash in self._flashes:
            flash.reset()
        for gpio in self._gpios:
            gpio.reset()
