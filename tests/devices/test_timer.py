from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.arch.counter import FREQUENCY, NEVER
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers import timer as r
from spe_unicorn.devices.timer import Comparator, GenericTimer, TimerLines, next_event
from tests.support.fakes import FakeLine

ENABLE, IMASK, ISTATUS = 1, 2, 4
LAST = (1 << 64) - 1


class Board:
    def __init__(self) -> None:
        self.lines = {
            name: FakeLine()
            for name in ("physical", "virtual", "el2_physical", "el2_virtual", "secure_physical")
        }
        self.cntvoff = 0
        self.cntpoff = 0
        self.timer = GenericTimer(
            TimerLines(**self.lines),
            cntvoff=lambda: self.cntvoff,
            cntpoff=lambda: self.cntpoff,
        )


def test_counter_frequency_is_that_of_the_board() -> None:
    assert FREQUENCY == 62_500_000


def test_line_rises_at_the_compare_value_and_not_one_tick_earlier() -> None:
    line = FakeLine()
    timer = Comparator(line)
    timer.set_cval(1000, now=0)
    timer.set_ctl(ENABLE, now=0)
    timer.update(999)
    assert not line.level
    assert timer.ctl(999) == ENABLE
    timer.update(1000)
    assert line.level
    assert timer.ctl(1000) == ENABLE | ISTATUS


def test_disabled_timer_is_silent_and_shows_no_status() -> None:
    line = FakeLine()
    timer = Comparator(line)
    timer.set_cval(10, now=0)
    timer.update(20)
    assert not line.level
    assert timer.ctl(20) == 0


def test_mask_holds_the_line_back_but_not_the_status() -> None:
    line = FakeLine()
    timer = Comparator(line)
    timer.set_cval(10, now=0)
    timer.set_ctl(ENABLE | IMASK, now=20)
    assert not line.level
    assert timer.ctl(20) == ENABLE | IMASK | ISTATUS
    timer.set_ctl(ENABLE, now=20)
    assert line.level


def test_writing_a_later_compare_value_lowers_the_line_at_once() -> None:
    line = FakeLine()
    timer = Comparator(line)
    timer.set_ctl(ENABLE, now=50)
    assert line.level
    timer.set_cval(51, now=50)
    assert not line.level


def test_status_bit_of_ctl_ignores_writes() -> None:
    timer = Comparator(FakeLine())
    timer.set_cval(LAST, now=0)
    timer.set_ctl(ENABLE | ISTATUS, now=0)
    assert timer.ctl(0) == ENABLE


@pytest.mark.parametrize(
    ("written", "now", "cval"),
    [
        (100, 1000, 1100),
        (0, 1000, 1000),
        (0xFFFF_FFFF, 1000, 999),
        (0x8000_0000, 1 << 40, (1 << 40) - (1 << 31)),
        (0x7FFF_FFFF, 1000, 1000 + 0x7FFF_FFFF),
        (0xFFFF_FFFF, 0, LAST),
        (0x1_0000_0005, 1000, 1005),
    ],
)
def test_timer_value_is_a_signed_32_bit_distance(written: int, now: int, cval: int) -> None:
    timer = Comparator(FakeLine())
    timer.set_tval(written, view=now, now=now)
    assert timer.s.cval == cval


@pytest.mark.parametrize(
    ("cval", "now", "tval"),
    [(1100, 1000, 100), (1000, 1100, 0xFFFF_FF9C), (1 << 33, 0, 0), (5, 6, 0xFFFF_FFFF)],
)
def test_timer_value_reads_the_low_word_of_what_is_left(cval: int, now: int, tval: int) -> None:
    timer = Comparator(FakeLine())
    timer.set_cval(cval, now=now)
    assert timer.tval(now) == tval


def test_deadline_is_the_count_at_which_the_line_rises() -> None:
    timer = Comparator(FakeLine(), offset=lambda: 300)
    timer.set_cval(1000, now=0)
    timer.set_ctl(ENABLE, now=400)
    assert timer.deadline(400) == 1300


@pytest.mark.parametrize("ctl", [0, IMASK, ENABLE | IMASK])
def test_timer_that_cannot_raise_its_line_has_no_deadline(ctl: int) -> None:
    timer = Comparator(FakeLine())
    timer.set_cval(1000, now=0)
    timer.set_ctl(ctl, now=0)
    assert timer.deadline(0) is None


def test_asserted_timer_has_no_deadline() -> None:
    timer = Comparator(FakeLine())
    timer.set_cval(1000, now=0)
    timer.set_ctl(ENABLE, now=0)
    assert timer.deadline(1000) is None


def test_offset_ahead_of_the_counter_makes_the_view_huge_until_the_counter_catches_up() -> None:
    line = FakeLine()
    timer = Comparator(line, offset=lambda: 500)
    timer.set_cval(7, now=400)
    timer.set_ctl(ENABLE, now=400)
    assert line.level
    assert timer.deadline(400) == 500
    timer.update(500)
    assert not line.level
    assert timer.deadline(500) == 507


def test_timers_have_the_offset_of_their_kind() -> None:
    board = Board()
    board.cntvoff, board.cntpoff = 100, 10
    for register in (r.CNTV_CVAL_EL0, r.CNTP_CVAL_EL0, r.CNTHP_CVAL_EL2, r.CNTHV_CVAL_EL2):
        board.timer.write(register, 1000, now=0, el=EL2)
    for register in (r.CNTV_CTL_EL0, r.CNTP_CTL_EL0, r.CNTHP_CTL_EL2, r.CNTHV_CTL_EL2):
        board.timer.write(register, ENABLE, now=200, el=EL2)
    assert board.timer.next_deadline(200) == 1000
    board.timer.update(1000)
    assert [n for n, line in board.lines.items() if line.level] == ["el2_physical", "el2_virtual"]
    assert board.timer.next_deadline(1000) == 1010
    board.timer.update(1010)
    assert board.lines["physical"].level
    assert board.timer.next_deadline(1010) == 1100
    board.timer.update(1100)
    assert board.lines["virtual"].level
    assert board.timer.next_deadline(1100) is None
    assert not board.lines["secure_physical"].level


def test_higher_levels_set_the_physical_timer_value_without_the_physical_offset() -> None:
    board = Board()
    board.cntpoff = 100
    board.timer.write(r.CNTP_TVAL_EL0, 50, now=1000, el=EL1)
    assert board.timer.read(r.CNTP_CVAL_EL0, now=1000, el=EL1) == 950
    assert board.timer.read(r.CNTP_TVAL_EL0, now=1000, el=EL1) == 50
    for el in (EL2, EL3):
        board.timer.write(r.CNTP_TVAL_EL0, 50, now=1000, el=el)
        assert board.timer.read(r.CNTP_CVAL_EL0, now=1000, el=el) == 1050


def test_virtual_timer_value_takes_the_virtual_offset_at_every_level() -> None:
    board = Board()
    board.cntvoff = 100
    for el in (EL1, EL2, EL3):
        board.timer.write(r.CNTV_TVAL_EL0, 50, now=1000, el=el)
        assert board.timer.read(r.CNTV_CVAL_EL0, now=1000, el=el) == 950


def test_secure_timer_has_registers_and_a_line_of_its_own() -> None:
    board = Board()
    board.timer.write(r.CNTPS_TVAL_EL1, 5, now=10, el=EL3)
    board.timer.write(r.CNTPS_CTL_EL1, ENABLE, now=10, el=EL3)
    board.timer.update(15)
    assert [n for n, line in board.lines.items() if line.level] == ["secure_physical"]
    assert board.timer.read(r.CNTPS_CTL_EL1, now=15, el=EL3) == ENABLE | ISTATUS


def test_reset_stops_every_timer_and_lowers_every_line() -> None:
    board = Board()
    for register in (r.CNTP_CTL_EL0, r.CNTV_CTL_EL0, r.CNTPS_CTL_EL1):
        board.timer.write(register, ENABLE, now=5, el=EL3)
    board.timer.reset()
    assert not any(line.level for line in board.lines.values())
    assert board.timer.next_deadline(5) is None


def test_registers_that_are_no_timers_are_refused() -> None:
    with pytest.raises(KeyError):
        Board().timer.read(r.CNTFRQ_EL0, now=0, el=EL3)


@given(cval=st.integers(0, LAST), offset=st.integers(0, LAST), now=st.integers(0, NEVER - 2))
def test_level_is_constant_up_to_the_deadline_and_changes_there(cval, offset, now):
    timer = Comparator(FakeLine(), offset=lambda: offset)
    timer.set_cval(cval, now=now)
    timer.set_ctl(ENABLE, now=now)
    deadline = timer.deadline(now)
    if deadline is None:
        assert timer.level(NEVER - 1) == timer.level(now)
    else:
        assert deadline > now
        assert timer.level(deadline - 1) == timer.level(now)
        assert timer.level(deadline) != timer.level(now)


@pytest.mark.parametrize(
    ("evnti", "falling", "scaled", "count", "ticks"),
    [
        (4, False, False, 0, 16),  # bit 4 rises at 16
        (4, False, False, 16, 32),  # and next at 48
        (4, True, False, 0, 32),  # it falls at 32
        (4, True, False, 31, 1),
        (0, False, False, 0, 1),
        (0, False, True, 0, 256),  # EVNTIS moves it to bit 8
    ],
)
def test_event_stream_follows_the_chosen_bit_of_the_count(
    evnti: int, falling: bool, scaled: bool, count: int, ticks: int
) -> None:
    assert next_event(evnti, count, evntis=scaled, evntdir=falling, evnten=True) == ticks


def test_event_stream_that_is_off_sends_nothing() -> None:
    assert next_event(4, 0, evntis=False, evntdir=False, evnten=False) is None


def test_registers_have_the_encodings_of_the_manual() -> None:
    names = {
        "CNTFRQ_EL0": "S3_3_C14_C0_0",
        "CNTPCT_EL0": "S3_3_C14_C0_1",
        "CNTVCT_EL0": "S3_3_C14_C0_2",
        "CNTP_TVAL_EL0": "S3_3_C14_C2_0",
        "CNTP_CTL_EL0": "S3_3_C14_C2_1",
        "CNTP_CVAL_EL0": "S3_3_C14_C2_2",
        "CNTV_CTL_EL0": "S3_3_C14_C3_1",
        "CNTHP_CTL_EL2": "S3_4_C14_C2_1",
        "CNTHV_CVAL_EL2": "S3_4_C14_C3_2",
        "CNTPS_CTL_EL1": "S3_7_C14_C2_1",
        "CNTP_CTL_EL02": "S3_5_C14_C2_1",
        "CNTV_TVAL_EL02": "S3_5_C14_C3_0",
        "CNTKCTL_EL12": "S3_5_C14_C1_0",
    }
    assert {n: str(getattr(r, n).encoding) for n in names} == names
