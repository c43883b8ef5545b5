"""The virtio-mmio places: what is plugged in, from the highest place down, as on QEMU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spe_unicorn.arch.ports import Clock, IRQLine
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.devices.empty import VIRTIO_SLOT_SIZE, EmptyVirtioSlots
from spe_unicorn.devices.virtio.block import Block
from spe_unicorn.devices.virtio.console import Console
from spe_unicorn.devices.virtio.entropy import Entropy
from spe_unicorn.devices.virtio.filesystem import FileSystem
from spe_unicorn.devices.virtio.queue import Memory
from spe_unicorn.devices.virtio.share import Share
from spe_unicorn.devices.virtio.transport import Device, Transport
from spe_unicorn.machine.inputs import FILE, Inputs
from spe_unicorn.machine.memory_map import VIRTIO_SLOTS
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.storage.stores import Stores


class VirtioSlots:
    """All places, with a device in as many as the options ask for.

    ``memory`` is what devices reach. ``irq`` gives the line of each place by its number.
    """

    def __init__(
        self,
        options: MachineOptions,
        stores: Stores,
        inputs: Inputs,
        memory: Memory,
        clock: Clock,
        irq: Callable[[int], IRQLine],
    ) -> None:
        devices: list[Device] = [Block(disk) for disk in stores.drives.disks]
        if options.entropy:
            devices.append(Entropy(RandomSource(options.seed).stream("virtio")))
        for n, folder in enumerate(stores.folders):
            kind = FileSystem if folder.virtiofs else Share
            devices.append(kind(f"share{n}".encode(), folder, partial(inputs.answer, FILE)))
        if options.virtio_console:
            devices.append(Console(inputs.ends.write_virtio, inputs.ends.arrived_virtio))
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
