"""The physical addresses of the board at which devices answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from spe_unicorn.machine.memory_map import Region
from spe_unicorn.signals import Signal


class Device(Protocol):
    """What is behind a window of physical memory; ``offset`` and ``size`` are in bytes."""

    def read(self, offset: int, size: int) -> int:
        """A load."""
        ...

    def write(self, offset: int, size: int, value: int) -> None:
        """A store."""
        ...


class SecureDevice(Protocol):
    """A device that answers Secure and Non-secure accesses differently."""

    def read(self, offset: int, size: int, secure: bool = False) -> int:
        """A load."""
        ...

    def write(self, offset: int, size: int, value: int, secure: bool = False) -> None:
        """A store."""
        ...


class BySecurity:
    """Tells a device which accesses are Secure: those while ``secure()``."""

    def __init__(self, device: SecureDevice, secure: Callable[[], bool]) -> None:
        self._device = device
        self._secure = secure

    def read(self, offset: int, size: int) -> int:
        """A load."""
        return self._device.read(offset, size, self._secure())

    def write(self, offset: int, size: int, value: int) -> None:
        """A store."""
        self._device.write(offset, size, value, self._secure())


class ReadOnlyMemory:
    """What answers stores to memory that is not written: nothing. Loads never come here."""

    def read(self, offset: int, size: int) -> int:
        """Memory answers loads by itself."""
        raise LookupError("a load from memory came to its device")

    def write(self, offset: int, size: int, value: int) -> None:
        """The store is lost."""


class Bus:
    """Devices by the windows in which they answer.

    Those in ``secure_windows`` answer while ``secure()``.
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
        """Told of each store to a device behind it: address, size, value."""

    def claims(self, address: int) -> bool:
        """Whether a device answers at a physical address."""
        return self._at(address) is not None

    def read(self, address: int, size: int) -> int:
        """A load of ``size`` bytes; 0 where nobody answers."""
        found = self._at(address)
        return found[1].read(address - found[0], size) if found else 0

    def write(self, address: int, size: int, value: int) -> None:
        """A store of ``size`` bytes."""
        found = self._at(address)
        if found:
            found[1].write(address - found[0], size, value)
            self.stored(address, size, value)

    def _at(self, address: int) -> tuple[int, Device] | None:
        """The device that answers, and where its window begins."""
        for base, end, device, only_secure in self._windows:
            if base <= address < end and (not only_secure or self._secure()):
                return base, device
        return None
