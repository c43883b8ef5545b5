"""The host looks out for what the engine executes wrongly, once there is such code, and not before.

In each program LDSMIN or LDSMAX has operands of different signs, for which the engine is wrong.
"""

from __future__ import annotations

import pytest

from spe_unicorn.debug.travel import Travel
from spe_unicorn.host.accelerators import NAMES, OPTION
from spe_unicorn.host.native.marks import MARK_MEND
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from spe_unicorn.session.machine import Machine as Session
from tests.support import a64 as a
from tests.support.small_boards import MPIDR_EL1, RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
DATA = RAM + 0x8000
LDSMINB, LDSMAXB = 0x3823_5024, 0x3823_4024
"""X3 and memory at X1; what was in memory goes to X4."""
IC_IVAU = (3, 7, 5, 1)
BEGIN = [*a.mov64(1, DATA), *a.mov64(3, 0x80), *a.mov64(5, 1)]


def counted(rounds: int, body: list[int]) -> list[int]:
    """A loop of so many rounds, by X0."""
    return [*a.mov64(0, rounds), *body, a.subs_imm(0, 0, 1), a.b_cond(a.NE, -4 * (len(body) + 1))]


def looked_out(board: Board, pe: int = 0) -> bool:
    """Whether blocks are looked out for that hold what has to be mended."""
    return bool(board.pes[pe].cpu.state.relevant & MARK_MEND)


def least(board: Board) -> int:
    data = board.memory.read(DATA, 1)
    assert data is not None
    return data[0]


@pytest.mark.parametrize("used", ["none", *NAMES, ",".join(NAMES)])
def test_code_without_them_is_executed_as_ever(used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTION, used)
    board = board_at([*BEGIN, *counted(1000, [a.str_(5, 1, size=0)]), a.b(0)])
    assert board.run(5000) is Ending.LIMIT
    assert not looked_out(board)
    assert board.cpu.state.watch & MARK_MEND == 0


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("used", ["none", *NAMES, ",".join(NAMES)])
@pytest.mark.parametrize("before", [0, 1, 1000])
def test_they_are_found_wherever_they_come(
    before: int, used: str, runner: type[Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the very first block, in the second one, and after a loop of many operations."""
    monkeypatch.setenv(OPTION, used)
    earlier = counted(before, [a.add(6, 6, 5)]) if before else []
    # memory counts down from 2, and at 0x80, the least signed byte, it stays
    code = [*BEGIN, *earlier, a.str_(5, 1, size=0), LDSMINB, *counted(3, [LDSMAXB]), a.b(0)]
    board = board_at(code, runner=runner)
    assert board.run(len(BEGIN) + 3 * before + 30) is Ending.LIMIT
    assert least(board) == 0x80
    assert board.cpu.engine.x(4) == 0x80
    assert looked_out(board) == (runner is Runner)


@RUNNERS
@pytest.mark.parametrize("maintained", [True, False])
def test_code_may_be_written_at_run_time(maintained: bool, runner: type[Runner]) -> None:
    """A NOP of a block that has run many times becomes LDSMINB."""
    body = [a.NOP, a.add(6, 6, 5)]
    start = [*BEGIN, a.str_(5, 1, size=0), *a.mov64(8, LDSMINB)]
    loop = counted(50, body)
    head = [*start, a.movz(7, 2), a.adr(9, 4 * (len(loop) - len(body) - 1))]
    change = [a.str_(8, 9, size=2)]
    if maintained:
        change += [a.DSB_SY, a.sys(*IC_IVAU, 9), a.DSB_SY, a.ISB]
    tail = [*change, a.subs_imm(7, 7, 1)]
    again = a.b_cond(a.NE, -4 * (len(loop) + len(tail)))
    board = board_at([*head, *loop, *tail, again, a.b(0)], runner=runner)
    assert board.run(1000) is Ending.LIMIT
    assert board.cpu.engine.x(6) == 100
    assert least(board) == 0x80


@RUNNERS
def test_each_pe_finds_its_own(runner: type[Runner]) -> None:
    """The second PE has one in its first block, the first PE in none."""
    apart = [a.mrs(0, MPIDR_EL1), a.and_low_bits(0, 0, 0, 8), a.cbz(0, 4 * (len(BEGIN) + 4))]
    code = [*apart, *BEGIN, a.str_(5, 1, size=0), LDSMINB, a.b(0), a.b(0)]
    board = board_at(code, 2, runner=runner)
    assert board.run(40_000) is Ending.LIMIT
    assert least(board) == 0x80
    assert [looked_out(board, pe) for pe in range(2)] == [False, runner is Runner]


@RUNNERS
@pytest.mark.parametrize("at", [1, 5, 8, 9, 10, 11, 12])
def test_a_machine_restored_finds_them_again(at: int, runner: type[Runner]) -> None:
    """Saved and restored around the operation, it comes to the same in another board."""
    code = [*BEGIN, a.str_(5, 1, size=0), LDSMINB, *counted(3, [LDSMAXB]), a.b(0)]
    board, other = board_at(code, runner=runner), board_at([a.b(0)], runner=runner)
    board.run(at)
    saver, restored = BoardSaver(board), BoardSaver(other)
    restored.restore(saver.save())
    for each in (board, other):
        each.run(40)
        assert least(each) == 0x80
    other.memory.fill(DATA, b"\x00")
    restored.restore(saver.save())
    assert least(other) == 0x80
    assert other.cpu.executed == board.cpu.executed


def test_going_back_undoes_what_was_mended() -> None:
    board = board_at([*BEGIN, a.str_(5, 1, size=0), LDSMINB, a.NOP, a.b(0)])
    travel = Travel(board)
    travel.run(20)
    assert least(board) == 0x80
    travel.back_to(len(BEGIN) + 1)
    assert least(board) == 1
    travel.run(1)
    assert least(board) == 0x80
    travel.step_back()
    assert least(board) == 1


@pytest.mark.parametrize("name", ["bench_crc", "bench_list", "hello", "spe_irq_el1"])
def test_shipped_programs_have_none(name: str) -> None:
    session = Session(shipped_firmware(name))
    session.run(operations=200_000)
    assert not looked_out(session.board)
