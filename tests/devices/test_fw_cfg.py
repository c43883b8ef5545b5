"""fw_cfg against QEMU's specification of it, by hand."""

from __future__ import annotations

import struct

import pytest

from spe_unicorn.devices.fw_cfg import FwCfg, items_of

READ, SKIP, SELECT, WRITE, ERROR = 2, 4, 8, 16, 1
FILES = {"opt/b": b"second", "opt/a": b"first!"}


class Memory:
    """A page of memory at 0x1000."""

    def __init__(self) -> None:
        self.bytes = bytearray(b"\xee" * 0x1000)

    def read(self, address: int, size: int) -> bytes | None:
        at = address - 0x1000
        return bytes(self.bytes[at : at + size]) if 0 <= at <= 0x1000 - size else None

    def write(self, address: int, data: bytes) -> bool:
        if self.read(address, len(data)) is None:
            return False
        self.bytes[address - 0x1000 : address - 0x1000 + len(data)] = data
        return True

    def clear(self, address: int, size: int) -> bool:
        return 0 <= size <= 0x1000 and self.write(address, bytes(size))


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def device(memory: Memory) -> FwCfg:
    return FwCfg(items_of(3, b"KERNEL", b"RD", b"quiet", FILES), memory)


def select(device: FwCfg, key: int) -> None:
    device.write(8, 2, int.from_bytes(key.to_bytes(2, "big"), "little"))


def item(device: FwCfg, key: int, size: int) -> bytes:
    select(device, key)
    return bytes(device.read(0, 1) for _ in range(size))


def request(device: FwCfg, memory: Memory, control: int, length: int, address: int) -> int:
    """A request at 0x1F00; what its control word is then."""
    memory.write(0x1F00, struct.pack(">IIQ", control, length, address))
    device.write(0x10, 4, 0)
    device.write(0x14, 4, int.from_bytes((0x1F00).to_bytes(4, "big"), "little"))
    return struct.unpack(">I", memory.read(0x1F00, 4) or b"")[0]


def test_signature_and_features(device: FwCfg) -> None:
    assert item(device, 0, 6) == b"QEMU\0\0"
    assert item(device, 1, 4) == b"\x03\0\0\0"
    assert device.read(0x10, 8).to_bytes(8, "little") == b"QEMU CFG"
    assert device.read(0x14, 4).to_bytes(4, "little") == b" CFG"


def test_wide_reads_give_bytes_in_their_order(device: FwCfg) -> None:
    select(device, 0x11)
    assert device.read(0, 4).to_bytes(4, "little") == b"KERN"
    assert device.read(0, 8).to_bytes(8, "little") == b"EL\0\0\0\0\0\0"


def test_kernel_initrd_and_command_line(device: FwCfg) -> None:
    assert item(device, 5, 2) == b"\x03\0"
    assert item(device, 0x08, 4) == b"\x06\0\0\0"
    assert (item(device, 0x0B, 4), item(device, 0x12, 2)) == (b"\x02\0\0\0", b"RD")
    assert (item(device, 0x14, 4), item(device, 0x15, 6)) == (b"\x06\0\0\0", b"quiet\0")


def test_files_are_listed_by_name(device: FwCfg) -> None:
    entry = struct.Struct(">IHH56s")
    raw = item(device, 0x19, 4 + 2 * entry.size)
    assert raw[:4] == b"\0\0\0\x02"
    first, second = (entry.unpack_from(raw, 4 + n * entry.size) for n in range(2))
    assert first == (6, 0x20, 0, b"opt/a".ljust(56, b"\0"))
    assert second == (6, 0x21, 0, b"opt/b".ljust(56, b"\0"))
    assert item(device, 0x21, 8) == b"second\0\0"


def test_an_item_that_is_not_there_reads_as_zero(device: FwCfg) -> None:
    assert item(device, 0x3000, 4) == bytes(4)


def test_dma_reads_selects_and_goes_on(device: FwCfg, memory: Memory) -> None:
    assert request(device, memory, 0x11 << 16 | SELECT | READ, 4, 0x1000) == 0
    assert memory.bytes[:5] == b"KERN\xee"
    assert request(device, memory, READ, 4, 0x1100) == 0
    assert memory.bytes[0x100:0x105] == b"EL\0\0\xee"


def test_dma_skips(device: FwCfg, memory: Memory) -> None:
    request(device, memory, 0x11 << 16 | SELECT | SKIP, 3, 0)
    request(device, memory, READ, 3, 0x1000)
    assert memory.bytes[:3] == b"NEL"
    request(device, memory, SKIP, 0xFFFF_FFFF, 0)
    assert device.s.offset == 6


@pytest.mark.parametrize(
    ("control", "length", "address"),
    [
        (0x11 << 16 | SELECT | READ, 6, 0x5000),
        (0x11 << 16 | SELECT | READ, 0xFFFF_FFFF, 0x1000),
        (0x11 << 16 | SELECT | WRITE, 1, 0x1000),
    ],
)
def test_what_cannot_be_done_is_an_error(
    device: FwCfg, memory: Memory, control: int, length: int, address: int
) -> None:
    assert request(device, memory, control, length, address) == ERROR


def test_a_request_where_no_memory_is_does_nothing(device: FwCfg, memory: Memory) -> None:
    before = bytes(memory.bytes)
    device.write(0x10, 8, 0xFFFF_FFFF_FFFF_FFFF)
    assert bytes(memory.bytes) == before


def test_nothing_can_be_written(device: FwCfg) -> None:
    select(device, 0x11)
    device.write(0, 1, 0x55)
    assert item(device, 0x11, 6) == b"KERNEL"
