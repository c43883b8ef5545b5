from __future__ import annotations

import pytest

from spe_unicorn.devices.pl031 import PL031, Offset
from tests.support.fakes import FakeClock, FakeLine

HZ = 1000
START = 1_700_000_000


class Board:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.line = FakeLine()
        self.rtc = PL031(self.clock, HZ, self.line, START)

    def at(self, count: int) -> None:
        self.clock.count = count
        self.rtc.update()


def test_time_counts_whole_seconds_from_the_start() -> None:
    board = Board()
    assert board.rtc.read(Offset.DR) == START
    board.at(999)
    assert board.rtc.read(Offset.DR) == START
    board.at(1000)
    assert board.rtc.read(Offset.DR) == START + 1


def test_loading_sets_the_time() -> None:
    board = Board()
    board.at(5000)
    board.rtc.write(Offset.LR, 4, 100)
    assert board.rtc.read(Offset.LR) == 100
    assert board.rtc.read(Offset.DR) == 100
    board.at(7000)
    assert board.rtc.read(Offset.DR) == 102


def test_time_wraps_at_32_bits() -> None:
    board = Board()
    board.rtc.write(Offset.LR, 4, 0xFFFF_FFFF)
    board.at(1000)
    assert board.rtc.read(Offset.DR) == 0


def test_alarm_raises_the_line_when_the_time_matches() -> None:
    board = Board()
    board.at(500)
    board.rtc.write(Offset.IMSC, 4, 1)
    board.rtc.write(Offset.MR, 4, START + 3)
    assert board.rtc.next_deadline() == 3000
    board.at(2999)
    assert not board.line.level
    board.at(3000)
    assert board.line.level
    assert board.rtc.next_deadline() is None
    assert (board.rtc.read(Offset.RIS), board.rtc.read(Offset.MIS)) == (1, 1)
    board.rtc.write(Offset.ICR, 4, 1)
    assert not board.line.level
    assert board.rtc.read(Offset.RIS) == 0


def test_masked_alarm_is_recorded_and_shows_when_unmasked() -> None:
    board = Board()
    board.rtc.write(Offset.MR, 4, START + 1)
    assert board.rtc.next_deadline() is None
    board.at(1000)
    assert not board.line.level
    assert (board.rtc.read(Offset.RIS), board.rtc.read(Offset.MIS)) == (1, 0)
    board.rtc.write(Offset.IMSC, 4, 1)
    assert board.line.level


def test_alarm_for_the_present_second_goes_off_at_once() -> None:
    board = Board()
    board.at(1500)
    board.rtc.write(Offset.IMSC, 4, 1)
    board.rtc.write(Offset.MR, 4, START + 1)
    assert board.line.level


def test_alarm_moves_with_the_time_that_is_loaded() -> None:
    board = Board()
    board.rtc.write(Offset.IMSC, 4, 1)
    board.rtc.write(Offset.MR, 4, 110)
    board.at(2000)
    board.rtc.write(Offset.LR, 4, 100)
    assert board.rtc.next_deadline() == 12_000


def test_clock_is_enabled_and_stays_so() -> None:
    board = Board()
    board.rtc.write(Offset.CR, 4, 0)
    assert board.rtc.read(Offset.CR) == 1


def test_identification_is_that_of_the_part() -> None:
    rtc = Board().rtc
    found = [rtc.read(Offset.PERIPH_ID0 + 4 * n) for n in range(8)]
    assert found == [0x31, 0x10, 0x14, 0x00, 0x0D, 0xF0, 0x05, 0xB1]


@pytest.mark.parametrize(("offset", "size", "value"), [(0, 1, 0x00), (1, 1, 0xF1), (0, 2, 0xF100)])
def test_parts_of_a_word_can_be_read(offset: int, size: int, value: int) -> None:
    assert START & 0xFFFF == 0xF100
    assert Board().rtc.read(offset, size) == value


def test_reset_brings_back_the_machines_time() -> None:
    board = Board()
    board.rtc.write(Offset.IMSC, 4, 1)
    board.rtc.write(Offset.LR, 4, 5)
    board.rtc.write(Offset.MR, 4, 5)
    assert board.line.level
    board.rtc.reset()
    assert not board.line.level
    assert board.rtc.read(Offset.DR) == START
