"""The transport in memory and its queues against Virtio 1.2, by hand; hostile drivers, too."""

from __future__ import annotations

import struct

import pytest

from spe_unicorn.devices.virtio.queue import Chain, Queue
from spe_unicorn.devices.virtio.transport import LATENCY, Device, TransportState
from spe_unicorn.stateful import StateError
from tests.devices.virtio.bench import (
    BASE,
    BUFFERS,
    DESCRIPTORS,
    DEVICE,
    DRIVER,
    INDIRECT,
    NEXT,
    VERSION_1,
    WRITE,
    Driver,
)

NEEDS_RESET, USED, CONFIGURATION = 0x40, 1, 2


class Echo(Device):
    """Gives back what it reads, upper case."""

    number, queues, features = 42, 2, 1 << 3

    def configuration(self) -> bytes:
        return b"configured"

    def reset(self) -> None:
        pass

    def request(self, queue: int, chain: Chain) -> None:
        chain.put(chain.take(chain.left).upper())


class AtOnce(Echo):
    """The same, with no time in between."""

    latency = 0


@pytest.fixture
def driver() -> Driver:
    return Driver(Echo())


def test_it_says_what_it_is() -> None:
    driver = Driver(Echo(), set_up=False)
    assert [driver[offset] for offset in (0, 4, 8, 12)] == [0x7472_6976, 2, 42, 0x554D_4551]
    assert driver.transport.read(0x100, 8) == int.from_bytes(b"configur", "little")
    assert driver.transport.read(0x101, 1) == ord("o")
    assert driver.transport.read(0x1F0, 4) == 0
    assert driver[0xFC] == 0


def test_features_are_chosen_by_halves() -> None:
    driver = Driver(Echo(), set_up=False)
    found = []
    for half in range(3):
        driver[0x14] = half
        found.append(driver[0x10])
    assert found == [1 << 3, 1, 0]


@pytest.mark.parametrize("features", [0, 1 << 3, VERSION_1 | 1 << 5, VERSION_1 | 1 << 40])
def test_features_that_it_has_not_or_without_version_1_are_refused(features: int) -> None:
    driver = Driver(Echo(), set_up=False)
    driver.set_up(features)
    assert driver[0x70] & 8 == 0


def test_queues_that_are_there_and_that_are_not() -> None:
    driver = Driver(Echo(), set_up=False)
    found = []
    for number in (0, 1, 2, 0xFFFF_FFFF):
        driver[0x30] = number
        found.append(driver[0x34])
    assert found == [256, 256, 0, 0]


def test_a_request_is_done_a_fixed_time_after_it_was_notified(driver: Driver) -> None:
    driver.ram.write(BUFFERS, b"hello world")
    driver.describe((BUFFERS, 5, NEXT), (BUFFERS + 5, 6, NEXT), (BUFFERS + 64, 32, WRITE))
    driver.send()
    assert driver.transport.next_deadline() == LATENCY
    driver.later(LATENCY - 1)
    assert (driver.used[0], driver.line.level) == (0, False)
    driver.later(1)
    assert driver.used == (1, 0, 11)
    assert driver.ram.read(BUFFERS + 64, 12) == b"HELLO WORLD\0"
    assert (driver.line.level, driver[0x60]) == (True, USED)
    driver[0x64] = USED
    assert (driver.line.level, driver[0x60]) == (False, 0)


def test_a_device_may_take_no_time_for_a_request() -> None:
    """It is done when the guest's store to QueueNotify is."""
    driver = Driver(AtOnce())
    driver.describe((BUFFERS, 1, WRITE))
    for _ in range(2):
        driver.clock.count += 5
        driver.send()
        assert driver.transport.next_deadline() == driver.clock.count
        driver.transport.update()
        assert (driver.line.level, driver[0x60]) == (True, USED)
        assert driver.transport.next_deadline() == driver.clock.count
        driver.transport.update()
        assert driver.transport.next_deadline() is None
        driver[0x64] = USED
    assert driver.used[0] == 2


def test_requests_come_one_after_the_other(driver: Driver) -> None:
    driver.describe((BUFFERS, 1, NEXT), (BUFFERS + 8, 1, WRITE), (BUFFERS, 2, NEXT))
    driver.describe((BUFFERS, 2, NEXT), (BUFFERS + 8, 2, WRITE), first=2)
    driver.send(0)
    driver.send(2)
    driver.later()
    assert driver.used == (1, 0, 1)
    driver.later()
    assert driver.used == (2, 2, 2)
    driver.later()
    assert driver.transport.next_deadline() is None


def test_the_next_request_comes_a_fixed_time_after_the_one_before(driver: Driver) -> None:
    driver.clock.count = now = 2 * LATENCY + LATENCY // 2
    driver.describe((BUFFERS, 1, WRITE))
    driver.send()
    driver.send()
    assert driver.transport.next_deadline() == now + LATENCY
    driver.later()
    assert driver.used[0] == 1
    assert driver.transport.next_deadline() == now + 2 * LATENCY


def test_an_interrupt_is_acknowledged_bit_by_bit(driver: Driver) -> None:
    driver.describe((BUFFERS, 1, WRITE))
    driver.send()
    driver.later()
    driver.send(head=driver.size)  # there is no such descriptor
    driver.later()
    assert driver[0x60] == USED | CONFIGURATION
    driver[0x64] = 0
    assert driver[0x60] == USED | CONFIGURATION
    driver[0x64] = USED
    assert driver[0x60] == CONFIGURATION
    assert driver.line.level
    driver[0x64] = CONFIGURATION
    assert driver[0x60] == 0
    assert not driver.line.level


def test_a_ring_of_the_driver_is_aligned_to_two_bytes() -> None:
    """Virtio 1.2, 2.7: the alignment of the Available Ring is 2."""
    driver = Driver(Echo())
    driver[0x44] = 0
    ring = DRIVER + 2
    driver[0x90] = ring
    driver[0x44] = 1
    for head, size in ((0, 3), (1, 5)):
        driver.describe((BUFFERS + 16 * head, size, WRITE), first=head)
    driver.ram.write(ring, struct.pack("<HHHH", 0, 2, 0, 1))
    driver[0x50] = 0
    driver.later()
    driver.later()
    assert driver.used[:2] == (2, 1)


def test_what_a_buffer_still_holds_is_taken_next() -> None:
    driver = Driver(Echo())
    driver.ram.write(BUFFERS, b"0123456789ab")
    chain = Chain(driver.ram, 0)
    chain.add(BUFFERS, 10, writable=False)
    chain.add(BUFFERS + 10, 2, writable=False)
    assert [chain.take(3), chain.left, chain.take(8), chain.left] == [b"012", 9, b"3456789a", 1]


def test_the_index_goes_around(driver: Driver) -> None:
    driver.describe((BUFFERS, 1, NEXT), (BUFFERS + 8, 1, WRITE))
    for _ in range(20):
        driver.send()
        driver.later()
    assert driver.used[0] == 20


def at_index(index: int, size: int = 8) -> Driver:
    """A driver whose queue has done so many requests."""
    driver = Driver(Echo(), size=size)
    driver.describe((BUFFERS, 1, NEXT), (BUFFERS + 8, 1, WRITE))
    state = driver.transport.save()
    state.queues[0].seen = index
    driver.transport.restore(state)
    driver.ram.write(DRIVER + 2, struct.pack("<H", index))
    driver.ram.write(DEVICE + 2, struct.pack("<H", index))
    return driver


def make_available(driver: Driver, index: int, *heads: int) -> None:
    """Entries from ``index`` on; the driver's index counts modulo 65536."""
    for n, head in enumerate(heads, index):
        place = DRIVER + 4 + 2 * (n % 65536 % driver.size)
        driver.ram.write(place, struct.pack("<H", head))
    driver.ram.write(DRIVER + 2, struct.pack("<H", (index + len(heads)) % 65536))
    driver[0x50] = 0


@pytest.mark.parametrize("size", [1, 2, 8, 256])
@pytest.mark.parametrize("index", [0, 7, 255, 256, 0x7FFF, 0xFFFE, 0xFFFF])
def test_indices_count_to_65535_and_rings_have_as_many_entries_as_the_queue(
    size: int, index: int
) -> None:
    driver = at_index(index, size)
    if size == 1:
        driver.describe((BUFFERS, 0, 0))
    for n in range(3):
        make_available(driver, index + n, 0)
        driver.later()
        done = (index + n + 1) % 65536
        assert driver.ram.read(DEVICE + 2, 2) == struct.pack("<H", done)
        place = DEVICE + 4 + 8 * ((index + n) % 65536 % size)
        written = 0 if size == 1 else 1
        assert driver.ram.read(place, 8) == struct.pack("<II", 0, written)
        driver.ram.write(place, b"\xee" * 8)
        assert driver.transport.s.queues[0].seen == done
    assert driver[0x70] & NEEDS_RESET == 0


@pytest.mark.parametrize("index", [0, 5, 0xFFFC])
def test_as_many_requests_as_there_are_entries_wait_at_a_time_and_no_more(index: int) -> None:
    driver = at_index(index, 8)
    heads = [0, 2] * 4
    driver.describe((BUFFERS, 2, NEXT), (BUFFERS + 8, 2, WRITE), first=2)
    make_available(driver, index, *heads)
    for n, head in enumerate(heads):
        driver.later()
        place = DEVICE + 4 + 8 * ((index + n) % 65536 % 8)
        assert driver.ram.read(place, 8) == struct.pack("<II", head, 1 if head == 0 else 2)
    driver.later()
    assert driver.transport.next_deadline() is None
    assert driver[0x70] & NEEDS_RESET == 0
    make_available(driver, index + 8, *[0] * 9)
    assert broken(driver)


def test_an_index_that_went_backwards_breaks_it() -> None:
    driver = at_index(4)
    driver.ram.write(DRIVER + 2, struct.pack("<H", 3))  # 65535 requests, as it seems
    driver[0x50] = 0
    assert broken(driver)


def test_a_chain_of_as_many_buffers_as_the_queue_has_entries_is_followed(driver: Driver) -> None:
    driver.ram.write(BUFFERS, b"abcdefg")
    buffers = [(BUFFERS + n, 1, NEXT) for n in range(7)]
    driver.describe(*buffers, (BUFFERS + 64, 7, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, 7)
    assert driver.ram.read(BUFFERS + 64, 7) == b"ABCDEFG"


def test_the_last_head_is_one_and_the_one_after_it_is_none(driver: Driver) -> None:
    driver.describe((BUFFERS, 0, 0), first=7)
    driver.send(7)
    driver.later()
    assert driver.used == (1, 7, 0)
    driver.describe((BUFFERS, 1, NEXT))
    driver.ram.write(DESCRIPTORS + 14, struct.pack("<H", 8))
    driver.send(0)
    assert broken(driver)


def test_a_driver_that_wants_no_interrupt_gets_none(driver: Driver) -> None:
    driver.ram.write(DRIVER, b"\1\0")
    driver.describe((BUFFERS, 1, NEXT), (BUFFERS + 8, 1, WRITE))
    driver.send()
    driver.later()
    assert (driver.used[0], driver.line.level) == (1, False)


def broken(driver: Driver) -> bool:
    driver.later()
    after = driver[0x70] & NEEDS_RESET and driver[0x60] & CONFIGURATION
    driver.sent = 0
    driver[0x50] = 0
    return bool(after) and driver.transport.next_deadline() is None


@pytest.mark.parametrize(
    "buffers",
    [
        [(BUFFERS, 1, NEXT)] * 8,  # a ring
        [(0, 1, 0)],  # no memory there
        [(BASE + 0xFFFF, 2, 0)],
        [(BUFFERS, 5, NEXT), (BUFFERS, 1, WRITE)],  # no room for the answer
        [(BUFFERS, 1, NEXT | WRITE), (BUFFERS, 1, 0)],  # written before read
        [(BUFFERS, 16, INDIRECT)],
        [(BUFFERS, 1, NEXT | INDIRECT), (BUFFERS + 64, 1, WRITE)],  # right but for that flag
        [(BUFFERS, 0xFFFF_FFFF, WRITE)],
    ],
)
def test_what_no_device_can_follow_breaks_it(
    driver: Driver, buffers: list[tuple[int, int, int]]
) -> None:
    driver.describe(*buffers)
    driver.send()
    assert broken(driver)
    driver.set_up()
    driver.ram.write(DEVICE + 2, b"\0\0")
    driver.describe((BUFFERS, 1, NEXT), (BUFFERS + 8, 1, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, 1)  # a reset heals it


def test_a_head_that_is_none_breaks_it(driver: Driver) -> None:
    driver.send(8)
    assert broken(driver)


def test_more_entries_than_there_are_break_it(driver: Driver) -> None:
    driver.ram.write(DRIVER + 2, struct.pack("<H", 9))
    driver[0x50] = 0
    assert broken(driver)


@pytest.mark.parametrize("size", [0, 3, 257, 512, 0xFFFF_FFFF])
def test_a_queue_of_another_size_is_never_ready(size: int) -> None:
    driver = Driver(Echo(), size=size, set_up=False)
    driver.set_up()
    assert driver[0x44] == 0
    driver[0x50] = 0
    assert driver.transport.next_deadline() is None


@pytest.mark.parametrize("address", [0, (1 << 64) - 1, BASE + 0xFFFF])
def test_queues_where_no_memory_is_break_it(driver: Driver, address: int) -> None:
    driver[0x70] = 0
    driver.set_up()
    driver[0x44] = 0
    driver[0x90], driver[0x94] = address & 0xFFFF_FFFF, address >> 32
    driver[0x44] = 1
    driver[0x50] = 0
    assert broken(driver)


def test_the_areas_of_a_queue_have_addresses_of_64_bits(driver: Driver) -> None:
    """4.2.2: the low word of each is at its register, the high word four bytes after it."""
    driver[0x44] = 0
    for n, register in enumerate((0x80, 0x90, 0xA0)):
        driver[register + 4] = 0x8765_4321 + n
        driver[register] = 0xFEDC_BA98
    queue = driver.transport.s.queues[0]
    areas = [queue.descriptors, queue.driver, queue.device]
    assert areas == [(0x8765_4321 + n << 32) + 0xFEDC_BA98 for n in range(3)]


@pytest.mark.parametrize(
    ("queues", "notified", "waiting"),
    [
        ([Queue()], [], []),
        ([Queue()] * 3, [], []),
        ([Queue(size=3, ready=True), Queue()], [], []),
        ([Queue(size=512, ready=True), Queue()], [], []),
        ([Queue(), Queue()], [2], []),
        ([Queue(), Queue()], [], [-1]),
        ([Queue(), Queue()], [0, 0], []),
        ([Queue(), Queue()], [1], [1]),
    ],
)
def test_a_state_that_no_driver_leads_to_is_refused(
    driver: Driver, queues: list[Queue], notified: list[int], waiting: list[int]
) -> None:
    with pytest.raises(StateError):
        driver.transport.check(TransportState(queues=queues, notified=notified, waiting=waiting))


def test_a_state_that_a_driver_leads_to_is_taken(driver: Driver) -> None:
    """Before QueueReady a queue may have any size: the driver has written it, nobody uses it."""
    for queues in ([Queue(size=3), Queue(size=512)], [Queue(size=8, ready=True), Queue()]):
        driver.transport.check(TransportState(queues=queues, notified=[1], waiting=[0]))


def test_before_the_driver_is_ready_nothing_is_done() -> None:
    driver = Driver(Echo())
    driver[0x70] = 1 | 2 | 8
    driver[0x50] = 0
    assert driver.transport.next_deadline() is None


def test_a_reset_forgets_what_was_on_its_way(driver: Driver) -> None:
    driver.describe((BUFFERS, 1, NEXT), (BUFFERS + 8, 1, WRITE))
    driver.send()
    driver[0x70] = 0
    driver.later()
    assert (driver.used[0], driver[0x70], driver[0x44]) == (0, 0, 0)
    assert driver.ram.read(DESCRIPTORS, 8) == BUFFERS.to_bytes(8, "little")


def test_its_state_comes_back(driver: Driver) -> None:
    driver.describe((BUFFERS, 1, NEXT), (BUFFERS + 8, 1, WRITE))
    driver.send()
    saved = driver.transport.save()
    driver.later()
    driver[0x64] = USED
    driver.ram.write(DEVICE + 2, b"\0\0")
    driver.transport.restore(saved)
    driver.transport.update()
    assert (driver.used[0], driver.line.level) == (1, True)
