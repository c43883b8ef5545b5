"""Places for devices that are not there: what software finds when it probes them."""

from __future__ import annotations

from typing import Final

VIRTIO_SLOT_SIZE: Final = 0x200
"""Bytes of one virtio-mmio slot."""

_VIRTIO_WORDS: Final = {
    0x000: 0x7472_6976,  # MagicValue, "virt"
    0x004: 1,  # Version: the legacy interface
    0x008: 0,  # DeviceID: none, which tells a driver to leave
    0x00C: 0x554D_4551,  # VendorID, as QEMU's
}


class EmptyVirtioSlots:
    """Virtio-mmio transports without a device, one after the other. Writes do nothing."""

    def read(self, offset: int, size: int) -> int:
        """The ``size`` bytes at ``offset`` of the first slot."""
        start = offset & ~3
        value = 0
        for word in range(start, offset + size, 4):
            found = _VIRTIO_WORDS.get(word % VIRTIO_SLOT_SIZE, 0)
            value |= found << 8 * (word - start)
        return value >> 8 * (offset - start) & (1 << 8 * size) - 1

    def write(self, offset: int, size: int, value: int) -> None:
        """Nothing happens."""


class EmptyECAM:
    """PCIe configuration space without a device: every read is all ones."""

    def read(self, offset: int, size: int) -> int:
        """All ones wherever it is: no vendor, so no function."""
        return (1 << 8 * size) - 1

    def write(self, offset: int, size: int, value: int) -> None:
        """Nothing happens."""
