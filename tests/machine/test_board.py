"""The board as a whole: where it stops, resets, flash."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.system import HCR_EL2
from spe_unicorn.host.ports import Ending
from tests.support import a64
from tests.support.small_boards import (
    RAM,
    SYSTEM_OFF,
    SYSTEM_RESET,
    board_at,
    plan_at,
    psci,
)

COUNT = [*[a64.add_imm(0, 0, 1)] * 9, a64.b(-36)]
"""Nine operations that count in X0, and a branch back."""


@pytest.mark.parametrize("virtual", [0, HCR_EL2.VI.mask, HCR_EL2.VF.mask])
def test_run_ends_exactly_whatever_virtual_interrupt_is_pending(virtual: int) -> None:
    board = board_at(COUNT, el=EL2)
    hcr = board.cpu.registers.raw(HCR_EL2) | virtual
    board.cpu.registers.set_raw(HCR_EL2, hcr)
    for end in (4096, 4099, 4111):
        assert board.run(end - board.executed) is Ending.LIMIT
        assert board.executed == end
        assert board.cpu.pc == RAM + 4 * (end % 10)
    assert board.cpu.registers.raw(HCR_EL2) == hcr


def test_system_off_ends_with_status_zero() -> None:
    board = board_at(psci(SYSTEM_OFF), el=EL1)
    assert (board.run(), board.exit_status) == (Ending.EXIT, 0)


RESETS = [
    *a64.mov64(5, RAM + 0x1000),
    a64.ldr(6, 5),  # how often we have been here; memory keeps it
    a64.add_imm(6, 6, 1),
    a64.str_(6, 5),
    a64.subs_imm(31, 6, 3),
    *(a64.b_cond(a64.EQ, 4 * (len(psci(SYSTEM_RESET)) + 1)), *psci(SYSTEM_RESET)),
    *psci(SYSTEM_OFF),
]


@pytest.mark.parametrize("pes", [1, 2])
def test_system_reset_starts_anew(pes: int) -> None:
    board = board_at(RESETS, pes, el=EL1)
    board.begins = plan_at(RAM)
    assert (board.run(), board.exit_status) == (Ending.EXIT, 0)
    assert board.memory.read(RAM + 0x1000, 1) == b"\3"
    reset, off = psci(SYSTEM_RESET), psci(SYSTEM_OFF)
    before = RESETS.index(a64.hvc(0)) + 1 - len(reset)
    assert board.executed == 2 * (before + len(reset)) + before + len(off)


def test_limit_counts_operations_before_and_after_a_reset() -> None:
    board = board_at(RESETS, el=EL1)
    board.begins = plan_at(RAM)
    assert board.run(20) is Ending.LIMIT
    assert board.executed == 20


def test_system_reset_without_reboot_ends_with_status_zero() -> None:
    board = board_at(RESETS, el=EL1, reboot=False)
    assert (board.run(), board.exit_status) == (Ending.EXIT, 0)
    assert board.memory.read(RAM + 0x1000, 1) == b"\1"


FLASH = 0x1000


def test_stores_to_flash_are_lost() -> None:
    code = [
        *a64.mov64(1, FLASH),
        a64.movz(2, 0x55),
        a64.str_(2, 1),
        a64.str9(2, 1, 8, a64.POST),
        a64.ldr9(3, 1, -8, a64.PLAIN),
        *psci(SYSTEM_OFF),
    ]
    board = board_at(code, el=EL1, flash=True)
    board.memory.fill(FLASH, b"\x77" * 8)
    assert board.run() is Ending.EXIT
    assert board.cpu.engine.x(3) == 0x7777_7777_7777_7777
    assert board.memory.read(FLASH, 8) == b"\x77" * 8


def test_flash_executes() -> None:
    board = board_at([*a64.mov64(1, FLASH), a64.br(1)], el=EL1, flash=True)
    board.memory.fill(FLASH, a64.code([a64.movz(3, 0x33), *psci(SYSTEM_OFF)]))
    assert board.run() is Ending.EXIT
    assert board.cpu.engine.x(3) == 0x33


def test_without_flash_nothing_is_at_address_zero() -> None:
    board = board_at([a64.movz(1, 0), a64.ldr(2, 1)], el=EL1)
    assert board.run() is Ending.FAILED
    assert "external abort" in board.handler.failure.reason


def test_a_secure_board_has_a_uart_of_secure_state_only() -> None:
    code = [*a64.mov64(1, 0x0904_0000), a64.ldr(3, 1, 0x18, 2), a64.b(0)]
    secure = board_at(code, secure=True)
    assert secure.run(len(code)) is Ending.LIMIT
    assert secure.cpu.engine.x(3) == 0x90  # both FIFOs empty
    for board in (board_at(code), board_at(code, el=EL1, secure=True)):
        assert board.run(len(code)) is Ending.FAILED
        assert board.cpu.engine.x(3) == 0


def test_secure_software_alone_reaches_the_first_half_of_flash() -> None:
    code = [*a64.mov64(1, FLASH), *a64.mov64(2, 0x0400_0000), a64.ldr(3, 2), a64.ldr(4, 1)]
    for el, failure in ((EL3, Ending.LIMIT), (EL1, Ending.FAILED)):
        board = board_at([*code, a64.b(0)], el=el, flash=True, secure=True)
        board.memory.fill(FLASH, b"\x77" * 8)
        board.memory.fill(0x0400_0000, b"\x55" * 8)
        assert board.run(len(code)) is failure
        assert board.cpu.engine.x(3) == 0x5555_5555_5555_5555
        assert (board.cpu.engine.x(4) == 0x7777_7777_7777_7777) == (el == EL3)
