from __future__ import annotations

import pytest

from spe_unicorn.devices.pl011 import CHARACTERS, FLAGS, MASK, PL011, SENDS, UNKNOWN
from tests.support.fakes import FakeLine

DR, RSR, FR, IBRD, FBRD, LCR_H, CR = 0x00, 0x04, 0x18, 0x24, 0x28, 0x2C, 0x30
IFLS, IMSC, RIS, MIS, ICR, DMACR = 0x34, 0x38, 0x3C, 0x40, 0x44, 0x48
RX, TX, RT = 1 << 4, 1 << 5, 1 << 6
TXFE, RXFF, TXFF, RXFE = 1 << 7, 1 << 6, 1 << 5, 1 << 4
FEN = 1 << 4


class Bench:
    """A UART with its line and its output in sight."""

    def __init__(self) -> None:
        self.output = b""
        self.line = FakeLine()
        self.uart = PL011(self._transmit, self.line)

    def _transmit(self, data: bytes) -> None:
        self.output += data

    def __getitem__(self, offset: int) -> int:
        return self.uart.read(offset, 4)

    def __setitem__(self, offset: int, value: int) -> None:
        self.uart.write(offset, 4, value)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (RSR, 0),
        (FR, TXFE | RXFE),
        (IBRD, 0),
        (FBRD, 0),
        (LCR_H, 0),
        (CR, 0x300),
        (IFLS, 0x12),
        (IMSC, 0),
        (RIS, 0),
        (MIS, 0),
        (DMACR, 0),
    ],
)
def test_reset_values(bench: Bench, offset: int, value: int) -> None:
    assert bench[offset] == value


def test_identification_names_revision_1_of_the_pl011(bench: Bench) -> None:
    identification = [bench[0xFE0 + 4 * i] for i in range(8)]
    assert identification == [0x11, 0x10, 0x14, 0x00, 0x0D, 0xF0, 0x05, 0xB1]


def test_characters_leave_at_once_even_before_the_uart_is_enabled(bench: Bench) -> None:
    bench[CR] = 0
    for character in b"hi":
        bench[DR] = character
    assert bench.output == b"hi"
    assert bench[FR] & (TXFE | TXFF) == TXFE


def test_only_eight_bits_leave(bench: Bench) -> None:
    bench[DR] = 0xFFFF_FF41
    bench.uart.write(DR, 1, 0x142)
    assert bench.output == b"AB"


@pytest.mark.parametrize(
    ("offset", "kept"),
    [
        (IBRD, 0xFFFF),
        (FBRD, 0x3F),
        (LCR_H, 0xFF),
        (CR, 0xFFFF),
        (IFLS, 0x3F),
        (IMSC, 0x7FF),
        (DMACR, 0x7),
    ],
)
def test_registers_keep_their_bits_and_no_others(bench: Bench, offset: int, kept: int) -> None:
    bench[offset] = 0xFFFF_FFFF
    assert bench[offset] == kept


@pytest.mark.parametrize("offset", [RSR, FR, RIS, MIS, ICR, 0x80, 0xFE0, 0xFFC])
def test_other_registers_ignore_writes(bench: Bench, offset: int) -> None:
    before = bench[offset]
    bench[offset] = 0xFFFF_FFFF
    assert bench[offset] == before


def test_without_fifo_one_character_waits(bench: Bench) -> None:
    assert bench.uart.room == 1
    assert bench.uart.receive(b"ab") == 1
    assert bench[FR] == TXFE | RXFF
    assert bench[DR] == ord("a")
    assert bench[FR] == TXFE | RXFE
    assert bench[DR] == 0


def test_the_fifo_holds_16_characters_in_order(bench: Bench) -> None:
    bench[LCR_H] = FEN
    assert bench.uart.receive(b"0123456789abcdefXY") == 16
    assert bench[FR] & RXFF
    assert bytes(bench[DR] for _ in range(16)) == b"0123456789abcdef"
    assert bench[FR] & RXFE


def test_switching_the_fifo_empties_it(bench: Bench) -> None:
    bench[LCR_H] = FEN
    bench.uart.receive(b"abc")
    bench[LCR_H] = FEN | 0x60
    assert bench.uart.room == 13
    bench[LCR_H] = 0x60
    assert bench[FR] & RXFE


def test_a_character_raises_receive_and_timeout_until_the_fifo_is_empty(bench: Bench) -> None:
    bench[LCR_H] = FEN
    bench[IMSC] = RX
    bench.uart.receive(b"ab")
    assert (bench[RIS], bench[MIS]) == (RX | RT, RX)
    assert bench[DR] == ord("a")
    assert bench.line.levels == [True]
    assert bench[DR] == ord("b")
    assert (bench[RIS], bench[MIS]) == (0, 0)
    assert bench.line.levels == [True, False]


def test_icr_clears_the_bits_that_are_written(bench: Bench) -> None:
    bench[IMSC] = RX | RT
    bench.uart.receive(b"a")
    bench[ICR] = RX
    assert bench[RIS] == RT
    assert bench.line.levels == [True]
    bench[ICR] = RT
    assert bench.line.levels == [True, False]
    assert bench[DR] == ord("a")


def test_unmasking_raises_the_line_for_what_waits_already(bench: Bench) -> None:
    bench.uart.receive(b"a")
    assert bench.line.levels == []
    bench[IMSC] = RT
    assert bench.line.levels == [True]
    bench[IMSC] = 0
    assert bench.line.levels == [True, False]


def test_sending_raises_the_transmit_interrupt(bench: Bench) -> None:
    bench[IMSC] = TX
    bench[DR] = ord("x")
    assert bench[MIS] == TX
    bench[ICR] = 0x7FF
    assert (bench[RIS], bench.line.levels) == (0, [True, False])


def test_short_and_displaced_reads_see_their_part_of_a_register(bench: Bench) -> None:
    bench[CR] = 0xABCD
    assert bench.uart.read(CR, 2) == 0xABCD
    assert bench.uart.read(CR, 1) == 0xCD
    assert bench.uart.read(CR + 1, 1) == 0xAB


def test_displaced_writes_are_ignored(bench: Bench) -> None:
    bench.uart.write(CR + 1, 1, 0xFF)
    assert bench[CR] == 0x300


def test_reset_empties_everything_and_lowers_the_line(bench: Bench) -> None:
    bench[LCR_H] = FEN
    bench[IMSC] = RX
    bench.uart.receive(b"abc")
    bench.uart.reset()
    assert bench[FR] == TXFE | RXFE
    assert (bench[RIS], bench[IMSC], bench[CR]) == (0, 0, 0x300)
    assert bench.line.levels == [True, False]


def polled(data: bytes) -> tuple[PL011, bytearray, FakeLine]:
    """A UART on a line where characters wait, those characters, and its interrupt."""
    waiting = bytearray(data)

    def arrived(size: int) -> bytes:
        taken = bytes(waiting[:size])
        del waiting[:size]
        return taken

    line = FakeLine()
    return PL011(lambda _: None, line, arrived), waiting, line


def test_waiting_characters_are_taken_when_the_guest_looks() -> None:
    uart, waiting, _ = polled(b"ab")
    assert waiting == b"ab"
    assert not uart.read(FR, 4) & RXFE
    assert waiting == b"b"  # without FIFOs there is room for one
    assert [uart.read(DR, 4) for _ in range(3)] == [ord("a"), ord("b"), 0]
    assert uart.read(FR, 4) & RXFE


def test_waiting_characters_raise_the_interrupt_when_it_is_unmasked_and_until_all_are_read() -> (
    None
):
    uart, _, line = polled(b"ab")
    assert not uart.listening
    uart.write(IMSC, 4, 1 << 4)
    assert uart.listening
    assert line.levels == [True]
    uart.read(DR, 4)
    assert line.levels == [True]
    uart.read(DR, 4)
    assert line.levels == [True, False]


def test_others_may_know_uartfr_once_no_character_can_arrive_any_more() -> None:
    waiting = bytearray(b"ab")

    def arrived(size: int) -> bytes:
        taken = bytes(waiting[:size])
        del waiting[:size]
        return taken

    uart = PL011(lambda _: None, FakeLine(), arrived, lambda: not waiting)
    assert uart.cells[FLAGS] == UNKNOWN
    assert uart.read(FR, 4) == uart.cells[FLAGS] == TXFE | RXFF  # one is in the FIFO
    assert uart.read(DR, 4) == ord("a")
    assert uart.read(DR, 4) == ord("b")
    assert uart.cells[FLAGS] == TXFE | RXFE
    uart.forget()
    assert uart.cells[FLAGS] == UNKNOWN


def test_nobody_knows_uartfr_while_the_line_may_bring_characters() -> None:
    uart, _, _ = polled(b"")
    assert uart.read(FR, 4) == TXFE | RXFE
    assert uart.cells[FLAGS] == UNKNOWN


@pytest.mark.parametrize(
    ("raised", "mask", "sends"), [(0, 0, 1), (0, TX, 0), (TX, TX, 1), (0, RX, 1), (TX, 0, 1)]
)
def test_others_may_send_where_the_interrupt_stays_as_it_is(
    bench: Bench, raised: int, mask: int, sends: int
) -> None:
    if raised:
        bench[DR] = ord("x")
    bench[IMSC] = mask
    assert bench.uart.cells[SENDS] == sends


def test_what_others_have_taken_is_sent_as_if_it_had_been_written(bench: Bench) -> None:
    bench.uart.cells[CHARACTERS : CHARACTERS + 3] = list(b"abc")
    bench.uart.send(2)
    assert bench.output == b"ab"
    assert bench[RIS] == TX


def test_a_reset_or_a_restored_state_leaves_nothing_known(bench: Bench) -> None:
    bench[DR] = ord("x")
    assert bench.uart.cells[SENDS] == 1
    state = bench.uart.save()
    bench.uart.restore(state)
    assert bench.uart.cells[:3].tolist() == [UNKNOWN, 0, UNKNOWN]
    bench[DR] = ord("x")
    assert bench.uart.cells[MASK] == 0
    bench.uart.reset()
    assert bench.uart.cells[:3].tolist() == [UNKNOWN, 0, UNKNOWN]
