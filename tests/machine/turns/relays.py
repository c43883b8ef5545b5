"""Boards whose turns compiled code may take, compared with those whose turns Python takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import TURN
from spe_unicorn.machine.turns.relay import Passed, Relay
from tests.host.native.registers.gic_boards import (
    CODE,
    EOIR1,
    IAR1,
    IRQ,
    NE,
    SGI1R,
    VBAR_EL1,
    board_of,
    looks,
    sgi,
)
from tests.support import a64
from tests.support.small_boards import RAM

CNTPCT_EL0 = (3, 3, 14, 0, 1)
CNTV_TVAL_EL0, CNTV_CTL_EL0 = (3, 3, 14, 3, 0), (3, 3, 14, 3, 1)
VIRTUAL_TIMER = 27
FLAG = RAM + 0x8_0000
REDISTRIBUTOR_ENABLE, FRAMES = 0x1_0100, 0x2_0000


def takes_interrupts(number: int) -> list[int]:
    return [
        *a64.mov64(9, RAM + number * CODE + CODE // 2),
        a64.msr(VBAR_EL1, 9),
        *a64.mov64(8, FLAG),
        a64.daifclr(2),
    ]


class Taken:
    """Counts what compiled code takes: operations in whole turns, turns that it only begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations = self.midway = self.whole = 0
        self.allowed = True
        take = Relay.take

        def counted(relay: Relay, *arguments: object) -> Passed:
            if not self.allowed:
                return Passed()
            relay._passes = 0  # whether it is worth it or not
            passed = take(relay, *arguments)
            self.operations += passed.operations
            self.whole += passed.operations > 0
            self.midway += passed.midway is not None
            return passed

        monkeypatch.setattr(Relay, "take", counted)


def everything(board: Board) -> list[object]:
    """All that the PEs, the GIC and the schedule hold."""
    schedule = board._schedule
    assert schedule is not None
    pes = [
        (
            *(asdict(pe.s), int(pe.cpu.state.skipped), pe.due, pe.deadline),
            pe.cpu.events.save(),
            *(int(getattr(pe.cpu.state, name)) for name in ("epoch", "flushes", "maintenance")),
        )
        for pe in board.pes
    ]
    return [asdict(schedule.s), pes, looks(board)]


def differ(board: Board, other: Board) -> None:
    """Fail where two boards are not alike."""
    for ours, theirs in zip(everything(board), everything(other), strict=True):
        assert ours == theirs


def alarm(ticks: int) -> list[int]:
    """Have the virtual timer go off after a number of ticks."""
    on = [a64.movz(15, ticks), a64.msr(CNTV_TVAL_EL0, 15), a64.movz(15, 1)]
    return [*on, a64.msr(CNTV_CTL_EL0, 15)]


def with_timers(board: Board) -> Board:
    """A board whose PEs take the interrupts of their virtual timers, and set them anew."""
    is_timer = [a64.subs_imm(31, 20, VIRTUAL_TIMER), a64.b_cond(NE, 12)]
    again = [*is_timer, a64.movz(15, 400), a64.msr(CNTV_TVAL_EL0, 15)]
    for number in range(len(board.pes)):
        frame = number * FRAMES
        redistributors = board.peripherals.gic.redistributors
        redistributors.write(frame + REDISTRIBUTOR_ENABLE, 4, 0xFFFF | 1 << VIRTUAL_TIMER)
        redistributors.write(frame + 0x1_0080, 4, 0xFFFF_FFFF)
        redistributors.write(frame + 0x1_0400 + VIRTUAL_TIMER, 1, 0x80)
        handler = [a64.mrs(20, IAR1), a64.add(21, 21, 20), *again, a64.msr(EOIR1, 20)]
        place = RAM + number * CODE + CODE // 2 + IRQ
        board.memory.fill(place, a64.code([*handler, a64.ERET]))
    return board


CORES = ("generic", "neoverse-v2", "max")
"""Members are operations; micro-operations; operations that tell the branch before them."""


def alike(
    programs: list[list[int]],
    pieces: list[int],
    monkeypatch: pytest.MonkeyPatch,
    off: Collection[int] = (),
    core: str = "generic",
    least: int = 1,
    hcr: int | None = None,
) -> Board:
    """Run these programs with and without turns in compiled code. Fail where they are not alike.

    The PEs in ``off`` are off. Compiled code has to take ``least`` operations. ``hcr`` is what
    HCR_EL2 is to hold.
    """
    taken = Taken(monkeypatch)
    boards = [with_timers(board_of(programs, core=core)) for _ in range(2)]
    for board in boards:
        for number in off:
            board.pes[number].s.on = False
        for pe in board.pes if hcr is not None else ():
            pe.cpu.registers.set_raw(system.HCR_EL2, hcr)
            pe.handler.controls_written()
    for piece in pieces:
        for board, taken.allowed in zip(boards, (True, False), strict=True):
            board.run(piece)
        differ(*boards)
    assert taken.operations >= least
    return boards[0]


def works(rounds: int) -> list[int]:
    return [*a64.mov64(13, rounds), a64.subs_imm(13, 13, 1), a64.b_cond(NE, -4)]


def forever(body: list[int]) -> list[int]:
    return [*body, a64.b(-4 * len(body))]


WAKE_1 = [*a64.mov64(0, sgi(5, 0b10)), a64.msr(SGI1R, 0)]


def woken(first: list[int]) -> list[list[int]]:
    """PE 0 wakes PE 1 so often that compiled code has taken turns, and then does ``first``."""
    rounds = a64.mov64(12, 200)
    body = [*WAKE_1, *works(5), a64.subs_imm(12, 12, 1)]
    many = [*works(TURN), *rounds, *body, a64.b_cond(NE, -4 * len(body))]  # PE 1 sleeps by then
    second = [*takes_interrupts(1), *forever([a64.WFI, a64.NOP])]
    return [[*takes_interrupts(0), *many, *first], second]
