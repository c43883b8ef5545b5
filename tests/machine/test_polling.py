"""PEs that poll leave their turns to others, and go on when what they look at has changed."""

from __future__ import annotations

import pytest

from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import SHORT_TURN
from spe_unicorn.machine.polling import polled
from spe_unicorn.machine.schedule import TURN
from tests.support import a64
from tests.support.small_boards import MPIDR_EL1, RAM, board_at

FLAG = RAM + 0x2000
LOOP = [a64.add_imm(0, 0, 1), a64.add_imm(1, 1, 2), a64.b(-8)]
CNTPCT_EL0 = (3, 3, 14, 0, 1)
ICC_SGI1R_EL1 = (3, 0, 12, 11, 5)
YIELD, WFE = 0xD503_203F, 0xD503_205F
TICK = 16
"""Operations of a tick of the counter."""
WAIT = [*a64.mov64(8, FLAG), a64.ldar(9, 8), a64.cbz(9, -4), a64.mrs(5, CNTPCT_EL0), *LOOP]
"""Poll a flag, note the time, count on in X0."""


def apart(others: list[int], first: list[int]) -> list[int]:
    """Code of the PEs with an odd number, and of those with an even one."""
    return [a64.mrs(1, MPIDR_EL1), a64.tbnz(1, 0, 4 * len(first) + 4), *first, *others]


def after(operations: int, then: list[int]) -> list[int]:
    """Work for a while, then something else."""
    spin = [a64.add_imm(2, 2, 0), a64.subs_imm(5, 5, 1), a64.b_cond(a64.NE, -8)]
    return [*a64.mov64(5, operations // 3), *spin, *then]


def executed(board: Board) -> list[int]:
    return [pe.cpu.executed for pe in board.pes]


@pytest.mark.sweep
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_pe_that_polls_executes_one_turn_and_leaves_the_others_to_who_works(
    runner: type[Runner],
) -> None:
    turns = 4
    board = board_at(apart(WAIT, LOOP), 2, runner=runner)
    board.run(turns * TURN)
    assert executed(board) == [(turns - 1) * TURN, TURN]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_store_to_what_is_polled_is_seen_after_at_most_as_long_as_it_took(
    runner: type[Runner],
) -> None:
    """PE 0 has a turn, then PE 1, then PE 0 turns of 256, 512, ...; it stores in one of them."""
    store = [*a64.mov64(8, FLAG), a64.mrs(6, CNTPCT_EL0), a64.stlr(8, 8), *LOOP]
    board = board_at(apart(WAIT, after(TURN + 1000, store)), 2, runner=runner)
    board.run(3 * TURN)
    stored, seen = board.pes[0].cpu.engine.x(6) * TICK, board.pes[1].cpu.engine.x(5) * TICK
    assert stored - 2 * TURN in range(1000 - TICK, 1100)
    # after 256 and 512 comes the turn of 1024, up to 1792
    assert seen - 2 * TURN in range(1792, 1792 + 2 * TICK)


def test_two_equal_runs_in_other_pieces_have_equal_turns() -> None:
    store = [*a64.mov64(8, FLAG), a64.stlr(8, 8), *LOOP]

    def run(piece: int) -> list[tuple[int, int]]:
        board = board_at(apart(WAIT, after(2 * TURN + 777, store)), 3)
        while board.executed < 6 * TURN:
            board.run(min(piece, 6 * TURN - board.executed))
        return [(pe.cpu.engine.x(0), pe.cpu.executed) for pe in board.pes]

    assert run(1 << 20) == run(997) == run(TURN + 1)


def test_who_polls_at_the_same_place_again_is_found_out_after_a_short_turn() -> None:
    """PE 1 waits for 1, then for 2; both are stored when it has waited for a while."""
    again = [a64.sub_imm(9, 9, 2), a64.cbnz(9, -8)]
    waits = [*a64.mov64(8, FLAG), a64.ldar(9, 8), a64.cbz(9, -4), a64.ldar(9, 8), *again, *LOOP]
    first = after(2 * TURN, [*a64.mov64(8, FLAG), a64.movz(9, 1), a64.stlr(9, 8), *LOOP])
    board = board_at(apart(waits, first), 2)
    board.run(8 * TURN)
    assert board.pes[1].cpu.executed == TURN + SHORT_TURN


def test_an_sgi_to_a_pe_that_sleeps_ends_the_turn() -> None:
    wake = [*a64.mov64(8, 1 << 1), a64.mrs(6, CNTPCT_EL0), a64.msr(ICC_SGI1R_EL1, 8), *LOOP]
    board = board_at(apart([a64.WFI, a64.mrs(5, CNTPCT_EL0), *LOOP], after(2000, wake)), 3)
    gic = board.peripherals.gic
    gic.reset(nonsecure=True)
    gic.distributor.write(0, 4, 0b11)
    gic.redistributors.write(0x3_0100, 4, 1)  # PE 1 enables SGI 0
    interface = gic.cpu_interfaces[1]
    interface.write(icc.ICC_PMR_EL1, 0xFF)
    interface.write(icc.ICC_IGRPEN1_EL3, 0b11)
    board.run(4000)  # PE 2 begins after PE 1
    sent, woken = board.pes[0].cpu.engine.x(6), board.pes[1].cpu.engine.x(5)
    assert sent
    assert woken - sent <= 1


def test_a_store_to_what_a_load_exclusive_saw_is_an_event() -> None:
    """The wait of Linux' cmpwait: LDXR, look, WFE. The event comes before 16 turns have gone by."""
    waits = [
        *a64.mov64(8, FLAG),
        a64.ldxr(9, 8),
        a64.cbnz(9, 12),
        WFE,
        a64.b(-12),
        a64.mrs(5, CNTPCT_EL0),
        *LOOP,
    ]
    at = 40 * TURN + 5000
    store = [*a64.mov64(8, FLAG), a64.mrs(6, CNTPCT_EL0), a64.stlr(8, 8), *LOOP]
    board = board_at(apart(waits, after(at, store)), 2)
    board.run(at + 3 * TURN)
    late = board.pes[1].cpu.engine.x(5) - board.pes[0].cpu.engine.x(6)
    assert 0 <= late * TICK <= TURN


@pytest.mark.parametrize(
    ("loop", "looks"),
    [
        ([a64.b(0)], 0),
        ([a64.ldr(9, 8), a64.cbz(9, -4)], 1),
        ([a64.ldr(9, 8), YIELD, a64.ldr(10, 8, 8), a64.subs(31, 9, 10), a64.b_cond(0, -16)], 2),
        ([a64.ldr(9, 8), a64.cbnz(9, 8), a64.b(-8)], 1),
        ([a64.ldxr(9, 8), a64.cbnz(9, -4)], 1),
        ([a64.ldr(9, 8), a64.subs_imm(7, 7, 1), a64.b_cond(a64.NE, -8)], None),  # gives up some day
        ([a64.ldr(9, 8), a64.str_(9, 8, 8), a64.cbz(9, -8)], None),
        ([a64.ldr(9, 8), a64.mrs(7, CNTPCT_EL0), a64.cbz(9, -8)], None),  # until some time
        ([a64.ldr(8, 8), a64.cbnz(8, -4)], None),  # along a list
        ([a64.ldr9(9, 8, 8, a64.POST), a64.cbz(9, -4)], None),  # along an array
        ([a64.ldr(9, 8), a64.cbz(9, 8), a64.movz(7, 1), a64.cbz(9, -12)], None),
        ([a64.ldr(9, 8), WFE, a64.cbz(9, -8)], None),
        ([a64.ldr(9, 8), a64.svc(0), a64.cbz(9, -8)], None),
        ([a64.ldr(9, 10), a64.cbz(9, -4)], None),  # a device
    ],
)
def test_what_is_a_poll_is_a_loop_whose_rounds_are_all_alike(
    loop: list[int], looks: int | None
) -> None:
    start = [*a64.mov64(8, FLAG), *a64.mov64(10, 0x0900_0018), *loop]
    board = board_at(start, 2)
    cpu = board.pes[0].cpu
    cpu.pc = RAM + 4 * (len(start) - 1)
    cpu.engine.set_x(8, FLAG)
    cpu.engine.set_x(10, 0x0900_0018)
    found = polled(cpu)
    assert (found if found is None else len(found)) == looks


def test_a_device_that_stores_ends_a_poll() -> None:
    """Whoever changes memory: here the host."""
    board = board_at(apart(WAIT, LOOP), 2)
    board.run(3 * TURN)
    board.memory.fill(FLAG, b"\1")
    board.run(2 * TURN)
    assert board.pes[1].cpu.engine.x(0) > 0


def test_a_machine_whose_pes_all_poll_for_ever_can_still_be_run_for_a_number_of_operations() -> (
    None
):
    board = board_at([a64.b(0)], 2)
    board.run(4 * TURN)
    assert sum(executed(board)) == 4 * TURN
