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
