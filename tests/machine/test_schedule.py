"""Several PEs: exact turns, waiting and waking, maintenance that reaches all."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.schedule import TURN
from tests.support import a64
from tests.support.small_boards import (
    CPU_OFF,
    CPU_ON,
    MPIDR_EL1,
    RAM,
    SYSTEM_OFF,
    board_at,
    psci,
)

PES = 3
LOOP = [a64.add_imm(0, 0, 1), a64.add_imm(1, 1, 2), a64.b(-8)]
CNTP_CVAL_EL0, CNTP_CTL_EL0 = (3, 3, 14, 2, 2), (3, 3, 14, 2, 1)
CNTPCT_EL0 = (3, 3, 14, 0, 1)
TICK = 16
"""Operations of a tick of the counter."""


def counts(board: Board) -> list[tuple[int, int]]:
    """X0 of each PE, and what the PE has executed."""
    return [(pe.cpu.engine.x(0), pe.cpu.executed) for pe in board.pes]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("piece", [7, 1000, TURN - 1, TURN + 1])
def test_no_operation_is_lost_or_counted_twice_at_the_end_of_a_turn(
    runner: type[Runner], piece: int
) -> None:
    board = board_at(LOOP, PES, runner=runner)
    length = TURN + 100 if runner is ReferenceRunner else 8 * TURN
    for number in range(1, min(length // piece, 400) + 1):
        assert board.run(piece) is Ending.LIMIT
        assert board.executed == number * piece
    for x0, executed in counts(board):
        assert x0 == (executed + 2) // 3


def test_each_pe_that_works_gets_equal_turns() -> None:
    board = board_at(LOOP, PES)
    board.run(2 * PES * TURN)
    assert [executed for _, executed in counts(board)] == [2 * TURN] * PES


def test_time_goes_on_from_turn_to_turn() -> None:
    """Each PE notes the counter at its first operation: the turns before are its time."""
    board = board_at([a64.mrs(5, CNTPCT_EL0), *LOOP], PES)
    board.run(PES * TURN)
    seen = [pe.cpu.engine.x(5) for pe in board.pes]
    assert seen == [number * TURN // TICK for number in range(PES)]


def test_a_machine_whose_pes_all_wait_and_have_no_timer_never_wakes() -> None:
    board = board_at([a64.WFI, a64.b(-4)], PES)
    assert board.run() is Ending.ASLEEP
    assert board.executed == PES


def test_a_machine_whose_pes_are_all_off_never_wakes() -> None:
    board = board_at(psci(CPU_OFF), PES, el=EL1)
    assert board.run() is Ending.ASLEEP


def sleeper(due: int) -> list[int]:
    """PE 0 waits for its timer at tick ``due`` and notes the time; others work."""
    waits = [
        *a64.mov64(2, due),
        a64.msr(CNTP_CVAL_EL0, 2),
        a64.movz(2, 1),
        a64.msr(CNTP_CTL_EL0, 2),
        a64.WFI,
        a64.mrs(5, CNTPCT_EL0),
        a64.b(0),
    ]
    return [a64.mrs(1, MPIDR_EL1), a64.tbnz(1, 0, 4 * len(waits) + 4), *waits, *LOOP]


@pytest.mark.parametrize("due", [100, 5000])
def test_a_timer_ends_the_wait_at_its_time_although_another_pe_works(due: int) -> None:
    board = board_at(sleeper(due), 2)
    enable_timer(board)
    board.run(due * TICK + 3 * TURN)
    assert board.pes[0].interrupts.irq.level
    assert board.pes[0].cpu.engine.x(5) == due


def enable_timer(board: Board) -> None:
    """The GIC as it lets the physical timer of PE 0 through, in Group 1."""
    board.peripherals.gic.reset(nonsecure=True)
    board.peripherals.gic.distributor.write(0, 4, 0b11)
    board.peripherals.gic.redistributors.write(0x1_0100, 4, 1 << 30)
    interface = board.peripherals.gic.cpu_interfaces[0]
    interface.write(icc.ICC_PMR_EL1, 0xFF)
    interface.write(icc.ICC_IGRPEN1_EL3, 0b11)


def test_a_pe_that_was_turned_on_begins_at_once() -> None:
    """PE 0 alone has a long turn; the one after CPU_ON is another's."""
    entry = RAM + 0x800
    board = board_at([*psci(CPU_ON, 1, entry, 0x1234), *LOOP], 2, el=EL1)
    board.memory.fill(entry, a64.code([a64.orr(9, 31, 0), *LOOP]))
    calling = len(psci(CPU_ON, 1, entry, 0x1234))
    board.run(calling + 1)
    assert [pe.cpu.executed for pe in board.pes] == [calling, 1]
    second = board.pes[1].cpu
    assert (second.engine.x(9), second.el, second.pc) == (0x1234, EL1, entry + 4)


def test_code_that_one_pe_patches_is_what_another_executes_after_its_maintenance() -> None:
    """PE 1 calls a function all the time; PE 0 rewrites it."""
    function, flag = RAM + 0x1000, RAM + 0x2000
    patch = [
        *a64.mov64(6, function),
        *a64.mov64(7, a64.movz(3, 2)),
        *a64.mov64(5, 2 * TURN),
        a64.subs_imm(5, 5, 1),
        a64.b_cond(a64.NE, -4),
        a64.str_(7, 6, 0, size=2),
        a64.sys(3, 7, 5, 1, 6),  # IC IVAU
        a64.DSB_SY,
        *a64.mov64(8, flag),
        a64.str_(7, 8),
        a64.b(0),
    ]
    caller = [
        *a64.mov64(6, function),
        *a64.mov64(8, flag),
        a64.ldr(9, 8),
        a64.blr(6),
        a64.cbz(9, -8),
        a64.blr(6),
        a64.orr(10, 31, 3),
        a64.b(0),
    ]
    board = board_at(
        [a64.mrs(1, MPIDR_EL1), a64.tbnz(1, 0, 4 * len(patch) + 4), *patch, *caller], 2
    )
    board.memory.fill(function, a64.code([a64.movz(3, 1), a64.RET]))
    board.run(40 * TURN)
    assert board.pes[1].cpu.engine.x(10) == 2


def test_one_pe_ends_the_run_for_all() -> None:
    off = psci(SYSTEM_OFF)
    board = board_at(off, 2, el=EL1)
    assert (board.run(), board.exit_status) == (Ending.EXIT, 0)
    assert board.executed == len(off)


WFE, SEV = 0xD503_205F, 0xD503_209F
CNTKCTL_EL1 = (3, 0, 14, 1, 0)
SCR_EL3, HCR_EL2 = (3, 6, 1, 1, 0), (3, 4, 1, 1, 0)
FLAG = RAM + 0x2000


def apart(others: list[int], first: list[int]) -> list[int]:
    """Code of the PEs with an odd number, and of those with an even one."""
    return [a64.mrs(1, MPIDR_EL1), a64.tbnz(1, 0, 4 * len(first) + 4), *first, *others]


POLL = [
    *a64.mov64(8, FLAG),
    a64.ldr(9, 8),
    a64.cbnz(9, 12),
    WFE,
    a64.b(-12),
    a64.movz(10, 7),
    *LOOP,
]
"""Wait for a flag, then count on in X0 from 0."""


@pytest.mark.sweep
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_pe_that_waits_in_a_loop_around_a_wfe_leaves_its_turns_to_others(
    runner: type[Runner],
) -> None:
    turns = 12
    untrapped = [*a64.mov64(1, 0x430), a64.msr(SCR_EL3, 1), a64.msr(HCR_EL2, 31)]  # no TWE
    board = board_at([*untrapped, *apart(POLL, LOOP)], 2, runner=runner)
    board.run(turns * TURN)
    works, waits = (pe.cpu.executed for pe in board.pes)
    assert works + waits == turns * TURN
    assert TURN < waits < TURN + 100  # its first turn, in which nobody knew


def test_turns_that_end_at_a_wfe_do_not_depend_on_how_the_run_is_cut() -> None:
    def run(piece: int) -> list[tuple[int, int]]:
        board = board_at(apart(POLL, LOOP), PES)
        while board.executed < 10 * TURN:
            board.run(min(piece, 10 * TURN - board.executed))
        return counts(board)

    assert run(1 << 20) == run(997) == run(TURN + 1)


def test_what_a_wfe_waits_for_is_seen_a_few_turns_later() -> None:
    work = 8 * TURN
    first = [
        *a64.mov64(5, work // 2),
        a64.subs_imm(5, 5, 1),
        a64.b_cond(a64.NE, -4),
        *a64.mov64(8, FLAG),
        a64.str_(8, 8),
        *LOOP,
    ]
    board = board_at(apart(POLL, first), 2)
    board.run(work + TURN)
    assert board.pes[1].cpu.engine.x(10) == 0
    board.run(18 * TURN)
    assert board.pes[1].cpu.engine.x(10) == 7
    assert board.pes[1].cpu.engine.x(0) > 0


def test_an_event_ends_the_wait_at_once() -> None:
    """Both wait in turn: who is seen to wait is seen to send, too."""
    pong = [
        *a64.mov64(8, FLAG),
        a64.ldr(9, 8),
        a64.eor(9, 9, 11),
        a64.tbz(9, 0, 12),
        WFE,
        a64.b(-16),
        a64.add_imm(0, 0, 1),
        a64.ldr(9, 8),
        a64.add_imm(9, 9, 1),
        a64.str_(9, 8),
        SEV,
        a64.b(-40),
    ]
    board = board_at([a64.mrs(1, MPIDR_EL1), a64.orr(11, 31, 1), *pong], 2)
    board.run(2 * TURN + 20_000)
    rounds = [x0 for x0, _ in counts(board)]
    assert min(rounds) > 500


def test_time_goes_on_to_the_timer_of_one_pe_while_another_waits_for_an_event() -> None:
    due = 50_000
    board = board_at(sleeper_beside([WFE, a64.b(-4)], due), 2)
    enable_timer(board)
    board.run(4 * TURN)
    assert board.pes[0].cpu.engine.x(5) == due
    assert board.pes[1].cpu.executed < due * TICK // 4


def sleeper_beside(others: list[int], due: int) -> list[int]:
    waits = sleeper(due)[2 : -len(LOOP)]
    return apart(others, waits)


def test_event_stream_ends_a_wait() -> None:
    """Every 2^8 ticks: bit 7 of the count."""
    code = [
        *a64.mov64(2, 7 << 4 | 1 << 2),
        a64.msr(CNTKCTL_EL1, 2),
        WFE,
        a64.mrs(5, CNTPCT_EL0),
        a64.add_imm(0, 0, 1),
        a64.b(-12),
    ]
    board = board_at(code, 2)
    board.run(2 * TURN)  # then they are known to wait
    before = counts(board)
    start = board.physical_count()
    board.run(400)
    ticks = board.physical_count() - start
    rounds = counts(board)[0][0] - before[0][0]
    assert rounds > 10
    assert ticks // 256 - 2 <= rounds <= ticks // 256 + 2


@pytest.mark.sweep
def test_a_wfe_that_nobody_ends_is_over_by_itself() -> None:
    board = board_at([WFE, a64.add_imm(0, 0, 1), a64.b(-8)], 2)
    board.run(2 * TURN)
    before = counts(board)
    board.run(3000)
    assert all(now - then > 400 for (now, _), (then, _) in zip(counts(board), before, strict=True))


def test_a_turn_that_ends_beside_a_wfe_is_not_taken_for_a_wait() -> None:
    board = board_at([a64.b(8), WFE, *LOOP], 2)
    board.run(20 * TURN)
    assert [executed for _, executed in counts(board)] == [10 * TURN] * 2


@pytest.mark.parametrize(
    ("crm", "op2", "flushes"),
    [
        (3, 0, [1, 1]),  # TLBI VMALLE1IS: of both PEs
        (7, 0, [1, 0]),  # VMALLE1: of its own
        (3, 2, [1, 1]),  # ASIDE1IS
        (3, 1, [0, 0]),  # VAE1IS: of an address, which the model looks up
    ],
)
def test_modelled_tlbs_are_emptied_by_what_is_broadcast(
    crm: int, op2: int, flushes: list[int]
) -> None:
    board = board_at(apart(LOOP, [a64.sys(0, 8, crm, op2), *LOOP]), 2)
    before = [int(pe.cpu.state.flushes) for pe in board.pes]
    board.run(3 * TURN)
    after = [int(pe.cpu.state.flushes) for pe in board.pes]
    assert [now - then for now, then in zip(after, before, strict=True)] == flushes


UART, UART_INTID = 0x0900_0000, 33
TX, IMSC = 1 << 5, 0x38
LATER = 3 * TURN
PRINT_THEN_WORK = [
    a64.mrs(1, MPIDR_EL1),
    a64.tbnz(1, 0, 40),
    a64.movz(5, TURN),
    *(a64.subs_imm(5, 5, 1), a64.b_cond(a64.NE, -4)),  # PE 1 sleeps by then
    a64.movz(3, UART >> 16, 16),
    a64.movz(4, ord("x")),
    a64.str_(4, 3, size=2),  # which interrupts PE 1 with the same operation
    *LOOP[:2],
    a64.b(-8),
    a64.WFI,
    *LOOP,
]


def transmitting(**options: object) -> Board:
    """Where PE 1 waits for the UART's interrupt, as it has transmitted."""
    board = board_at(PRINT_THEN_WORK, 2, **options)
    gic = board.peripherals.gic
    gic.reset(nonsecure=True)
    gic.distributor.write(0, 4, 0b11)
    gic.distributor.write(0x100 + 4, 4, 1 << UART_INTID - 32)
    gic.distributor.write(0x6000 + 8 * UART_INTID, 8, 1)
    for interface in gic.cpu_interfaces:
        interface.write(icc.ICC_PMR_EL1, 0xFF)
        interface.write(icc.ICC_IGRPEN1_EL3, 0b11)
    board.peripherals.uart.write(IMSC, 4, TX)
    return board


@pytest.mark.sweep
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_run_up_to_output_ends_the_turn_that_the_same_operation_ends(
    runner: type[Runner],
) -> None:
    plain = transmitting(runner=runner)
    plain.run(LATER)
    said: list[bytes] = []

    def write(data: bytes) -> None:
        said.append(data)
        cut.reached()

    cut = transmitting(runner=runner, console=ConsoleEnds(write))
    assert cut.run(LATER) is Ending.UNTIL
    assert said == [b"x"]
    assert cut.run(LATER - cut.executed) is Ending.LIMIT
    assert counts(cut) == counts(plain)
