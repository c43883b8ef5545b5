"""ISR_EL1: physical interrupts at EL2 and EL3, the virtual ones at EL1 of what EL2 takes."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import board_at

READ = [a.mrs(5, astuple(system.ISR_EL1.encoding)), a.b(0)]
NS = system.SCR_EL3.of(NS=1).value
TAKEN_BY_EL2 = system.HCR_EL2.of(IMO=1, FMO=1, AMO=1)
ALL_VIRTUAL = TAKEN_BY_EL2.replace(VI=1, VF=1, VSE=1)
A_I_F = 1 << 8 | 1 << 7 | 1 << 6


def isr_read_at(
    el: int, hcr: system.HCR_EL2, *, scr: int = NS, physical: bool = False, lines: bool = False
) -> int:
    """What the guest reads; all interrupts are masked. ``lines`` are the virtual ones."""
    board = board_at(READ)
    board.pes[0].start(el, board.cpu.pc)
    board.cpu.registers.set_raw(system.SCR_EL3, scr)
    board.cpu.registers.set_raw(system.HCR_EL2, hcr.value)
    assert board.cpu.pstate & A_I_F == A_I_F
    pend(board, physical=physical, lines=lines)
    board.handler.controls_written()
    board.runner.run(1)
    assert board.cpu.el == el
    return board.cpu.engine.x(5)


def pend(board: Board, *, physical: bool, lines: bool) -> None:
    interrupts = board.pes[0].interrupts
    interrupts.irq.set_level(physical)
    interrupts.fiq.set_level(physical)
    if physical:
        interrupts.pend_serror()
    interrupts.virq.set_level(lines)
    interrupts.vfiq.set_level(lines)


@pytest.mark.parametrize("el", [EL2, EL3])
@pytest.mark.parametrize("hcr", [system.HCR_EL2(0), TAKEN_BY_EL2, ALL_VIRTUAL])
@pytest.mark.parametrize("lines", [False, True])
def test_el2_and_el3_see_physical_interrupts_only(
    el: int, hcr: system.HCR_EL2, lines: bool
) -> None:
    assert isr_read_at(el, hcr, lines=lines) == 0
    assert isr_read_at(el, hcr, lines=lines, physical=True) == A_I_F


@pytest.mark.parametrize(("scr", "seen"), [(NS, A_I_F), (0, 0)])
def test_a_guest_sees_virtual_interrupts_where_el2_is_enabled(scr: int, seen: int) -> None:
    assert isr_read_at(EL1, ALL_VIRTUAL, scr=scr) == seen


def test_a_guest_sees_virtual_lines_of_what_el2_takes() -> None:
    assert isr_read_at(EL1, TAKEN_BY_EL2) == 0
    assert isr_read_at(EL1, TAKEN_BY_EL2, lines=True) == 1 << 7 | 1 << 6
    assert isr_read_at(EL1, system.HCR_EL2.of(IMO=1), lines=True) == 1 << 7
    assert isr_read_at(EL1, system.HCR_EL2(0), lines=True) == 0


def test_el1_sees_the_physical_interrupts_that_el2_leaves_it() -> None:
    assert isr_read_at(EL1, system.HCR_EL2(0), physical=True) == A_I_F
    assert isr_read_at(EL1, TAKEN_BY_EL2, scr=0, physical=True) == A_I_F  # its EL2 is off
    assert isr_read_at(EL1, system.HCR_EL2.of(VI=1, VF=1, VSE=1)) == 0  # nothing is taken by EL2
