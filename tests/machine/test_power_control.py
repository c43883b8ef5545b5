"""The Secure PL061: EL3 firmware for virt turns the machine off and resets it by its pins."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL3
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import board_at

GPIO, DIR = 0x090B_0000, 0x400
OFF, RESET = 1 << 0, 1 << 1


def firmware(pin: int) -> list[int]:
    """As Trusted Firmware-A does it: an output, then low, then high; then wait for the end."""
    data = pin << 2
    return [
        *a.mov64(1, GPIO),
        a.movz(2, pin),
        a.str_(2, 1, DIR, size=2),
        a.str_(31, 1, data, size=2),
        a.str_(2, 1, data, size=2),
        a.add_imm(7, 7, 1),
        a.b(0),
    ]


def board(pin: int, **options: object) -> Board:
    return board_at(firmware(pin), el=EL3, secure=True, **options)


def test_pin_0_turns_the_machine_off() -> None:
    made = board(OFF)
    assert made.run(1000) is Ending.EXIT
    assert made.exit_status == 0
    assert made.cpu.engine.x(7) == 0  # at once


@pytest.mark.parametrize(("reboot", "ending"), [(True, Ending.RESET), (False, Ending.EXIT)])
def test_pin_1_resets_the_machine(reboot: bool, ending: Ending) -> None:
    made = board(RESET, reboot=reboot)
    assert made.run(1000) is ending


def test_other_pins_switch_nothing() -> None:
    made = board(1 << 2)
    assert made.run(1000) is Ending.LIMIT
    assert made.exit_status is None


def test_an_input_that_is_written_switches_nothing() -> None:
    words = [*a.mov64(1, GPIO), a.movz(2, 1), a.str_(2, 1, OFF << 2, size=2), a.b(0)]
    assert board_at(words, el=EL3, secure=True).run(1000) is Ending.LIMIT


def test_without_secure_there_is_nothing() -> None:
    made = board_at(firmware(OFF), el=EL3)
    assert made.run(1000) is not Ending.EXIT
