"""Writes of timers in the midst of a run, which goes on where nothing happens before its end."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.pe import TURN
from tests.host.native.registers.gic_boards import board_of, looks
from tests.machine.turns.relays import (
    CNTV_CTL_EL0,
    CNTV_TVAL_EL0,
    alike,
    forever,
    takes_interrupts,
    with_timers,
    works,
)
from tests.support import a64

CNTVCT_EL0, CNTV_CVAL_EL0 = (3, 3, 14, 0, 2), (3, 3, 14, 3, 2)


def compare_value(ticks: int) -> list[int]:
    """Have the compare value lie that many ticks after the count of now."""
    return [a64.mrs(12, CNTVCT_EL0), a64.add_imm(12, 12, ticks), a64.msr(CNTV_CVAL_EL0, 12)]


def control(value: int) -> list[int]:
    return [a64.movz(14, value), a64.msr(CNTV_CTL_EL0, 14)]


def random_program(source: random.Random) -> list[int]:
    """Timers that go off now, soon and late, are masked and turned off, and work between that."""
    body: list[int] = []
    for _ in range(12):
        kind = source.randrange(5)
        if kind == 0:
            body += control(source.choice((0, 1, 1, 1, 2, 3)))
        elif kind == 1:
            body += compare_value(source.choice((0, 3, 40, 400, 4000)))
        elif kind == 2:
            ticks = source.choice((0, 5, 50, 0xFFFF))
            body += [a64.movz(15, ticks), a64.msr(CNTV_TVAL_EL0, 15)]
        elif kind == 3:
            body += [a64.mrs(11, CNTV_CTL_EL0), a64.add(10, 10, 11)]
        else:
            body += works(source.choice((1, 3, 50)))
    return body


def test_a_timer_that_goes_off_late_ends_no_run(engine_runs: list[RunRequest]) -> None:
    """A thousand rounds of three writes; each of them ended a run."""
    loop = [*compare_value(0xFFF), *control(1), *control(0)]
    outcomes = []
    for runner in (Runner, ReferenceRunner):
        board = with_timers(board_of([forever(loop)], runner))
        board.run(8_000)
        outcomes.append((looks(board), board.pes[0].due))
        if runner is Runner:
            assert len(engine_runs) < 60
    assert outcomes[0] == outcomes[1]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(16))
def test_timers_go_off_where_the_reference_has_them(seed: int) -> None:
    source = random.Random(seed)
    programs = [
        [*takes_interrupts(n), *forever(random_program(source))] for n in range(1 + seed % 2)
    ]
    pieces = [source.choice((1, 7, 60, 500, 3000)) for _ in range(12)]
    boards = [with_timers(board_of(programs, runner)) for runner in (Runner, ReferenceRunner)]
    for piece in pieces:
        for board in boards:
            board.run(piece)
        assert looks(boards[0]) == looks(boards[1])
        assert boards[0].pes[0].due == boards[1].pes[0].due


@pytest.mark.sweep
@pytest.mark.accelerated
@pytest.mark.parametrize("seed", range(16))
def test_turns_of_pes_that_set_timers_are_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code takes turns as Python does, with what each PE's timer does next."""
    source = random.Random(seed)
    programs = []
    for n in range(2):
        rounds = [*random_program(source), *works(source.choice((10, 5_000)))]
        waits = [a64.WFI] if source.random() < 0.5 else []
        programs.append([*takes_interrupts(n), *forever([*rounds, *waits])])
    pieces = [40 * TURN, *[source.randrange(1, TURN) for _ in range(20)]]
    alike(programs, pieces, monkeypatch, least=0)


@pytest.mark.accelerated
def test_a_timer_that_goes_off_late_ends_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each PE puts its timer off in each round; it never goes off."""
    off = [a64.movz(15, 0xFFFF), a64.msr(CNTV_TVAL_EL0, 15)]
    loop = [*off, *control(1), *works(20)]
    alike([forever(loop)] * 2, [90 * TURN], monkeypatch, least=30 * TURN)
