"""A machine that is saved around an overflow goes on as if nothing had been, by both runners."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.counters import HANDLER, LOOP, MAX, MSR_PM, REPORT, RUNNERS, SYNC, prepared
from tests.support.small_boards import board_at

DISTANCE = 4
MASKED = [a.b(4)] * 3
CODE = {
    "synchronous": [*prepared(E.BR_RETIRED | SYNC, -DISTANCE), MSR_PM[0], *LOOP],
    "asynchronous": [*prepared(E.BR_RETIRED, -DISTANCE), MSR_PM[0], *LOOP],
    "overshot": [*prepared(E.BR_RETIRED | SYNC, -1), *MASKED, MSR_PM[0], *LOOP],
    "instructions": [*prepared(E.INST_RETIRED | SYNC, -9), MSR_PM[0], *LOOP],
}
AROUND = range(-3, 2)
"""Operations around the entry of the exception, after each of which it is saved."""


def made(kind: str, runner: type[Runner]) -> Board:
    board = board_at(CODE[kind], el=1, runner=runner, core=MAX)
    board.memory.fill(HANDLER, a.code(REPORT))
    return board


def found(board: Board) -> tuple[object, ...]:
    pe = board.pes[0]
    pe.counting.count_executed()
    registers = [board.cpu.engine.x(n) for n in range(31)]
    return registers, board.cpu.pc, board.cpu.pm, asdict(pe.counting.monitors.s)


@pytest.mark.slow
@RUNNERS
@pytest.mark.parametrize("kind", CODE)
def test_it_goes_on_from_each_operation_around_the_overflow(
    kind: str, runner: type[Runner]
) -> None:
    plain, saved, other = (made(kind, runner) for _ in range(3))
    while plain.cpu.pc < HANDLER:
        plain.run(1)
    entered = plain.cpu.executed
    plain.run(20)
    assert plain.cpu.engine.x(9) >> 26 == 0x3D
    pending = 0
    for distance in AROUND:
        saved.run(entered + distance - saved.cpu.executed)
        pending += saved.pes[0].counting.monitors.s.pending
        BoardSaver(other).restore(BoardSaver(saved).save())
        assert found(other) == found(saved)
        other.run(plain.cpu.executed - other.cpu.executed)
        assert found(other) == found(plain), distance
    assert pending == (kind != "asynchronous")
