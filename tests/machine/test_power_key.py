"""The power key: pin 3 of the PL061 is high for a tenth of a second of the guest."""

from __future__ import annotations

from spe_unicorn import Machine
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.console_ends import ConsoleEnds
from tests.support import a64 as a
from tests.support.small_boards import board_at
from tests.support.small_programs import LOOP, program

GPIO, IS, IEV, IE = 0x0903_0000, 0x404, 0x40C, 0x410
PIN_3 = 1 << 3
ISPENDR1 = 0x0800_0204
INTID_39 = 1 << 7
WFI = 0xD503_207F
TENTH = 100_000_000
"""Operations in a tenth of a second."""


def pin(board: Board) -> int:
    return board.peripherals.bus.read(GPIO + (PIN_3 << 2), 4)


def pending(board: Board) -> bool:
    return bool(board.peripherals.bus.read(ISPENDR1, 4) & INTID_39)


def test_a_press_is_seen_at_the_pin_and_by_the_gic_until_the_key_is_up() -> None:
    board = board_at([a.b(0)])
    for register, value in ((IS, PIN_3), (IEV, PIN_3), (IE, PIN_3)):
        board.peripherals.bus.write(GPIO + register, 4, value)
    board.run(100)
    assert (pin(board), pending(board)) == (0, False)
    board.outside.press_power_key()
    board.run(TENTH - 16)
    assert (pin(board), pending(board)) == (PIN_3, True)
    board.run(32)
    assert (pin(board), pending(board)) == (0, False)


def test_a_guest_that_waits_for_the_key_and_for_nothing_else_waits_for_its_user() -> None:
    presses: list[Board] = []

    def press() -> bool:
        if presses:
            presses.pop().outside.press_power_key()
        return False

    board = board_at([WFI, a.b(-4)], console=ConsoleEnds(wait=press))
    presses.append(board)
    assert board.run() is Ending.ASLEEP  # nobody listens to the key
    assert not pin(board)
    board.peripherals.bus.write(GPIO + IE, 4, PIN_3)
    assert board.run() is Ending.ASLEEP  # it waited for the key, which then came up again
    assert board.cpu.cycles >= TENTH


def test_a_machine_that_stands_takes_notice_when_it_runs(tmp_path) -> None:
    machine = Machine(program(tmp_path, LOOP))
    machine.press_power_key()
    assert pin(machine.board) == 0
    machine.run(operations=1)
    assert pin(machine.board) == PIN_3
