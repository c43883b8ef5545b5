"""Breakpoints and steps stop where they are asked to, and change nothing."""

from __future__ import annotations

import random

import pytest

import spe_unicorn
from spe_unicorn.debug.gdb.events import EventBreaks
from spe_unicorn.debug.trace import trace
from spe_unicorn.host.ports import DebugReason, Ending
from spe_unicorn.host.run.debug_stops import Watchpoint
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.shipped import shipped_firmware
from tests.host.stale_tables import CODE, MEMORY, PAGE, PAGES, mapped, page, tables
from tests.support import a64
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

LOOP = [
    a64.movz(0, 3),  # 0
    a64.add_imm(1, 1, 1),  # 4: the loop
    a64.subs_imm(0, 0, 1),  # 8
    a64.b_cond(a64.NE, -8),  # c
    a64.svc(0),  # 10
    a64.b(0),
]


def resume(board, breakpoints=(), step=()):
    for pe in board.pes:
        begun = (pe.cpu.pc, pe.cpu.executed) if pe.number in step else None
        pe.runner.stops.resume(breakpoints, begun)
    ending = board.run(100_000)
    return ending, board.running.runner.stops.stopped


def test_a_breakpoint_stops_before_its_operation_each_time() -> None:
    board = board_at(LOOP)
    for executed in (2, 5, 8):
        ending, stopped = resume(board, {RAM + 8})
        assert (ending, stopped.reason) == (Ending.STOPPED, DebugReason.BREAKPOINT)
        assert (board.cpu.pc, board.cpu.executed) == (RAM + 8, executed)
        ending, stopped = resume(board, {RAM + 8}, step={0})
        assert (ending, stopped.reason) == (Ending.STOPPED, DebugReason.STEP)
        assert board.cpu.pc == RAM + 0xC


def test_where_a_pe_stands_it_stops_again_unless_it_steps() -> None:
    board = board_at(LOOP)
    resume(board, {RAM + 4})
    assert resume(board, {RAM + 4})[1].reason is DebugReason.BREAKPOINT
    assert board.cpu.executed == 1


def test_a_breakpoint_that_is_taken_away_stops_nobody() -> None:
    board = board_at(LOOP)
    resume(board, {RAM + 4, RAM + 8})
    assert resume(board, {RAM + 0x10})[1].reason is DebugReason.BREAKPOINT
    assert board.cpu.pc == RAM + 0x10


def test_a_step_over_a_call_ends_at_the_vector() -> None:
    vectors = RAM + 0x800
    board = board_at([*a64.mov64(0, vectors), a64.msr((3, 0, 12, 0, 0), 0), a64.svc(0)], el=1)
    call = RAM + 4 * len(a64.mov64(0, vectors)) + 4
    resume(board, {call})
    assert board.cpu.pc == call
    executed = board.cpu.executed
    resume(board, step={0})
    assert board.cpu.executed == executed + 1
    assert board.cpu.pc == vectors + 0x200  # Synchronous, from the current level with SP_ELx


def test_steps_of_one_pe_let_the_others_run() -> None:
    board = board_at([a64.add_imm(1, 1, 1), a64.b(-4)], pes=2)
    for n in range(1, 4):
        ending, _ = resume(board, step={1})
        assert ending is Ending.STOPPED
        assert board.running.number == 1
        assert board.pes[1].cpu.executed == n
    assert board.pes[0].cpu.executed > 0


def test_more_breakpoints_than_the_engine_remembers_halts_are_kept() -> None:
    board = board_at(LOOP)
    many = {RAM + 0x1000 + 4 * n for n in range(1000)}
    assert resume(board, many | {RAM + 0xC})[1].reason is DebugReason.BREAKPOINT
    assert board.cpu.pc == RAM + 0xC


TPIDR_EL0 = (3, 3, 13, 0, 2)
CELL = RAM + 0x2000
WATCHED = (Watchpoint(CELL, CELL + 7, read=False, write=True),)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_watched_memory_hides_no_access_to_a_register(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    code = [*a64.mov64(1, CELL), a64.msr(TPIDR_EL0, 1), a64.mrs(2, TPIDR_EL0), a64.str_(0, 1)]
    written = len(code) - 2
    board = board_at([*code, a64.b(0)], runner=runner)
    EventBreaks(board).break_at_register("TPIDR_EL0", read=True, write=True)
    stops = board.pes[0].runner.stops
    found = []
    for _ in range(3):
        stops.resume((), watchpoints=WATCHED, events=True)
        board.run(100)
        found.append((board.cpu.executed, stops.stopped.reason))
    read = written + 1
    assert found == [
        (written, DebugReason.EVENT),
        (read, DebugReason.EVENT),
        (read, DebugReason.WATCHPOINT),
    ]


def test_watched_memory_hides_no_instruction_from_a_trace() -> None:
    code = [*a64.mov64(1, CELL), a64.add_imm(0, 0, 1), a64.str_(0, 1)]
    board = board_at([*code, a64.b(-8)])
    lines: list[str] = []
    trace(board, "insn", lines.append)
    board.pes[0].runner.stops.resume((), watchpoints=WATCHED)
    assert board.run(100) is Ending.WATCHED
    begun = len(code) - 1
    assert board.cpu.executed == begun
    assert [line.split()[:2] for line in lines] == [[f"{n + 1}", "insn"] for n in range(begun)]


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["spe_irq_el1", "spe_smp", "spe_el0", "priv_timer"])
def test_stops_change_no_byte_of_the_records(name: str) -> None:
    def run(stops: bool) -> tuple[bytes, bytes, int]:
        options = {"smp": 4} if name == "spe_smp" else {}
        machine = spe_unicorn.Machine(shipped_firmware(name), **options)
        if stops:
            symbols = [machine.symbol("main")]
            chance = random.Random(1)
            places = {symbols[0] + 4 * n for n in range(0, 400, 3)}
            for _ in range(150):
                step = {chance.randrange(len(machine.pes))} if chance.random() < 0.6 else set()
                for pe in machine.board.pes:
                    begun = (pe.cpu.pc, pe.cpu.executed) if pe.number in step else None
                    pe.runner.stops.resume(places if chance.random() < 0.8 else (), begun)
                if machine.board.run(2_000) not in (Ending.LIMIT, Ending.STOPPED):
                    break
            for pe in machine.board.pes:
                pe.runner.stops.resume(())
        if machine.board.exit_status is None:
            machine.run()
        raw = b"".join(pe.records.raw for pe in machine.pes)
        return raw, machine.console.output, machine.operations

    assert run(True) == run(False)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_page_begins_behind_one_that_is_not_for_execution(
    runner: type[Runner] | type[ReferenceRunner],
) -> None:
    """The engine looks at the page in front of it. The guest takes no exception."""
    there = PAGES + PAGE
    begin = [*mapped(), *a64.mov64(5, there), a64.blr(5), a64.blr(5), a64.b(0)]
    segments = tables({0: page(0), 1: page(1, executed=True)}) | {
        CODE: a64.code(begin),
        MEMORY + PAGE: a64.code([a64.add_imm(1, 1, 1), a64.RET]),
    }
    board = Machine(image_of(segments, CODE), ram=16 << 20, runner=runner).board
    for times in (0, 1):
        _, stopped = resume(board, {there})
        assert (stopped.reason, board.cpu.pc) == (DebugReason.BREAKPOINT, there)
        assert board.cpu.engine.x(1) == times
        resume(board, step={0})
    assert (board.cpu.engine.x(1), board.cpu.entries.last_exception) == (2, None)
