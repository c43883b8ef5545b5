"""The physical memory map and the interrupts of the board: QEMU's ``virt``, as far as we have it.

Not there: GICv2 and ITS frames, SMMU, the platform bus, PCIe memory windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from spe_unicorn.devices.empty import VIRTIO_SLOT_SIZE


class Kind(Enum):
    """What answers in a region."""

    FLASH = auto()
    """Memory that the guest reads and executes, and programs by commands (``devices.flash``)."""
    RAM = auto()
    SECURE_RAM = auto()
    """RAM on a board with ``secure``, in the Secure physical address space alone."""
    DEVICE = auto()


@dataclass(frozen=True)
class Region:
    """A range of physical addresses; ``base`` and ``size`` in bytes."""

    name: str
    base: int
    size: int
    kind: Kind = Kind.DEVICE

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.base + self.size

    def __contains__(self, address: int) -> bool:
        return self.base <= address < self.end


FLASH: Final = Region("flash", 0x0000_0000, 0x0800_0000, Kind.FLASH)
"""Where ``bios`` goes and the PE resets to."""
SECURE_FLASH: Final = Region("secure flash", 0x0000_0000, 0x0400_0000, Kind.FLASH)
"""The half of it that is in the Secure address space alone on a board with ``secure``."""
OTHER_FLASH: Final = Region("flash", SECURE_FLASH.end, FLASH.end - SECURE_FLASH.end, Kind.FLASH)
"""The other half."""
GIC_DISTRIBUTOR: Final = Region("gicd", 0x0800_0000, 0x0001_0000)
GIC_REDISTRIBUTORS: Final = Region("gicr", 0x080A_0000, 0x00F6_0000)
"""Room for redistributors; each PE takes 128 KiB of it."""
UART: Final = Region("pl011", 0x0900_0000, 0x0000_1000)
RTC: Final = Region("pl031", 0x0901_0000, 0x0000_1000)
FW_CFG: Final = Region("fw_cfg", 0x0902_0000, 0x18)
GPIO: Final = Region("pl061", 0x0903_0000, 0x0000_1000)
"""A PL061, with the power key."""
POWER_KEY_PIN: Final = 3
"""Its pin that is high while the power key is down."""
SECURE_UART: Final = Region("secure pl011", 0x0904_0000, 0x0000_1000)
"""A second UART, on a board with ``secure`` and in the Secure address space alone."""
SECURE_GPIO: Final = Region("secure pl061", 0x090B_0000, 0x0000_1000)
"""A PL061 on a board with ``secure``, in the Secure address space alone."""
POWER_PINS: Final = {0: "off", 1: "reset"}
"""What a rising output of it does to the machine, by its pin."""
VIRTIO_SLOTS: Final = 32
VIRTIO: Final = Region("virtio-mmio", 0x0A00_0000, VIRTIO_SLOTS * VIRTIO_SLOT_SIZE)
SECURE_RAM: Final = Region("secure-ram", 0x0E00_0000, 0x0100_0000, Kind.SECURE_RAM)
PCIE_ECAM: Final = Region("pcie-ecam", 0x40_1000_0000, 0x1000_0000)
RAM_BASE: Final = 0x4000_0000
RAM_MAX: Final = 0x40_0000_0000 - RAM_BASE
"""RAM ends below 256 GiB, where PCIe begins."""

UART_SPI: Final = 1
RTC_SPI: Final = 2
SECURE_UART_SPI: Final = 8
GPIO_SPI: Final = 7
SECURE_GPIO_SPI: Final = 0
VIRTIO_SPI: Final = 16
"""SPI of the first virtio-mmio slot; the others follow. SPI n is INTID 32 + n."""

FIXED: Final = (
    FLASH,
    GIC_DISTRIBUTOR,
    GIC_REDISTRIBUTORS,
    UART,
    RTC,
    FW_CFG,
    GPIO,
    SECURE_UART,
    SECURE_GPIO,
    VIRTIO,
    SECURE_RAM,
    PCIE_ECAM,
)
"""Every region but RAM, in the order of their addresses."""


_NULL: Final = Region("null", 0, 0x1000)
_WANTING: Final = (
    (
        _NULL,
        "a null pointer? If it is for the device tree: X0 holds its address if `firmware` leaves"
        " room at 0x40000000 (link it at 0x40080000), or is started by `kernel`",
    ),
    (
        FLASH,
        "`bios` and `pflash` bring flash; with `secure`, its first half is for Secure state only",
    ),
    (Region("its", 0x0808_0000, 0x0002_0000), "the GIC has no ITS"),
    (SECURE_UART, "the second UART is there with `secure` only, and for Secure state"),
    (SECURE_GPIO, "the power controls are there with `secure` only, and for Secure state"),
    (Region("smmu", 0x0905_0000, 0x2_0000), "this machine has no SMMU"),
    (SECURE_RAM, "Secure RAM is there with `secure` only, and for Secure state"),
    (
        Region("below RAM", 0x0F00_0000, RAM_BASE - 0x0F00_0000),
        f"RAM begins at {RAM_BASE:#x}, above: a wrong pointer, or another board's address?",
    ),
)
"""What may have been meant by an address where nothing is. Options are in backquotes."""


def timed(address: int) -> bool:
    """Whether a store at an address can set a time at which a device drives a line by itself."""
    return address in RTC or address in VIRTIO


def wanting(address: int) -> str:
    """A sentence on why nothing may be at a physical address where something was expected."""
    for region, text in _WANTING:
        if address in region:
            return text
    if address >= RAM_BASE:
        return "RAM ends before: give it more by `ram`, or look for a wrong pointer"
    return "memory and devices are where QEMU's virt has them; docs/how-to/boot.md has what differs"


def ram(size: int) -> Region:
    """The RAM of a board with ``size`` bytes of it. Raises ValueError where that has no room."""
    if not 0 < size <= RAM_MAX:
        raise ValueError(f"RAM has 1 to {RAM_MAX:#x} bytes, got {size:#x}")
    return Region("ram", RAM_BASE, size, Kind.RAM)


def region_at(address: int) -> Region | None:
    """The fixed region that an address falls into, for messages; None for RAM and for nothing."""
    return next((region for region in FIXED if address in region), None)
