"""A SEV that the engine executes by itself, as no PE waits in a WFE: who hears of it, and when."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.registers.system import CPACR_EL1, ELR_EL1, SPSR_EL1
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.memory_map import UART
from tests.host.native.registers.gic_boards import CODE, EOIR1, VBAR_EL1, board_of
from tests.support import a64
from tests.support.small_boards import RAM

SEV = 0xD503_209F
EL1H = 0x3C5
NOWHERE, DEVICE = 8, 7
"""Registers with an address where nothing is, and with that of UARTDR."""
ABORTS = a64.ldr(1, NOWHERE)
SENDS = a64.str_(2, DEVICE, size=2)
LOOP = [a64.add_imm(3, 3, 1), a64.b(-4)]
LEAD = [
    *a64.mov64(9, RAM + CODE // 2),
    a64.msr(VBAR_EL1, 9),
    *a64.mov64(NOWHERE, 1 << 40),
    *a64.mov64(DEVICE, UART.base),
    *a64.mov64(2, ord("x")),
    *a64.mov64(4, EL1H),
    a64.msr((3, 0, 4, 0, 0), 4),
    *a64.mov64(5, RAM + 0x800),
    a64.msr((3, 0, 4, 0, 1), 5),
    a64.NOP,
]
BLOCKS = {
    "alone": [a64.NOP, SEV, a64.NOP],
    "first": [SEV, a64.NOP],
    "behind-an-abort": [a64.NOP, ABORTS, SEV],
    "before-an-abort": [SEV, a64.NOP, ABORTS],
    "before-a-call": [SEV, a64.svc(0)],
    "before-a-return": [SEV, a64.ERET],
    "before-the-gic": [SEV, a64.msr(EOIR1, 31)],
    "before-a-device": [SEV, SENDS, a64.NOP],
    "behind-a-device": [SENDS, SEV, a64.NOP],
    "before-a-control": [SEV, a64.msr((3, 0, 1, 0, 2), 4)],
    "before-a-pc-off": [SEV, a64.add_imm(6, 5, 2), a64.br(6)],
    "twice": [SEV, a64.NOP, SEV],
    "before-sleep": [SEV, a64.NOP, a64.WFI],
}
NEVER = {"behind-an-abort"}
"""Blocks whose SEV is not executed."""
BY_THE_HOST = {"twice"}
"""Blocks that the engine does not execute by itself."""


def board_with(block: list[int], runner: type[Runner] = Runner) -> Board:
    """PE 0 executes a block, while its SEVs are seen and no Event Register is set."""
    board = board_of([[*LEAD, *block, *LOOP], LOOP], runner)
    board.memory.fill(RAM + 0x800, a64.code(LOOP))
    for vector in range(0, 0x800, 0x80):
        board.memory.fill(RAM + CODE // 2 + vector, a64.code(LOOP))
    board.awaits_event()
    for pe in board.pes:
        pe.cpu.events.take(EL1)
    return board


def heard(board: Board) -> list[bool]:
    return [pe.cpu.events.s.event for pe in board.pes]


def test_the_registers_of_these_programs_are_those_that_they_are_called() -> None:
    places = [SPSR_EL1.encoding, ELR_EL1.encoding, CPACR_EL1.encoding]
    written = [(e.op0, e.op1, e.crn, e.crm, e.op2) for e in places]
    assert written == [(3, 0, 4, 0, 0), (3, 0, 4, 0, 1), (3, 0, 1, 0, 2)]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("name", BLOCKS)
def test_all_hear_of_a_sev_once_it_has_been_executed(name: str, runner: type[Runner]) -> None:
    block = BLOCKS[name]
    sev = len(LEAD) + block.index(SEV)
    for operations in range(len(LEAD) - 1, len(LEAD) + len(block) + 3):
        board = board_with(block, runner)
        board.run(operations)
        sent = name not in NEVER and operations > sev
        own, others = heard(board)
        assert others is sent
        assert own or not sent  # an exception sets the PE's own Event Register, too


@pytest.mark.parametrize("name", BLOCKS)
def test_what_surrounds_a_sev_is_executed_as_by_the_reference_runner(name: str) -> None:
    boards = [board_with(BLOCKS[name], runner) for runner in (Runner, ReferenceRunner)]
    for piece in (100, 7, 200):
        for board in boards:
            board.run(piece)
        ours, theirs = (
            [(pe.cpu.engine.general(), pe.cpu.pc, pe.cpu.pstate, pe.cpu.executed) for pe in b.pes]
            for b in boards
        )
        assert ours == theirs


@pytest.mark.parametrize("name", BLOCKS)
def test_the_engine_stops_for_no_sev_that_nobody_waits_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_the_host = []
    event = StopHandler._event

    def counted(handler: StopHandler, word: int) -> bool:
        by_the_host.append(word)
        return event(handler, word)

    monkeypatch.setattr(StopHandler, "_event", counted)
    board_with(BLOCKS[name]).run(100)
    assert bool(by_the_host) is (name in BY_THE_HOST)


def test_a_sev_ends_the_turn_while_a_pe_waits_in_a_wfe() -> None:
    board = board_of([[*LOOP[:1] * 9, SEV, *LOOP], LOOP])
    board.awaits_event()
    board.pes[1].s.dozing = True
    board.pes[1].s.patience = 1 << 4
    assert board.event_awaited
    board.run(40)
    assert board.pes[0].cpu.executed == 10
    assert board.pes[1].cpu.executed == 30
