"""A WFI with an interrupt pending completes at once, in compiled code as in Python."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import TURN
from tests.host.native.registers.gic_boards import board_of, looks
from tests.machine.turns.relays import (
    CORES,
    alarm,
    alike,
    everything,
    forever,
    takes_interrupts,
    with_timers,
    woken,
    works,
)
from tests.support import a64
from tests.support.small_boards import MPIDR_EL1, board_at

COUNTS = a64.add_imm(12, 12, 1)
HALTED = forever([COUNTS, a64.WFI, COUNTS])
WORKS = forever([COUNTS, a64.str_(12, 8)])


def halted(runner: type[Runner] = Runner, pes: int = 2, **options: Any) -> Board:
    """The last PE is halted: WFI in a loop, with its timer's interrupt pending and masked."""
    first = [*takes_interrupts(0), *WORKS]
    last = [*takes_interrupts(pes - 1), a64.daifset(2), *alarm(1), *HALTED]
    return with_timers(board_of([first, last] if pes == 2 else [last], runner, **options))


def held(board: Board) -> list[object]:
    """What all runners leave alike."""
    return [looks(board)] if len(board.pes) == 1 else everything(board)[::2]


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of operations after which Python has seen a WFI."""
    seen: list[int] = []
    idle = StopHandler.idle

    def noted(handler: StopHandler) -> None:
        seen.append(handler.cpu.executed)
        idle(handler)

    monkeypatch.setattr(StopHandler, "idle", noted)
    return seen


@pytest.mark.accelerated
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("pes", [1, 2])
def test_the_engine_is_not_left_for_a_wfi_that_does_not_wait(
    pes: int, core: str, by_python: list[int]
) -> None:
    board = halted(pes=pes, core=core)
    board.run(20 * TURN)
    assert board.pes[-1].cpu.engine.x(12) > 5 * TURN // pes
    assert len(by_python) < 40 * 5


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("pes", [1, 2])
def test_a_halted_pe_is_the_same_by_all_ways(
    pes: int, core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In compiled code, in Python, and by the reference runner; in any pieces."""
    boards = [halted(pes=pes, core=core), halted(ReferenceRunner, pes=pes, core=core)]
    monkeypatch.setenv(OPTION, "none")
    boards.append(halted(pes=pes, core=core))
    monkeypatch.delenv(OPTION)
    for piece in (1, 30, 2, 3, 500, 1000):
        for board in boards:
            board.run(piece)
        for board in boards[1:]:
            assert held(board) == held(boards[0])


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_halted_pe_has_whole_turns(runner: type[Runner]) -> None:
    turn = 256
    first = forever([COUNTS, COUNTS])
    code = [a64.mrs(1, MPIDR_EL1), a64.tbnz(1, 0, 4 * len(first) + 4), *first, *HALTED]
    board = board_at(code, 2, runner=runner, turn=turn)
    board.pes[1].interrupts.irq.set_level(True)
    board.run(8 * turn)
    assert [pe.cpu.executed for pe in board.pes] == [4 * turn, 4 * turn]
    # 2 operations tell the PEs apart; then come 255 rounds, an addition and a WFI
    assert board.pes[1].cpu.engine.x(12) == 255 * 2 + 1


@pytest.mark.accelerated
def test_an_interrupt_that_is_not_masked_comes_after_its_wfi(by_python: list[int]) -> None:
    """It is taken before the operation after the WFI, and the WFI after that waits."""
    first = [*takes_interrupts(0), a64.daifset(2), *alarm(1), *works(3000), *[a64.WFI, COUNTS] * 3]
    boards = []
    for runner in (Runner, ReferenceRunner):
        board = with_timers(
            board_of([[*first, a64.daifclr(2), *forever([a64.WFI, COUNTS])]], runner)
        )
        for _ in range(4):
            board.run(3000)
        boards.append(held(board))
    assert boards[0] == boards[1]


@pytest.mark.accelerated
def test_compiled_turns_with_such_wfis_are_those_of_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    masked = [a64.daifset(2), *[a64.WFI, COUNTS] * 6, a64.daifclr(2)]
    programs = woken(forever([*alarm(3), *masked, *works(40)]))
    programs[1] = [*takes_interrupts(1), *forever([a64.WFI, *masked])]
    alike(programs, [2 * TURN] + [97] * 60, monkeypatch)


@pytest.mark.parametrize("until_after", [False, True])
def test_a_run_may_end_at_the_wfi_or_after_it(until_after: bool) -> None:
    boards = []
    for runner in (Runner, ReferenceRunner):
        board = halted(runner, pes=1)
        board.run(200)
        cpu = board.pes[0].cpu
        until = next(
            cpu.pc + 4 * n
            for n in range(-4, 5)
            if cpu.virtual.code(cpu.pc + 4 * n, 1) == (a64.WFI,)
        )
        board.run(1)
        board.run(1000, until + 4 * until_after)
        assert cpu.pc == until + 4 * until_after
        boards.append(held(board))
    assert boards[0] == boards[1]
