"""Records on a grid: what is found many at once is what the plain reader finds one by one."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.output import grid
from spe_unicorn.output.grid import GridReader
from spe_unicorn.spe.packets import BadPacket
from spe_unicorn.spe.record import PlacedRecord, decode_stream, encode
from tests.support.samples import of_every_sort


def plain(data: bytes) -> tuple[list[int], list[BadPacket]]:
    found = list(decode_stream(data))
    starts = [each.start for each in found if isinstance(each, PlacedRecord)]
    return starts, [each for each in found if isinstance(each, BadPacket)]


def fast(data: bytes, reader: GridReader | None = None) -> tuple[list[int], list[BadPacket]]:
    found = list((reader or GridReader()).read(memoryview(data)))
    assert all(len(read.kinds) == len(read.starts) for read in found)
    starts = [start for read in found for start in read.starts.tolist()]
    return starts, [bad for read in found for bad in read.bad]


def stream(align: int, seed: int, size: int = 400) -> bytearray:
    chance = random.Random(seed)
    records = [encode(record, align) for record in of_every_sort()]
    return bytearray(b"".join(chance.choice(records) for _ in range(size)))


@pytest.mark.parametrize("align", [0, 4, 6, 7, 11])
def test_records_of_every_sort_are_found(align: int) -> None:
    data = bytes(stream(align, align, 100))
    assert fast(data) == plain(data)


@pytest.mark.parametrize("seed", range(12))
def test_streams_with_damage_are_read_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "_AT_ONCE", 16)
    monkeypatch.setattr(grid, "MOST", 50)
    chance = random.Random(seed)
    reader = GridReader()
    for align in (6, 7):
        data = stream(align, seed)
        for _ in range(10):
            place = chance.randrange(70 * 64, len(data))
            data[place : place + 8] = chance.randbytes(chance.randrange(1, 9))
        del data[chance.randrange(len(data) - 100, len(data)) :]
        assert fast(bytes(data), reader) == plain(bytes(data))


def test_what_moves_off_the_grid_is_found() -> None:
    data = bytes(stream(6, 1, 80) + bytes(24) + stream(0, 2, 30) + bytes(8) + stream(6, 3, 80))
    assert fast(data) == plain(data)


def test_noise_and_nothing_are_read() -> None:
    for data in (b"", bytes(640), random.Random(1).randbytes(5000)):
        assert fast(data) == plain(data)


LONG = bytes.fromhex("4901 530300 980300 990100 9a0200 6401000000") + b"".join(
    bytes([0xB0 + index, *range(8)]) for index in range(5)
)
"""Packets that fill a cell, without events."""


def test_records_of_two_cells_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of one looks like a record, as they follow it."""
    stamp = b"\x42\x02\x71" + bytes(range(1, 9))
    assert len(LONG) == 64
    short = stamp + bytes(53)
    records = [LONG + short, short, LONG + b"\x42\x02\x01" + bytes(61)]
    chance = random.Random(7)
    data = b"".join(chance.choice(records) for _ in range(500)) + LONG + stamp
    assert fast(data) == plain(data)
    assert len(plain(data)[0]) == 501
    monkeypatch.setattr(grid, "_AT_ONCE", 3)
    assert fast(data) == plain(data)
    assert fast(data[:-20]) == plain(data[:-20])

    def unread(*_: object) -> object:
        raise AssertionError

    reader = GridReader()
    fast(data[:-75], reader)
    monkeypatch.setattr(grid, "read_record", unread)
    assert fast(data[:-75], reader) == plain(data[:-75])


@pytest.mark.parametrize("seed", range(40))
def test_small_cells_of_much_the_same_bytes_are_read_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rests look like records, long ones too, where cells have 8 bytes."""
    chance = random.Random(seed)
    monkeypatch.setattr(grid, "CELL", 8)
    monkeypatch.setattr(grid, "_WORDS", 1)
    monkeypatch.setattr(grid, "_PROBED", 4)
    monkeypatch.setattr(grid, "_AT_ONCE", chance.choice([2, 5, 64]))
    alike = [bytes.fromhex(each) for each in ("52 4949", "99 4901", "49 01", "4949", "01", "00")]
    data = bytearray()
    for _ in range(300):
        record = b"".join(chance.choices(alike, k=chance.randrange(1, 6)))[:15] + b"\x01"
        data += record + bytes(-len(record) % 8)
    assert fast(bytes(data)) == plain(bytes(data))


def test_a_rest_and_what_follows_may_look_like_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """In cells of 8 bytes: an address ends in bytes that begin a record of the same layout."""
    monkeypatch.setattr(grid, "CELL", 8)
    monkeypatch.setattr(grid, "_WORDS", 1)
    address = bytes.fromhex("4205b10000000000 4205b10100000000")
    counter = bytes.fromhex("4203980100000000 0100000000000000")
    chance = random.Random(8)
    data = b"".join(chance.choice([address, counter]) for _ in range(300))
    assert len(plain(data)[0]) == 300
    assert fast(data) == plain(data)
