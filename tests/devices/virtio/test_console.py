"""The console against Virtio 1.2, 5.3, by hand; hostile drivers, too."""

from __future__ import annotations

import struct

from spe_unicorn.devices.virtio.console import Console
from spe_unicorn.devices.virtio.transport import LATENCY
from tests.devices.virtio.bench import BASE, NEXT, VERSION_1, WRITE, Driver

RECEIVE, TRANSMIT = 0, 1
AREAS = {RECEIVE: BASE + 0x4000, TRANSMIT: BASE + 0x8000}
"""Where each queue is: descriptors, what is available, what is used, and buffers, 0x1000 each."""
NEEDS_RESET = 0x40
SIZE = 4


class Line:
    """A console with a driver that has both queues, and what stands at the line's other end."""

    def __init__(self, *typed: bytes, set_up: bool = True) -> None:
        self.typed = list(typed)
        self.asked: list[int] = []
        self.printed = bytearray()
        self.console = Console(self.printed.extend, self._arrived)
        self.driver = Driver(self.console, set_up=False, ram=0x20000)
        self.sent = {RECEIVE: 0, TRANSMIT: 0}
        if set_up:
            self.set_up()

    def _arrived(self, size: int) -> bytes:
        self.asked.append(size)
        return self.typed.pop(0) if self.typed else b""

    def set_up(self) -> None:
        driver = self.driver
        self.sent = {RECEIVE: 0, TRANSMIT: 0}
        for register, value in ((0x70, 0), (0x70, 3), (0x24, 1), (0x20, 1), (0x70, 11)):
            driver[register] = value
        for number, area in AREAS.items():
            driver.ram.write(area, bytes(0x3000))
            driver[0x30], driver[0x38] = number, SIZE
            for n, register in enumerate((0x80, 0x90, 0xA0)):
                driver[register] = area + 0x1000 * n
            driver[0x44] = 1
        driver[0x70] = 15

    def offer(self, queue: int, *buffers: tuple[int, int, int]) -> None:
        """Make a chain available: offsets among the queue's buffers, sizes, flags."""
        area, sent = AREAS[queue], self.sent[queue]
        for n, (at, size, flags) in enumerate(buffers):
            row = struct.pack("<QIHH", area + 0x3000 + at, size, flags, n + 1)
            self.driver.ram.write(area + 16 * n, row)
        self.driver.ram.write(area + 0x1004 + 2 * (sent % SIZE), bytes(2))
        self.sent[queue] = sent + 1
        self.driver.ram.write(area + 0x1002, struct.pack("<H", sent + 1))
        self.driver[0x50] = queue

    def used(self, queue: int) -> tuple[int, int]:
        """How many chains came back, and the bytes written of the last one."""
        area = AREAS[queue] + 0x2000
        count = int.from_bytes(self.driver.ram.read(area + 2, 2) or b"", "little")
        at = area + 4 + 8 * ((count - 1) % SIZE)
        return count, int.from_bytes(self.driver.ram.read(at + 4, 4) or b"", "little")

    def buffer(self, queue: int, size: int, at: int = 0) -> bytes:
        return self.driver.ram.read(AREAS[queue] + 0x3000 + at, size) or b""

    def print(self, text: bytes) -> None:
        self.driver.ram.write(AREAS[TRANSMIT] + 0x3000, text)
        self.offer(TRANSMIT, (0, len(text), 0))


def test_it_is_device_3_with_two_queues_and_the_emergency_write() -> None:
    driver = Line(set_up=False).driver
    assert driver[0x08] == 3
    driver[0x14] = 0
    assert driver[0x10] == 1 << 2  # neither VIRTIO_CONSOLE_F_SIZE nor _F_MULTIPORT
    sizes = []
    for number in range(4):
        driver[0x30] = number
        sizes.append(driver[0x34])
    assert [size > 0 for size in sizes] == [True, True, False, False]
    columns_and_rows, ports, emergency = (driver[0x100 + at] for at in (0, 4, 8))
    assert (columns_and_rows, ports, emergency) == (0, 1, 0)


def test_what_is_in_the_transmit_queue_is_printed_a_fixed_time_later() -> None:
    line = Line()
    line.driver.ram.write(AREAS[TRANSMIT] + 0x3000, b"hello, world")
    line.offer(TRANSMIT, (0, 5, NEXT), (5, 7, 0))
    line.driver.later(LATENCY - 1)
    assert (line.printed, line.used(TRANSMIT)[0]) == (b"", 0)
    line.driver.later(1)
    assert (line.printed, line.used(TRANSMIT)) == (b"hello, world", (1, 0))
    assert (line.driver.line.level, line.driver[0x60]) == (True, 1)


def test_the_emergency_write_prints_a_byte_before_anything_is_set_up() -> None:
    line = Line(set_up=False)
    for value in (ord("!"), 0x1234_5600 | ord("?")):
        line.driver[0x108] = value
    assert line.printed == b"!?"
    line.driver[0x104] = ord("x")
    assert line.printed == b"!?"
    line.driver[0x70] = NEEDS_RESET
    line.driver[0x108] = ord("\n")
    assert line.printed == b"!?\n"


def test_what_was_typed_before_is_in_the_first_buffers_that_there_are() -> None:
    line = Line(b"hello")
    assert line.asked == []  # nobody looks before there is a buffer
    line.offer(RECEIVE, (0, 3, WRITE))
    line.driver.later()
    assert (line.buffer(RECEIVE, 4), line.used(RECEIVE)) == (b"hel\0", (1, 3))
    line.driver.later()
    line.offer(RECEIVE, (0, 64, WRITE))
    line.driver.later()
    assert (line.buffer(RECEIVE, 3), line.used(RECEIVE)) == (b"lol", (2, 2))
    assert not line.driver.transport.listening


def test_a_buffer_waits_for_input_and_raises_the_interrupt_with_it() -> None:
    line = Line()
    line.offer(RECEIVE, (0, 64, WRITE))
    line.driver.later()
    transport = line.driver.transport
    assert transport.listening
    assert transport.next_deadline() is None
    transport.poll()
    assert transport.next_deadline() is None
    line.typed.append(b"x")
    transport.poll()
    assert transport.next_deadline() == line.driver.clock.count + LATENCY
    assert not transport.listening
    transport.poll()
    line.driver.later()
    assert (line.buffer(RECEIVE, 1), line.used(RECEIVE)) == (b"x", (1, 1))
    assert line.driver.line.level


def test_output_goes_on_while_a_buffer_waits_for_input() -> None:
    line = Line()
    line.offer(RECEIVE, (0, 64, WRITE))
    line.driver.later()
    line.print(b"prompt> ")
    line.driver.later()
    assert line.printed == b"prompt> "
    assert line.driver.transport.listening


def test_input_without_end_does_not_keep_output_back() -> None:
    line = Line(*(b"y" * 4096 for _ in range(8)))
    line.offer(RECEIVE, (0, 1, WRITE))
    line.print(b"here")
    for _ in range(3):
        line.driver.later()
        line.offer(RECEIVE, (0, 1, WRITE))
    assert line.printed == b"here"


def test_input_is_bounded_and_outlives_a_reset() -> None:
    line = Line(b"abc", b"d")
    line.offer(RECEIVE, (0, 1, WRITE))
    line.driver.later()
    assert line.asked == [4096]
    line.set_up()
    assert line.driver.transport.next_deadline() is None
    line.offer(RECEIVE, (0, 8, WRITE))
    line.driver.later()
    assert (line.buffer(RECEIVE, 2), line.asked) == (b"bc", [4096])


def test_a_reset_lets_nothing_wait() -> None:
    line = Line()
    line.offer(RECEIVE, (0, 8, WRITE))
    line.driver.later()
    line.driver[0x70] = 0
    assert not line.driver.transport.listening
    line.typed.append(b"x")
    line.driver.transport.poll()
    assert (line.asked, line.driver.transport.next_deadline()) == ([4096], None)


def test_a_queue_that_is_taken_away_lets_nothing_wait() -> None:
    line = Line()
    line.offer(RECEIVE, (0, 8, WRITE))
    line.driver.later()
    line.driver[0x30], line.driver[0x44] = RECEIVE, 0
    assert not line.driver.transport.listening


def test_a_longer_text_than_64_KiB_breaks_it() -> None:
    line = Line()
    line.offer(TRANSMIT, (0, 0x8000, NEXT), (0, 0x8000, 0))
    line.driver.later()
    assert len(line.printed) == 0x1_0000
    line.offer(TRANSMIT, (0, 0x8000, NEXT), (0, 0x8000, NEXT), (0, 1, 0))
    line.driver.later()
    line.driver.later()
    assert (len(line.printed), line.driver[0x70] & NEEDS_RESET) == (0x1_0000, NEEDS_RESET)
    assert not line.driver.transport.listening


def test_buffers_of_the_wrong_kind_get_nothing() -> None:
    line = Line(b"x")
    line.offer(RECEIVE, (0, 8, 0))
    line.offer(TRANSMIT, (0, 8, WRITE))
    line.driver.later()
    line.driver.later()
    assert (line.used(RECEIVE), line.used(TRANSMIT)) == ((1, 0), (1, 0))
    assert (line.printed, line.console.s.received) == (b"", b"x")


def test_features_that_it_has_not_are_refused() -> None:
    for features, accepted in ((1 << 2, True), (1 << 0, False), (1 << 1, False)):
        driver = Line(set_up=False).driver
        driver.set_up(VERSION_1 | features)
        assert bool(driver[0x70] & 8) is accepted


def test_its_state_comes_back_with_what_waits() -> None:
    line = Line(b"abc")
    line.offer(RECEIVE, (0, 1, WRITE))
    line.driver.later()
    saved = line.console.save(), line.driver.transport.save()
    line.offer(RECEIVE, (0, 8, WRITE))
    line.driver.later()
    assert line.console.s.received == b""
    line.console.restore(saved[0])
    line.driver.transport.restore(saved[1])
    assert line.console.s.received == b"bc"
