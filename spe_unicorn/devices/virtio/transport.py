"""The transport in memory (Virtio 1.2, 4.2), version 2: the registers around one device.

A request is carried out and done a fixed time, which is the device's, after the one before it, or
after it was notified, or after its device came to have what it asks for. Queues take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final, Protocol

from spe_unicorn.arch.ports import Clock, IRQLine
from spe_unicorn.devices.virtio.queue import (
    SIZE_MAX,
    BrokenQueueError,
    Chain,
    Memory,
    Queue,
    give_back,
    take_request,
    waiting,
)
from spe_unicorn.plain import Bits8, Bits32, Bits64, Count
from spe_unicorn.stateful import Stateful, expect

LATENCY: Final = 625
"""Ticks of the system counter that a request of most devices takes: 10 us."""

_MAGIC, _VERSION, _VENDOR = 0x7472_6976, 2, 0x554D_4551
_VERSION_1: Final = 1 << 32
"""The feature without which there is no version 2."""
_WORD: Final = 0xFFFF_FFFF
_CONFIGURATION: Final = 0x100


class Offset(IntEnum):
    """Where the registers are."""

    MAGIC = 0x000
    VERSION = 0x004
    DEVICE = 0x008
    VENDOR = 0x00C
    DEVICE_FEATURES = 0x010
    DEVICE_FEATURES_SEL = 0x014
    DRIVER_FEATURES = 0x020
    DRIVER_FEATURES_SEL = 0x024
    QUEUE_SEL = 0x030
    QUEUE_NUM_MAX = 0x034
    QUEUE_NUM = 0x038
    QUEUE_READY = 0x044
    QUEUE_NOTIFY = 0x050
    INTERRUPT_STATUS = 0x060
    INTERRUPT_ACK = 0x064
    STATUS = 0x070
    DESCRIPTORS = 0x080
    DRIVER = 0x090
    DEVICE_AREA = 0x0A0
    SHARED_LENGTH = 0x0B0
    SHARED_BASE = 0x0B8


class Status(IntFlag):
    """Bits of the register Status."""

    ACKNOWLEDGE = 1
    DRIVER = 2
    DRIVER_OK = 4
    FEATURES_OK = 8
    NEEDS_RESET = 64
    FAILED = 128


class Interrupt(IntFlag):
    """Bits of InterruptStatus."""

    USED = 1
    CONFIGURATION = 2


class Device(Protocol):
    """What a transport carries."""

    number: int
    """Its kind, as the standard numbers them."""
    features: int
    queues: int
    latency: int = LATENCY
    """Ticks of the system counter that a request takes."""

    def configuration(self) -> bytes:
        """Its configuration space."""
        ...

    def configure(self, offset: int, size: int, value: int) -> None:
        """A store to its configuration space: most devices have nothing to write there."""
        return

    def ready(self, queue: int) -> bool:
        """Whether it can carry out a request of that queue now: most devices always can."""
        return True

    def request(self, queue: int, chain: Chain) -> None:
        """Carry out a request. Raises BrokenQueueError."""
        ...

    def reset(self) -> None:
        """Forget what the driver has set up."""
        ...


@dataclass(slots=True)
class TransportState:
    """What is saved of one transport."""

    status: Bits8 = 0
    device_features_sel: Bits32 = 0
    driver_features_sel: Bits32 = 0
    driver_features: Bits64 = 0
    queue_sel: Bits32 = 0
    queues: list[Queue] = field(default_factory=list)
    interrupt: Bits8 = 0
    notified: list[int] = field(default_factory=list)
    """Queues in which there may be requests, in the order in which they were notified."""
    waiting: list[int] = field(default_factory=list)
    """Queues with requests for which the device was not ready."""
    due: Count | None = None
    """The count at which the next request is done."""


class Transport(Stateful[TransportState]):
    """One device in its place."""

    def __init__(self, device: Device, memory: Memory, clock: Clock, irq: IRQLine) -> None:
        self._device = device
        self._memory = memory
        self._clock = clock
        self._irq = irq
        self._features = device.features | _VERSION_1
        self.reset()

    def reset(self) -> None:
        """Reset, as the driver's: nothing is set up."""
        self.s = TransportState(queues=[Queue() for _ in range(self._device.queues)])
        self._device.reset()
        self._derive()

    def check(self, state: TransportState) -> None:
        """Raise StateError for a state that no driver leads to."""
        count = self._device.queues
        numbers = (*state.notified, *state.waiting)
        expect(len(state.queues) == count, "the number of virtio queues")
        expect(all(queue.size <= SIZE_MAX for queue in state.queues if queue.ready), "a queue")
        expect(all(_is_power(queue.size) for queue in state.queues if queue.ready), "a queue")
        expect(all(0 <= number < count for number in numbers), "a virtio queue")
        expect(len(set(numbers)) == len(numbers), "a virtio queue")

    def next_deadline(self) -> int | None:
        """The count at which the next request is done, None if there is none."""
        return self.s.due

    def update(self) -> None:
        """Carry out the request whose time has come."""
        s = self.s
        if s.due is None or self._clock.physical_count() < s.due:
            return
        s.due = None
        try:
            self._carry_out()
        except BrokenQueueError:
            s.status |= Status.NEEDS_RESET
            s.interrupt |= Interrupt.CONFIGURATION
            s.notified.clear()
            s.waiting.clear()
        if s.notified:
            s.due = self._clock.physical_count() + self._device.latency
        self._derive()

    @property
    def listening(self) -> bool:
        """Whether a request waits until the device is ready for it."""
        return any(self.s.queues[number].ready for number in self.s.waiting)

    def poll(self) -> None:
        """Ask the device whether it is ready now for what waits; if so, that is soon done."""
        for number in list(self.s.waiting):
            if self.s.queues[number].ready and self._device.ready(number):
                self._has_requests(number)

    def _carry_out(self) -> None:
        """One request, of the first queue that has any."""
        s = self.s
        while s.notified:
            number = s.notified[0]
            queue = s.queues[number]
            s.notified.pop(0)
            if not queue.ready or not waiting(queue, self._memory):
                continue
            if not self._device.ready(number):
                s.waiting.append(number)
                continue
            chain = take_request(queue, self._memory)
            self._device.request(number, chain)
            if give_back(queue, self._memory, chain):
                s.interrupt |= Interrupt.USED
            s.notified.append(number)
            return

    def read(self, offset: int, size: int) -> int:
        """A read; registers are words."""
        if offset >= _CONFIGURATION:
            at = offset - _CONFIGURATION
            return int.from_bytes(self._device.configuration()[at : at + size], "little")
        return self._register(offset) if size == 4 else 0

    def write(self, offset: int, size: int, value: int) -> None:
        """A write; registers are words."""
        if offset >= _CONFIGURATION:
            self._device.configure(offset - _CONFIGURATION, size, value)
            return
        if size != 4:
            return
        s = self.s
        if offset == Offset.STATUS:
            self._set_status(value & 0xFF)
        elif offset == Offset.QUEUE_NOTIFY:
            self._notify(value)
        elif offset == Offset.INTERRUPT_ACK:
            s.interrupt &= ~value
        elif offset == Offset.DEVICE_FEATURES_SEL:
            s.device_features_sel = value
        elif offset == Offset.DRIVER_FEATURES_SEL:
            s.driver_features_sel = value
        elif offset == Offset.QUEUE_SEL:
            s.queue_sel = value
        elif offset == Offset.DRIVER_FEATURES and s.driver_features_sel < 2:
            if not s.status & Status.FEATURES_OK:
                shift = 32 * s.driver_features_sel
                s.driver_features = s.driver_features & ~(_WORD << shift) | value << shift
        elif s.queue_sel < len(s.queues):
            _set_up(s.queues[s.queue_sel], offset, value)
        self._derive()

    def _register(self, offset: int) -> int:
        s = self.s
        queue = s.queues[s.queue_sel] if s.queue_sel < len(s.queues) else None
        shown = {
            Offset.MAGIC: _MAGIC,
            Offset.VERSION: _VERSION,
            Offset.DEVICE: self._device.number,
            Offset.VENDOR: _VENDOR,
            Offset.QUEUE_NUM_MAX: 0 if queue is None else SIZE_MAX,
            Offset.QUEUE_READY: int(queue is not None and queue.ready),
            Offset.INTERRUPT_STATUS: s.interrupt,
            Offset.STATUS: s.status,
            # memory that no device here shares is as long as this
            **dict.fromkeys(_SHARED, _WORD),
        }
        if offset == Offset.DEVICE_FEATURES and s.device_features_sel < 2:
            return self._features >> 32 * s.device_features_sel & _WORD
        return shown.get(offset, 0)

    def _set_status(self, value: int) -> None:
        s = self.s
        if value == 0:
            self.reset()
            return
        unknown = s.driver_features & ~self._features or not s.driver_features & _VERSION_1
        if value & Status.FEATURES_OK and unknown:
            value &= ~Status.FEATURES_OK
        s.status = value | s.status & Status.NEEDS_RESET

    def _notify(self, number: int) -> None:
        s = self.s
        if number >= len(s.queues) or number in s.notified or not s.queues[number].ready:
            return
        if not s.status & Status.DRIVER_OK or s.status & Status.NEEDS_RESET:
            return
        self._has_requests(number)

    def _has_requests(self, number: int) -> None:
        """There may be requests in a queue that can be carried out."""
        s = self.s
        if number in s.waiting:
            s.waiting.remove(number)
        s.notified.append(number)
        if s.due is None:
            s.due = self._clock.physical_count() + self._device.latency

    def _derive(self) -> None:
        self._irq.set_level(bool(self.s.interrupt))


_SHARED: Final = tuple(
    at + half for at in (Offset.SHARED_LENGTH, Offset.SHARED_BASE) for half in (0, 4)
)
_AREAS: Final = {
    Offset.DESCRIPTORS: "descriptors",
    Offset.DRIVER: "driver",
    Offset.DEVICE_AREA: "device",
}


def _is_power(size: int) -> bool:
    """Whether a queue may have this size: a power of two."""
    return size > 0 and not size & size - 1


def _set_up(queue: Queue, offset: int, value: int) -> None:
    """A write to a register of the queue that is selected."""
    if offset == Offset.QUEUE_READY:
        usable = queue.size <= SIZE_MAX and _is_power(queue.size)
        queue.ready = bool(value & 1) and usable
        if not queue.ready:
            queue.seen = 0
    elif queue.ready:
        return
    elif offset == Offset.QUEUE_NUM:
        queue.size = value
    elif offset & ~4 in _AREAS:
        name, shift = _AREAS[Offset(offset & ~4)], 8 * (offset & 4)
        old = getattr(queue, name)
        setattr(queue, name, old & ~(_WORD << shift) | value << shift)
