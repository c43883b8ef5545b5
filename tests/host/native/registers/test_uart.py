"""The UART in compiled code: what software sees, and that Python says the same."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from spe_unicorn.decode.transfer import transfer
from spe_unicorn.devices.pl011 import MOST_CHARACTERS, PL011
from spe_unicorn.host.native.registers.uart import register_of
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.console_ends import ConsoleEnds, always
from spe_unicorn.machine.memory_map import UART_SPI
from tests.host.uart_guests import (
    BUSY,
    DR,
    FR,
    ICR,
    IMSC,
    NE,
    RXFE,
    TXFE,
    UART,
    random_accesses,
)
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at


class Ends:
    """A console with ``typed`` on its line, and no more."""

    def __init__(self, typed: bytes = b"", patient: Callable[[], bool] = always) -> None:
        self.printed = bytearray()
        self.pieces: list[bytes] = []
        self._typed = bytearray(typed)
        self.ends = ConsoleEnds(
            self._write, arrived=self._arrived, silent=lambda: not self._typed, patient=patient
        )

    def _write(self, data: bytes) -> None:
        self.printed += data
        self.pieces.append(data)

    def _arrived(self, size: int) -> bytes:
        taken = bytes(self._typed[:size])
        del self._typed[:size]
        return taken


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The accesses to the UART that Python answers, by offset."""
    made: list[tuple[str, int]] = []
    read, write = PL011.read, PL011.write

    def on_read(self: PL011, offset: int, size: int) -> int:
        made.append(("read", offset))
        return read(self, offset, size)

    def on_write(self: PL011, offset: int, size: int, value: int) -> None:
        made.append(("write", offset))
        write(self, offset, size, value)

    monkeypatch.setattr(PL011, "read", on_read)
    monkeypatch.setattr(PL011, "write", on_write)
    return made


def printing(text: bytes, each: list[int]) -> list[int]:
    """``each`` with X2 a byte of ``text``, from X5, and X1 the UART."""
    body = [a.ldr9(2, 5, 1, 0b01, size=0), *each, a.subs_imm(6, 6, 1)]
    loop = [*body, a.b_cond(NE, -4 * len(body))]
    return [*a.mov64(1, UART), *a.mov64(5, RAM + 0x1000), a.movz(6, len(text)), *loop, a.b(0)]


def board_of(text: bytes, each: list[int], ends: Ends, runner: type[Runner] = Runner) -> Board:
    board = board_at(printing(text, each), el=1, runner=runner, console=ends.ends)
    board.memory.fill(RAM + 0x1000, text)
    return board


def state(board: Board) -> tuple[object, ...]:
    cpu = board.cpu
    registers = (cpu.engine.general(), cpu.pc, cpu.pstate, cpu.executed)
    return *registers, board.peripherals.uart.save(), pending(board)


def pending(board: Board) -> bool:
    """Whether the GIC sees UARTINTR asserted: GICD_ISPENDR1."""
    return bool(board.peripherals.gic.distributor.read(0x204, 4) & 1 << UART_SPI)


@pytest.mark.accelerated
def test_a_line_comes_to_python_with_its_line_feed(asked) -> None:
    ends = Ends()
    board = board_of(b"hello\nyou\n", BUSY, ends)
    board.run(200)
    assert ends.pieces == [b"hello", b"\n", b"you", b"\n"]
    assert asked == [("read", FR), ("write", DR), ("write", DR)]
    assert board.cpu.engine.x(3) == TXFE | RXFE


def test_a_run_that_ends_within_a_line_has_sent_what_was_written() -> None:
    ends = Ends()
    board = board_of(b"hello\n", BUSY, ends)
    for _ in range(100):
        board.run(1)
        written = (max(0, board.executed - 4) + 2) // 5
        assert bytes(ends.printed) == b"hello\n"[:written]


@pytest.mark.accelerated
def test_a_long_line_comes_in_pieces(asked) -> None:
    ends, text = Ends(), bytes(range(0x20, 0x7F)) * 8
    board_of(text, BUSY, ends).run(10_000)
    assert bytes(ends.printed) == text
    assert max(map(len, ends.pieces)) <= MOST_CHARACTERS
    assert len(asked) < len(text) // 16


@pytest.mark.accelerated
@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("register", [0, 3, 28])
def test_each_size_and_register(asked, size, register) -> None:
    each = [a.orr(register, 31, 2), a.str_(register, 1, DR, size=size)]
    ends = Ends()
    board_of(b"abc", [a.ldr(register, 1, FR, size=size), *each], ends).run(100)
    assert bytes(ends.printed) == b"abc"
    assert asked == [("read", FR)]


@pytest.mark.parametrize(
    "each",
    [
        [a.str_(31, 1, DR, size=0)],
        [a.orr(30, 31, 2), a.str_(30, 1, DR, size=1)],
        [a.str_(2, 1, DR, size=3)],
        [a.str9(2, 1, 0, 0b00, size=0)],
        [a.add_imm(7, 1, 0), a.str9(2, 7, 8, 0b01, size=0)],
        [a.movz(7, 0), a.str_reg(2, 1, 7, size=0)],
    ],
    ids=["XZR", "X30", "64 bits", "STUR", "write-back", "offset in a register"],
)
def test_other_stores_are_for_python(asked, each) -> None:
    ends = Ends()
    board_of(b"abc", each, ends).run(100)
    assert bytes(ends.printed) == (b"\0\0\0" if each == [a.str_(31, 1, DR, size=0)] else b"abc")
    assert asked == [("write", DR)] * 3


def test_a_store_that_raises_the_interrupt_is_for_python(asked) -> None:
    """UARTTXINTR of what is sent first: the line has to rise at that operation."""
    ends = Ends()
    unmask = [a.ldr(3, 1, FR, size=1), a.movz(7, 1 << 5), a.str_(7, 1, ICR, size=1)]
    board = board_of(b"abc", [*unmask, a.str_(7, 1, IMSC, size=1), *BUSY], ends)
    board.run(100)
    assert bytes(ends.printed) == b"abc"
    assert asked.count(("write", DR)) == 3
    assert pending(board)


MASKING = [a.ldr(3, 1, IMSC, size=2), a.str_(3, 1, IMSC, size=2)]
"""As a driver does that has the UART tell when there is room: it unmasks what is not masked."""


@pytest.mark.accelerated
def test_a_mask_that_stays_is_not_for_python(asked) -> None:
    """Only the first write unmasks anything; the others say what is so already."""
    ends = Ends()
    unmask = [a.movz(7, 0x7F0), a.str_(7, 1, IMSC, size=2)]
    board = board_of(b"abcdef", [*unmask, *MASKING], ends)
    board.run(100)
    assert board.cpu.engine.x(3) == 0x7F0
    assert asked == [("write", IMSC)]
    assert board.peripherals.uart.s.stored[IMSC] == 0x7F0


def test_a_byte_of_the_mask_is_read_and_written_alone() -> None:
    """A write of the low byte leaves 0 in the bits above it, as Python has it."""
    outcomes = []
    for runner in (Runner, ReferenceRunner):
        unmask = [a.movz(7, 0x7F0), a.str_(7, 1, IMSC, size=2), a.ldr(4, 1, FR, size=1)]
        bytewise = [a.ldr(3, 1, IMSC, size=0), a.str_(3, 1, IMSC, size=0), *MASKING]
        board = board_of(b"abc", [*unmask, *bytewise], Ends(), runner)
        states = []
        for _ in range(40):
            board.run(1)
            states.append(state(board))
        outcomes.append(states)
        assert board.cpu.engine.x(3) == 0xF0
    assert outcomes[0] == outcomes[1]


def test_a_mask_is_written_by_python_while_input_may_come(asked) -> None:
    """Who listens looks for input with each write."""
    ends = Ends()
    ends.ends = ConsoleEnds(silent=lambda: False, patient=always)
    board = board_of(b"ab", [a.movz(7, 0x10), a.str_(7, 1, IMSC, size=2)] * 2, ends)
    board.run(40)
    assert asked == [("write", IMSC)] * 4


def test_characters_on_the_line_arrive_before_compiled_code_answers(asked) -> None:
    ends = Ends(b"k")
    board = board_of(b"ab", [a.ldr(3, 1, FR, size=1), a.ldr(4, 1, DR, size=1), *BUSY], ends)
    board.run(7)
    assert board.cpu.engine.x(3) & RXFE == 0
    board.run(1)
    assert board.cpu.engine.x(4) == ord("k")
    board.run(100)
    assert board.cpu.engine.x(3) & RXFE
    assert bytes(ends.printed) == b"ab"


def test_a_guest_that_waits_for_input_gets_what_comes_later() -> None:
    """The line has ended, and then somebody types after all: the guest is told."""
    typed = bytearray()
    ends = ConsoleEnds(
        arrived=lambda size: bytes(typed.pop(0) for _ in typed[:size]),
        silent=lambda: not typed,
        patient=always,
    )
    loop = [a.ldr(3, 1, FR, size=1), a.tbnz(3, 4, -4), a.ldr(4, 1, DR, size=1), a.b(0)]
    board = board_at([*a.mov64(1, UART), *loop], el=1, console=ends)
    board.run(1001)
    assert board.cpu.engine.x(4) == 0
    typed += b"x"
    board.outside.poll()
    board.run(10)
    assert board.cpu.engine.x(4) == ord("x")


@pytest.mark.parametrize("why", ["each character", "each store"])
def test_who_has_to_be_told_at_once_is(asked, why) -> None:
    ends = Ends(patient=lambda: why != "each character")
    board = board_of(b"abc", BUSY, ends)
    told: list[tuple[int, int]] = []
    if why == "each store":
        board.peripherals.bus.stored.connect(
            lambda address, size, value: told.append((address, value))
        )
    board.run(100)
    assert ends.pieces == [b"a", b"b", b"c"]
    assert asked == [("read", FR), ("write", DR)] * 3
    assert told == ([(UART, byte) for byte in b"abc"] if why == "each store" else [])


def test_words_are_taken_for_what_they_are() -> None:
    """Each word that compiled code takes for a plain LDR or STR is one."""
    source, taken = random.Random(0), 0
    for _ in range(100_000):
        word = source.getrandbits(32)
        if source.random() < 0.5:
            word = word & ~0x3F00_0000 | 0x3900_0000
        for load in (False, True):
            register = int(register_of(np.int64(word), load))
            if register < 0:
                continue
            moved = transfer(word)
            assert moved is not None
            assert (moved.rt, moved.rt2, moved.load, moved.signed) == (register, None, load, False)
            assert moved.size <= 4
            taken += 1
    assert taken > 10_000


@pytest.mark.sweep
@pytest.mark.parametrize("inline", ["1", "0"])
@pytest.mark.parametrize("seed", range(12))
def test_random_accesses_are_as_python_answers_them(seed, inline, monkeypatch) -> None:
    """In pieces of random length the whole state is that of the reference runner."""
    monkeypatch.setenv("SPE_UNICORN_INLINE", inline)
    source = random.Random(seed)
    body = list(random_accesses(source))
    code = [*a.mov64(1, UART), *body, a.b(-4 * len(body))]
    typed = source.randbytes(source.choice((0, 3, 40)))
    pieces = [source.choice((1, 2, 7, 50, 300)) for _ in range(40)]
    outcomes = []
    for runner in (Runner, ReferenceRunner):
        ends = Ends(typed)
        board = board_at(code, el=1, runner=runner, console=ends.ends)
        states: list[tuple[object, ...]] = []
        for piece in pieces:
            assert board.run(piece) is Ending.LIMIT
            states.append((*state(board), bytes(ends.printed)))
        outcomes.append(states)
    for n, (fast, slow) in enumerate(zip(*outcomes, strict=True)):
        assert fast == slow, f"piece {n}"
    assert outcomes[0][-1][-1]
