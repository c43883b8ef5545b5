"""The virtio-mmio places: what is plugged in, from the highest place down, as on QEMU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from spe_unicorn.arch.ports import Clock, IRQLine
from spe_unicorn.devices.empty import VIRTIO_SLOT_SIZE, EmptyVirtioSlots
from spe_unicorn.devices.virtio.block import SECTOR, Block, Disk
from spe_unicorn.devices.virtio.console import Console
from spe_unicorn.devices.virtio.entropy import Entropy
from spe_unicorn.devices.virtio.overlay import Overlay
from spe_unicorn.devices.virtio.queue import Memory
from spe_unicorn.devices.virtio.share import Answers, Share
from spe_unicorn.devices.virtio.transport import Device, Transport
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.files import naming
from spe_unicorn.machine.inputs import Inputs, LoggedFile
from spe_unicorn.machine.memory_map import VIRTIO_SLOTS
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.storage.backing import READ_ONLY, HostFile, split_read_only
from spe_unicorn.machine.storage.host_folder import HostFolder

_WRITE: Final = ",write"
"""What stands behind the name of a disk whose file is written."""


class Drives:
    """The disks of ``MachineOptions.drive`` and their files. Raises LoadError.

    A file that is written is no part of a saved machine, so ``inputs`` keep what it answered.
    """

    def __init__(self, texts: tuple[str, ...], inputs: Inputs) -> None:
        self._inputs = inputs
        self.disks: list[Disk] = []
        self._files: list[HostFile] = []
        self._unchanged: list[HostFile] = []
        for text in texts:
            self.disks.append(self._disk(text))

    def _disk(self, text: str) -> Disk:
        written = text.removesuffix(_WRITE)
        name, read_only = split_read_only(written)
        file = HostFile(name if written != text else f"{name}{READ_ONLY}")
        self._files.append(file)
        if file.size < SECTOR:
            with naming(name):
                raise LoadError(f"has {file.size} bytes; a disk has {SECTOR} at least")
        if written == text:
            self._unchanged.append(file)
        if written != text:
            return LoggedFile(file, self._inputs)
        return file if read_only else Overlay(file)

    def digests(self) -> dict[str, str]:
        """What tells apart the contents of files that no guest changes, by their names."""
        return {str(file.path): file.digest() for file in self._unchanged}

    def close(self) -> None:
        """Give the files free."""
        for file in self._files:
            file.close()


class VirtioSlots:
    """All places. ``irq`` gives the line of each by its number; ``random`` draws 64 bits.

    ``answers`` asks the outside.
    """

    def __init__(
        self,
        options: MachineOptions,
        drives: Drives,
        folders: Sequence[HostFolder],
        memory: Memory,
        clock: Clock,
        irq: Callable[[int], IRQLine],
        random: Callable[[], int],
        answers: Answers,
        console: ConsoleEnds,
    ) -> None:
        devices: list[Device] = [Block(disk) for disk in drives.disks]
        if options.entropy:
            devices.append(Entropy(random))
        for n, folder in enumerate(folders):
            devices.append(Share(f"share{n}".encode(), folder, answers))
        if options.virtio_console:
            devices.append(Console(console.write_virtio, console.arrived_virtio))
        self.transports = {
            VIRTIO_SLOTS - 1 - n: Transport(device, memory, clock, irq(VIRTIO_SLOTS - 1 - n))
            for n, device in enumerate(devices)
        }
        """Those that hold a device, by place."""
        self._empty = EmptyVirtioSlots()

    @property
    def listening(self) -> bool:
        """Whether a device has a request that waits for something to come from outside."""
        return any(transport.listening for transport in self.transports.values())

    def poll(self) -> None:
        """Look whether it has come."""
        for transport in self.transports.values():
            transport.poll()

    def read(self, offset: int, size: int) -> int:
        """A load."""
        place, at = divmod(offset, VIRTIO_SLOT_SIZE)
        transport = self.transports.get(place)
        return self._empty.read(at, size) if transport is None else transport.read(at, size)

    def write(self, offset: int, size: int, value: int) -> None:
        """A store."""
        place, at = divmod(offset, VIRTIO_SLOT_SIZE)
        if place in self.transports:
            self.transports[place].write(at, size, value)
