"""A SEV that the engine executes by itself, as no PE waits in a WFE: who hears of it, and when."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.registers import system
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.memory_map import UART
from tests.host.guests import put
from tests.host.native.registers.gic_boards import CODE, EOIR1, board_of
from tests.support import a64
from tests.support.small_boards import RAM

SEV = 0xD503_209F
EL1H = 0x3C5
NOWHERE, DEVICE = 8, 7
"""Registers with an address where nothing is, and with that of UARTDR."""
ABORTS = a64.ldr(1, NOWHERE)
SENDS = a64.str_(2, DEVICE, size=2)
LOOP = [a64.add_imm(3, 3, 1), a64.b(-4)]
TABLE = RAM + 0x8_0000
BLOCKS_OF_A_GIB = {0: 1 << 54 | 1 << 10 | 1, 1: RAM | 1 << 10 | 1}
"""Devices and RAM; all else is not mapped."""
LEAD = [
    *[
        *put(system.VBAR_EL1, RAM + CODE // 2),
        *put(system.MAIR_EL1, 0),
        *put(system.TTBR0_EL1, TABLE),
    ],
    *[*put(system.TCR_EL1, 25 | 1 << 23), *put(system.SCTLR_EL1, 0x30D0_0801)],
    *[*put(system.SPSR_EL1, EL1H), *put(system.ELR_EL1, RAM + 0x800)],
    *[*a64.mov64(NOWHERE, 1 << 32), *a64.mov64(DEVICE, UART.base)],
    *[*a64.mov64(2, ord("x")), *a64.mov64(4, 3 << 20), *a64.mov64(5, RAM + 0x800), a64.NOP],
]
BLOCKS = {
    "alone": [a64.NOP, SEV, a64.NOP],
    "first": [SEV, a64.NOP],
    "after-an-abort": [a64.NOP, ABORTS, SEV],
    "before-an-abort": [SEV, a64.NOP, ABORTS],
    "before-a-call": [SEV, a64.svc(0)],
    "before-a-return": [SEV, a64.ERET],
    "before-the-gic": [SEV, a64.msr(EOIR1, 31)],
    "before-a-device": [SEV, SENDS, a64.NOP],
    "after-a-device": [SENDS, SEV, a64.NOP],
    "before-a-control": [SEV, a64.msr((3, 0, 1, 0, 2), 4)],
    "before-a-pc-off": [SEV, a64.add_imm(6, 5, 2), a64.br(6)],
    "twice": [SEV, a64.NOP, SEV],
    "before-sleep": [SEV, a64.NOP, a64.WFI],
}
NEVER = {"after-an-abort"}
"""Blocks whose SEV is not executed."""
BY_THE_HOST = {"twice"}
"""Blocks that the engine does not execute by itself."""


def board_with(block: list[int], runner: type[Runner] = Runner) -> Board:
    """PE 0 executes a block, while its SEVs are seen and no Event Register is set."""
    board = board_of([[*LEAD, *block, *LOOP], LOOP], runner)
    board.memory.fill(RAM + 0x800, a64.code(LOOP))
    entries = [BLOCKS_OF_A_GIB.get(n, 0) for n in range(512)]
    board.memory.fill(TABLE, b"".join(entry.to_bytes(8, "little") for entry in entries))
    for vector in range(0, 0x800, 0x80):
        board.memory.fill(RAM + CODE // 2 + vector, a64.code(LOOP))
    board.awaits_event()
    for pe in board.pes:
        pe.cpu.events.take(EL1)
    return board


SEVL, NO_TIME = 0xD503_20BF, a64.movz(1, 7)
WAITS = {
    "set": [a64.NOP, a64.WFE, a64.NOP],
    "set-by-sevl": [a64.NOP, SEVL, a64.WFE, a64.NOP],
    "sevl-first": [SEVL, a64.WFE, a64.NOP],
    "alone": [a64.WFE, a64.NOP],
    "after-an-abort": [a64.NOP, ABORTS, a64.WFE],
    "sevl-after-an-abort": [ABORTS, SEVL, a64.WFE],
    "before-an-abort": [a64.WFE, ABORTS],
    "after-a-device": [SENDS, a64.WFE],
    "before-a-device": [SEVL, a64.WFE, SENDS],
    "twice": [SEVL, a64.WFE, SEVL, a64.WFE, NO_TIME],
    "before-a-sev": [SEVL, a64.WFE, SEV, a64.NOP],
    "after-a-sev": [SEV, NO_TIME, a64.WFE, NO_TIME],
    "after-a-sev-before": [SEV, a64.b(4), a64.WFE, NO_TIME],
    "sevl-not-next-to-it": [SEVL, NO_TIME, a64.WFE],
    "before-a-return": [SEVL, a64.WFE, a64.ERET],
}
"""Blocks whose WFE does not wait, if there was an event."""
WAITS_BY_THE_HOST = {"after-a-sev", "sevl-not-next-to-it"}
"""Those that the engine does not execute by itself."""


@pytest.mark.sweep
@pytest.mark.parametrize("name", WAITS)
def test_a_wfe_takes_the_event_once_it_has_been_executed(name: str) -> None:
    """Operation by operation: whose Event Registers are set, and where the last WFE was."""
    block = WAITS[name]
    for operations in range(len(LEAD) - 1, len(LEAD) + len(block) + 3):
        boards = [board_with(block, runner) for runner in (Runner, ReferenceRunner)]
        for board in boards:
            board.pes[0].cpu.events.set()
            board.run(operations)
        ours, theirs = ([pe.cpu.events.save() for pe in board.pes] for board in boards)
        assert ours == theirs
        done = operations > len(LEAD) + block.index(a64.WFE)
        if name in ("set", "set-by-sevl", "sevl-first", "alone"):
            assert ours[0].event is not done
        assert [pe.cpu.executed for pe in boards[0].pes] == [operations, 0]


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("event", [False, True])
def test_what_surrounds_a_wfe_is_executed_as_by_the_reference_runner(
    name: str, event: bool
) -> None:
    boards = [board_with(WAITS[name], runner) for runner in (Runner, ReferenceRunner)]
    for board in boards:
        if event:
            board.pes[0].cpu.events.set()
    for piece in (100, 7, 20_000, 60_000):
        for board in boards:
            board.run(piece)
        ours, theirs = (
            [
                (pe.cpu.engine.general(), pe.cpu.pc, pe.cpu.executed, pe.cpu.events.save())
                for pe in b.pes
            ]
            for b in boards
        )
        assert ours == theirs


@pytest.mark.accelerated
@pytest.mark.parametrize("name", WAITS)
def test_the_engine_stops_for_no_wfe_that_does_not_wait(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bool(executed_by_host(WAITS[name], monkeypatch)) is (name in WAITS_BY_THE_HOST)


def heard(board: Board) -> list[bool]:
    return [pe.cpu.events.s.event for pe in board.pes]


@pytest.mark.sweep
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


@pytest.mark.accelerated
@pytest.mark.parametrize("name", BLOCKS)
def test_the_engine_stops_for_no_sev_that_nobody_waits_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bool(executed_by_host(BLOCKS[name], monkeypatch)) is (name in BY_THE_HOST)


def executed_by_host(block: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The WFE, SEV and SEVL that the engine has left to the host, with an event at the begin."""
    by_the_host: list[int] = []
    event = StopHandler._event

    def counted(handler: StopHandler, word: int) -> bool:
        by_the_host.append(word)
        return event(handler, word)

    monkeypatch.setattr(StopHandler, "_event", counted)
    board = board_with(block)
    board.pes[0].cpu.events.set()
    board.run(100)
    return by_the_host


def test_a_sev_ends_the_turn_while_a_pe_waits_in_a_wfe() -> None:
    board = board_of([[*LOOP[:1] * 9, SEV, *LOOP], LOOP])
    board.awaits_event()
    board.pes[1].s.dozing = True
    board.pes[1].s.patience = 1 << 4
    assert board.event_awaited
    board.run(40)
    assert board.pes[0].cpu.executed == 10
    assert board.pes[1].cpu.executed == 30
