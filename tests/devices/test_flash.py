"""NOR flash with Intel's command set, by its manual: commands, status, query."""

from __future__ import annotations

import pytest

from spe_unicorn.devices.flash import SECTOR, Flash

BYTES = 64 << 20
READY, ERASE_ERROR, PROGRAM_ERROR = 0x80, 0x20, 0x10


class Bench:
    """A flash of zeros, with all that it tells."""

    def __init__(self, read_only: bool = False, full: bool = False, size: int = BYTES) -> None:
        self.read_only = read_only
        self.full = full
        self.kept: list[tuple[int, bytes]] = []
        self.modes: list[bool] = []
        self.bytes = bytearray(size)
        self.flash = Flash(memoryview(self.bytes), self, self.modes.append)

    def write(self, offset: int, data: bytes) -> bool:
        if self.full:
            return False
        self.kept.append((offset, data))
        return True

    def send(self, *commands: tuple[int, int]) -> None:
        for offset, value in commands:
            self.flash.write(offset, 4, value | value << 16 if value < 0x100 else value)

    def __getitem__(self, offset: int) -> int:
        return self.flash.read(offset, 4)


def test_array_mode_reads_what_is_stored() -> None:
    bench = Bench()
    bench.bytes[4:8] = b"\x01\x02\x03\x04"
    assert bench[4] == 0x0403_0201
    assert bench.flash.read(5, 1) == 2
    assert bench.modes == []


def test_programming_a_word() -> None:
    bench = Bench()
    bench.send((0, 0x40), (0x100, 0x1234_5678))
    assert bench[0] == READY << 16 | READY
    assert bench.flash.read(0x100, 2) == READY
    assert bench.bytes[0x100:0x104] == bytes.fromhex("78563412")
    assert bench.kept == [(0x100, bytes.fromhex("78563412"))]
    bench.send((0, 0xFF))
    assert bench[0x100] == 0x1234_5678
    assert bench.modes == [False, True]


def test_erasing_a_sector_waits_for_the_confirmation() -> None:
    bench = Bench()
    bench.send((SECTOR + 0x40, 0x20))
    assert bench.kept == []
    bench.send((SECTOR + 0x40, 0xD0))
    assert bench.kept == [(SECTOR, b"\xff" * SECTOR)]
    assert bench[0] & 0xFF == READY
    bench.send((0, 0xFF))
    assert (bench[SECTOR - 4], bench[SECTOR], bench[2 * SECTOR]) == (0, 0xFFFF_FFFF, 0)


def test_an_erasure_that_is_not_confirmed_erases_nothing() -> None:
    bench = Bench()
    bench.send((0, 0x20), (0, 0xFF))
    assert bench.kept == []
    assert bench[0] == 0


def test_programming_the_buffer() -> None:
    bench = Bench()
    bench.send((0x1000, 0xE8))
    assert bench[0x1000] & 0xFF == READY
    bench.send((0x1000, 0x0001_0001), (0x1000, 0xA0A0_A0A0), (0x1004, 0xB0B0_B0B0))
    assert bench.kept == []
    bench.send((0x1000, 0xD0), (0, 0xFF))
    assert (bench[0x1000], bench[0x1004]) == (0xA0A0_A0A0, 0xB0B0_B0B0)
    assert [offset for offset, _ in bench.kept] == [0x1000, 0x1004]


def test_a_buffer_that_is_not_confirmed_is_forgotten() -> None:
    bench = Bench()
    bench.send((0, 0xE8), (0, 0x0001_0000), (0, 0xA0A0_A0A0), (0, 0xFF))
    assert bench[0] == 0
    assert bench.flash.s.buffer == []


def test_more_than_the_buffer_holds_is_a_wrong_sequence() -> None:
    bench = Bench()
    bench.send((0, 0xE8), (0, 0x0400_0400))
    assert bench[0] & 0xFF == READY | ERASE_ERROR | PROGRAM_ERROR
    bench.send((0, 0x50), (0, 0x70))
    assert bench[0] == 0


@pytest.mark.parametrize("case", ["read-only", "full"])
def test_what_cannot_be_kept_is_an_error_in_the_status(case: str) -> None:
    bench = Bench(read_only=case == "read-only", full=case == "full")
    bench.send((0, 0x40), (0, 0x1111_1111))
    assert bench[0] & 0xFF == READY | PROGRAM_ERROR
    bench.send((0, 0x50), (0, 0x20), (0, 0xD0))
    assert bench[0] & 0xFF == READY | ERASE_ERROR
    bench.send((0, 0xFF))
    assert bench[0] == 0


def test_identification() -> None:
    bench = Bench()
    bench.send((0, 0x90))
    assert (bench[0], bench[4], bench[8]) == (0x0089_0089, 0x0018_0018, 0)
    assert bench.flash.read(0, 8) == 0x0018_0018_0089_0089


def test_query() -> None:
    bench = Bench()
    bench.send((0x55 * 4, 0x98))
    found = [bench[4 * place] for place in range(0x100)]
    assert all(word >> 16 == word & 0xFFFF for word in found)
    low = bytes(word & 0xFF for word in found)
    assert low[0x10:0x13] == b"QRY"
    assert low[0x13:0x15] == b"\x01\x00"
    assert low[0x27] == 25  # 32 MiB a chip
    assert low[0x2A] == 11  # 2 KiB of buffer a chip
    assert low[0x2C:0x31] == bytes((1, 0xFF, 0x00, 0x00, 0x02))  # 256 sectors of 128 KiB
    assert low[0x31:0x36] == b"PRI10"
    assert set(low[0x52:]) == {0}
    bench.send((0, 0x77))  # no command ends a query but the array's
    assert bench[0x40] & 0xFF == ord("Q")
    bench.send((0, 0xFF))
    assert bench[0x40] == 0


@pytest.mark.parametrize("last", [0xD0, 0x01])
def test_locks_are_taken_and_change_nothing(last: int) -> None:
    bench = Bench()
    bench.send((0, 0x60), (0, last))
    assert bench[0] & 0xFF == READY
    bench.send((0, 0x40), (0, 0x1111_1111), (0, 0xFF))
    assert bench[0] == 0x1111_1111


def test_unknown_commands_lead_to_the_array() -> None:
    bench = Bench()
    for command in (0x00, 0xF0, 0x33):
        bench.send((0, 0x70), (0, command))
        assert bench[0] == 0


def test_nothing_beyond_the_end_is_touched() -> None:
    bench = Bench(size=SECTOR)
    bench.send((0, 0x40))
    bench.flash.write(SECTOR - 2, 4, 0x1111_2222)
    assert bench.kept == [(SECTOR - 2, b"\x22\x22")]
    assert len(bench.bytes) == SECTOR


def test_its_state_comes_back_with_its_mode() -> None:
    bench = Bench()
    bench.send((0, 0x70))
    saved = bench.flash.save()
    bench.send((0, 0xFF))
    bench.flash.restore(saved)
    assert bench.modes == [False, True, False]
    assert bench[0] & 0xFF == READY
