"""The disk against Virtio 1.2, 5.2, by hand."""

from __future__ import annotations

import struct

import pytest

from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.devices.virtio.block import Block
from spe_unicorn.devices.virtio.entropy import Entropy
from spe_unicorn.devices.virtio.overlay import Overlay, OverlayState
from spe_unicorn.stateful import StateError
from tests.devices.virtio.bench import BUFFERS, NEXT, WRITE, Driver

OK, ERROR, UNSUPPORTED = 0, 1, 2
IN, OUT, FLUSH, GET_ID = 0, 1, 4, 8
DATA, STATUS = BUFFERS + 0x100, BUFFERS + 0x80


class Bytes:
    """A disk of eight sectors and a bit, each full of its number."""

    size = 8 * 512 + 100

    def __init__(self, read_only: bool = False, bad: bool = False) -> None:
        self.read_only = read_only
        self.bad = bad
        self.bytes = bytearray(b"".join(bytes((n,)) * 512 for n in range(8)) + b"x" * 100)
        self.flushes = 0

    def read(self, offset: int, size: int) -> bytes | None:
        return None if self.bad else bytes(self.bytes[offset : offset + size])

    def write(self, offset: int, data: bytes) -> bool:
        if not self.bad:
            self.bytes[offset : offset + len(data)] = data
        return not self.bad

    def flush(self) -> bool:
        self.flushes += 1
        return not self.bad


def ask(disk, kind: int, sector: int, size: int, data: bytes = b"") -> tuple[int, Driver]:
    """The status byte that a request gets, and the driver that made it."""
    driver = Driver(Block(disk))
    driver.ram.write(BUFFERS, struct.pack("<IIQ", kind, 0, sector))
    driver.ram.write(STATUS, b"\xee")
    driver.ram.write(DATA, data or b"\xdd" * size)
    middle = [(DATA, size, NEXT | (0 if kind == OUT else WRITE))] if size else []
    driver.describe((BUFFERS, 16, NEXT), *middle, (STATUS, 1, WRITE))
    driver.send()
    driver.later()
    return (driver.ram.read(STATUS, 1) or b"")[0], driver


def test_configuration_tells_whole_sectors() -> None:
    raw = Block(Bytes()).configuration()
    capacity, largest, segments = struct.unpack_from("<QII", raw)
    assert (capacity, largest, segments) == (8, 64 << 10, 126)
    assert struct.unpack_from("<I", raw, 20) == (512,)
    size_max, seg_max, read_only, blk_size, flush = (1 << bit for bit in (1, 2, 5, 6, 9))
    assert Block(Bytes()).features == size_max | seg_max | blk_size | flush
    assert Block(Bytes(read_only=True)).features == Block(Bytes()).features | read_only


def test_a_read() -> None:
    status, driver = ask(Bytes(), IN, 3, 1024)
    assert status == OK
    assert driver.ram.read(DATA, 1024) == b"\3" * 512 + b"\4" * 512
    assert driver.used == (1, 0, 1025)


def test_a_write() -> None:
    disk = Bytes()
    status, driver = ask(disk, OUT, 7, 512, b"w" * 512)
    assert (status, driver.used) == (OK, (1, 0, 1))
    assert disk.bytes[7 * 512 :] == b"w" * 512 + b"x" * 100
    assert disk.bytes[6 * 512] == 6


class Repeating:
    """A disk of 64 MiB: each KiB is its own number. ``largest`` is the longest piece asked for."""

    size = 64 << 20
    read_only = False
    largest = 0

    def read(self, offset: int, size: int) -> bytes | None:
        self.largest = max(self.largest, size)
        return b"".join(n.to_bytes(1024, "big") for n in range(offset >> 10, offset + size >> 10))

    def write(self, offset: int, data: bytes) -> bool:
        self.largest = max(self.largest, len(data))
        return True

    def flush(self) -> bool:
        return True


def test_a_read_of_a_whole_file_takes_little_memory_of_the_host() -> None:
    """UEFI reads a kernel of 30 MiB by one request of one buffer."""
    disk, size = Repeating(), 30 << 20
    driver = Driver(Block(disk), ram=48 << 20)
    driver.ram.write(BUFFERS, struct.pack("<IIQ", IN, 0, 2))
    driver.describe((BUFFERS, 16, NEXT), (DATA, size, NEXT | WRITE), (STATUS, 1, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, size + 1)
    for number in (0, 12_345, (size >> 10) - 1):
        assert driver.ram.read(DATA + (number << 10), 1024) == (number + 1).to_bytes(1024, "big")
    assert disk.largest <= 1 << 20


class Asked(Bytes):
    """A disk of 4 MiB that notes what is asked of it: offset and size."""

    size = 4 << 20

    def __init__(self) -> None:
        super().__init__()
        self.bytes = bytearray(self.size)
        self.reads: list[tuple[int, int]] = []

    def read(self, offset: int, size: int) -> bytes | None:
        self.reads.append((offset, size))
        return super().read(offset, size)


def test_a_read_of_more_than_a_mebibyte_is_made_of_several() -> None:
    disk = Asked()
    driver = Driver(Block(disk), ram=4 << 20)
    size = (1 << 20) + 512
    driver.ram.write(BUFFERS, struct.pack("<IIQ", IN, 0, 2))
    driver.ram.write(STATUS, b"\xee")
    driver.describe((BUFFERS, 16, NEXT), (DATA, size, NEXT | WRITE), (STATUS, 1, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, size + 1)
    assert driver.ram.read(STATUS, 1) == bytes((OK,))
    assert disk.reads == [(1024, 1 << 20), (1024 + (1 << 20), 512)]


def test_a_flush_and_the_name() -> None:
    disk = Bytes()
    assert ask(disk, FLUSH, 0, 0)[0] == OK
    assert disk.flushes == 1
    status, driver = ask(disk, GET_ID, 0, 20)
    assert (status, driver.ram.read(DATA, 20)) == (OK, b"spe-unicorn disk\0\0\0\0")


@pytest.mark.parametrize(
    ("kind", "sector", "size"),
    [
        (IN, 8, 512),
        (IN, 7, 1024),
        (OUT, 8, 512),
        (IN, (1 << 64) - 1, 512),
        (IN, 0, 100),
        (OUT, 0, 511),
    ],
)
def test_what_is_not_on_the_disk_is_an_error(kind: int, sector: int, size: int) -> None:
    disk = Bytes()
    before = bytes(disk.bytes)
    status, driver = ask(disk, kind, sector, size)
    assert status == ERROR
    assert bytes(disk.bytes) == before
    assert driver.used[0] == 1


def test_a_disk_that_fails_and_one_that_is_not_written() -> None:
    for kind in (IN, OUT, FLUSH):
        assert ask(Bytes(bad=True), kind, 0, 512 if kind != FLUSH else 0)[0] == ERROR
    assert ask(Bytes(read_only=True), OUT, 0, 512)[0] == ERROR


def test_the_status_is_the_last_byte_though_data_stand_in_the_same_buffer() -> None:
    """Virtio 1.2, 2.7.4: no device may assume a layout of buffers."""
    for disk, status in ((Bytes(bad=True), ERROR), (Bytes(), OK)):
        driver = Driver(Block(disk))
        driver.ram.write(BUFFERS, struct.pack("<IIQ", IN, 0, 3))
        driver.ram.write(DATA, b"\xee" * 514)
        driver.describe((BUFFERS, 16, NEXT), (DATA, 513, WRITE))
        driver.send()
        driver.later()
        data = b"\xee" * 512 if disk.bad else b"\3" * 512
        assert driver.ram.read(DATA, 514) == data + bytes((status, 0xEE))
        assert driver.used == (1, 0, 513)


def test_an_unknown_request_is_unsupported() -> None:
    assert ask(Bytes(), 99, 0, 0)[0] == UNSUPPORTED


def test_a_header_that_is_too_short_comes_back_as_it_is() -> None:
    driver = Driver(Block(Bytes()))
    driver.describe((BUFFERS, 8, NEXT), (STATUS, 1, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, 0)


def test_an_overlay_keeps_writes_from_the_disk_beneath() -> None:
    beneath = Bytes(read_only=True)
    before = bytes(beneath.bytes)
    disk = Overlay(beneath)
    assert disk.write(510, b"abcd")
    assert disk.read(509, 6) == b"\0abcd\1"
    assert disk.write(4000, b"z" * 196)  # to the end, over a page's edge
    assert disk.read(4095, 2) == b"zz"
    assert disk.read(508, 3) == b"\0\0a"
    assert bytes(beneath.bytes) == before
    assert {len(page) for page in disk.s.pages.values()} == {4096, 100}
    assert disk.flush()
    assert not Overlay(Bytes(bad=True)).write(1, b"x")
    assert Overlay(Bytes(bad=True)).read(0, 1) is None


class Padded(Bytes):
    """As a file of the host: zeros after its end."""

    def read(self, offset: int, size: int) -> bytes | None:
        return bytes(self.bytes[offset : offset + size]).ljust(size, b"\0")


@pytest.mark.parametrize(
    ("offset", "size", "pages"),
    [
        (4095, 1, {0: 4096}),
        (4096, 1, {1: 100}),
        (4195, 1, {1: 100}),
        (4095, 2, {0: 4096, 1: 100}),
        (0, 4196, {0: 4096, 1: 100}),
        (0, 4096, {0: 4096}),
    ],
)
def test_the_last_page_of_an_overlay_ends_where_the_disk_does(
    offset: int, size: int, pages: dict[int, int]
) -> None:
    disk = Overlay(Padded(read_only=True))
    whole = bytearray(Bytes().bytes)
    assert disk.write(offset, b"w" * size)
    whole[offset : offset + size] = b"w" * size
    assert {at: len(page) for at, page in disk.s.pages.items()} == pages
    assert disk.read(0, 4196) == whole
    assert disk.read(4090, 106) == whole[4090:]
    disk.check(disk.save())


def test_an_overlay_of_whole_pages_has_no_page_after_the_last() -> None:
    beneath = Padded(read_only=True)
    beneath.bytes = beneath.bytes[:4096]
    beneath.size = 4096
    disk = Overlay(beneath)
    assert disk.write(4095, b"w")
    assert {at: len(page) for at, page in disk.s.pages.items()} == {0: 4096}
    disk.check(disk.save())
    for number, data in ((1, b""), (1, bytes(4096)), (0, bytes(4095)), (0, bytes(4097))):
        with pytest.raises(StateError):
            disk.check(OverlayState({number: data}))
    with pytest.raises(StateError):
        disk.check(OverlayState({0: bytes(4096), 1: bytes(4096)}))


def test_entropy_comes_from_whoever_builds_the_board() -> None:
    driver = Driver(Entropy(RandomStream(0)))
    driver.describe((BUFFERS, 12, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, 12)
    # The first numbers of splitmix64 with seed 0, which its authors publish.
    first, second = 0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4
    expected = first.to_bytes(8, "little") + second.to_bytes(8, "little")[:4]
    assert driver.ram.read(BUFFERS, 13) == expected + bytes(1)
