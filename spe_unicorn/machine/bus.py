"""The physical addresses of the board at which devices answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.machine.memory_map import RAM_BASE, Region
from spe_unicorn.signals import Signal


class Device(Protocol):
    """A device that answers in a window of physical addresses; ``offset`` and ``size`` in bytes."""

    def read(self, offset: int, size: int) -> int:
        """A load."""
        ...

    def write(self, offset: int, size: int, value: int) -> None:
        """A store."""
        ...


class Timed(Protocol):
    """Devices that drive lines at certain times. A time is a count of the system counter."""

    def next_deadline(self) -> int | None:
        """The next time at which a line is driven; None if there is none."""
        ...

    def update(self) -> None:
        """Drive the lines whose time has come."""
        ...


class SecureDevice(Protocol):
    """A device that answers Secure and Non-secure accesses differently."""

    def read(self, offset: int, size: int, *, secure: bool = False) -> int:
        """A load."""
        ...

    def write(self, offset: int, size: int, value: int, *, secure: bool = False) -> None:
        """A store."""
        ...


class BySecurity:
    """Tells a device which accesses are Secure: those made while ``secure()`` returns True."""

    def __init__(self, device: SecureDevice, secure: Callable[[], bool]) -> None:
        self._device = device
        self._secure = secure

    def read(self, offset: int, size: int) -> int:
        """A load."""
        return self._device.read(offset, size, secure=self._secure())

    def write(self, offset: int, size: int, value: int) -> None:
        """A store."""
        self._device.write(offset, size, value, secure=self._secure())


class FlashWindow:
    """A flash on the bus.

    The engines read its memory by themselves. While the flash answers commands, loads come here.
    """

    def __init__(self, flash: Device, memory: Ram) -> None:
        self._flash = flash
        self._memory = memory

    def read(self, offset: int, size: int) -> int:
        """A load while the flash answers commands."""
        value = self._flash.read(offset, size)
        if not self._memory.readable:
            self._memory.keep_back()
        return value

    def write(self, offset: int, size: int, value: int) -> None:
        """A store."""
        self._flash.write(offset, size, value)
        if not self._memory.readable:
            self._memory.keep_back()


class NonSecureMemory:
    """The memory that devices can access: all but Secure memory."""

    def __init__(self, memory: RamMemory) -> None:
        self._memory = memory

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes at a physical address, None where there is no memory."""
        return self._memory.read(address, size, PASpace.NonSecure)

    def write(self, address: int, data: bytes) -> bool:
        """Store bytes; False where there is no memory. Read-only memory loses them."""
        return self._memory.write(address, data, PASpace.NonSecure)

    def clear(self, address: int, size: int) -> bool:
        """Fill RAM with zeros; False where there is none."""
        return address >= RAM_BASE and self._memory.clear(address, size, PASpace.NonSecure)


class Bus:
    """Devices by the windows in which they answer.

    Those of ``secure_windows`` answer only while ``secure()`` returns True.
    """

    def __init__(
        self,
        windows: Sequence[tuple[Region, Device]],
        secure_windows: Sequence[tuple[Region, Device]] = (),
        secure: Callable[[], bool] = lambda: False,
    ) -> None:
        self._windows = tuple(
            (w.base, w.end, device, only_secure)
            for only_secure, devices in ((False, windows), (True, secure_windows))
            for w, device in devices
        )
        self._secure = secure
        self.stored: Signal[[int, int, int]] = Signal()
        """Told of each store to a device, after the store: address, size, value."""

    def claims(self, address: int) -> bool:
        """Whether a device answers at a physical address."""
        return self._at(address) is not None

    def read(self, address: int, size: int) -> int:
        """A load of ``size`` bytes; 0 if no device answers."""
        found = self._at(address)
        return found[1].read(address - found[0], size) if found else 0

    def write(self, address: int, size: int, value: int) -> None:
        """A store of ``size`` bytes."""
        found = self._at(address)
        if found:
            found[1].write(address - found[0], size, value)
            self.stored(address, size, value)

    def _at(self, address: int) -> tuple[int, Device] | None:
        """The device that answers at an address, and the first address of its window."""
        for base, end, device, only_secure in self._windows:
            if base <= address < end and (not only_secure or self._secure()):
                return base, device
        return None
