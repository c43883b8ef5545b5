"""All PEs wait in WFEs and nothing is due: in the end their WFEs wait no more.

A WFE may end at any time (Arm ARM D1.7.1), and time alone can end none of these loops for ever.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import TURN
from tests.host.native.registers.gic_boards import board_of
from tests.machine.turns.relays import differ
from tests.support import a64
from tests.support.small_boards import RAM

SEV, SEVL = 0xD503_209F, 0xD503_20BF
SHARED = a64.mov64(4, RAM + 0x8_0000)
LOOPS = {
    "nothing": [a64.WFE, a64.add_imm(3, 3, 1)],
    "memory": [a64.ldr(5, 4), a64.WFE, a64.add_imm(3, 3, 1)],
    "exclusive": [SEVL, a64.WFE, a64.ldxr(5, 4), a64.add_imm(3, 3, 1)],
    "sends": [a64.WFE, a64.add_imm(3, 3, 1), a64.NOP, SEV, a64.WFE, a64.WFE],
}
ROUNDS = 64
"""So often they wait before."""
TWE = 1 << 14


def board_with(loop: list[int], runner: type[Runner] = Runner) -> Board:
    program = [*SHARED, *loop, a64.b(-4 * len(loop))]
    return board_of([program, program], runner)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_limit_of_operations_is_reached(loop: str) -> None:
    """With jumps in time alone it would be half a minute of the host, and many of the guest."""
    subject = board_with(LOOPS[loop])
    assert subject.run(400_000) is Ending.LIMIT
    assert subject.pes[0].cpu.cycles < 400_000 + (2 * ROUNDS + 8) * TURN


@pytest.mark.parametrize("loop", LOOPS)
def test_steps_come_to_the_same(loop: str) -> None:
    boards = [board_with(LOOPS[loop], runner) for runner in (Runner, ReferenceRunner)]
    for piece in (20_000, 700, 3, 9000):
        for board in boards:
            board.run(piece)
        differ(*boards)


def test_a_pe_that_can_end_its_wait_by_itself_does_so() -> None:
    """One looks at the counter, and stores after a while; the other waits for that."""
    late = [a64.mrs(5, (3, 3, 14, 0, 1)), a64.lsr_imm(5, 5, 20), a64.WFE, a64.cbz(5, -12)]
    first = [*SHARED, *late, a64.movz(6, 7), a64.str_(6, 4), SEV, a64.b(0)]
    second = [*SHARED, a64.WFE, a64.ldr(6, 4), a64.cbz(6, -8), a64.b(0)]
    subject = board_of([first, second])
    for _ in range(60):
        subject.run(1_000_000)
        if subject.pes[1].cpu.engine.x(6):
            break
    assert subject.pes[1].cpu.engine.x(6) == 7


def test_a_wfe_that_is_trapped_is_trapped() -> None:
    subject = board_with(LOOPS["nothing"])
    subject.run(150_000)
    assert all(pe.cpu.engine.x(3) > ROUNDS for pe in subject.pes)
    trapped = []
    for pe in subject.pes:
        pe.cpu.exception_taken.connect(lambda record, entry: trapped.append(record.syndrome))
        if system.HCR_EL2 in pe.cpu.registers:
            pe.cpu.registers.set_raw(system.HCR_EL2, pe.cpu.registers.raw(system.HCR_EL2) | TWE)
            pe.handler.controls_written()
    subject.run(100)
    assert trapped
