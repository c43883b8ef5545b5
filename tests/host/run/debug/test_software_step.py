"""Software step: the engine's own, and that what the host carries out is a step like any other."""

from __future__ import annotations

import struct
from dataclasses import astuple

import pytest

from spe_unicorn.arch.pe import EL1, EL2
from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.memory_map import UART
from spe_unicorn.machine.options import Sampling
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

STEPPED, VECTORS, LOG = RAM + 0x1000, RAM + 0x2000, RAM + 0x20000
MDSCR_EL1, OSLAR_EL1, PMSIRR_EL1 = (2, 0, 0, 2, 2), (2, 0, 1, 0, 4), (3, 0, 9, 9, 3)
KDE_SS, TDE, SS, MASKED = 1 << 13 | 1, 1 << 8, 1 << 21, 0x1C0
FROM_LOWER, FROM_HERE = 0x32, 0x33
SVC = 0x15
IL, ISV, EX = 1 << 25, 1 << 24, 1 << 6
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def step_exception(ec: int, ex: int = 0) -> int:
    return ec << 26 | IL | ISV | ex | 0x22


def stepping_board(
    code: list[int],
    at: int,
    el: int,
    runner: type[Runner],
    sampling: Sampling | None = None,
) -> tuple[Board, int, int]:
    """A board that steps through ``code`` at one EL from another.

    With it come the operations before the first step, and those of the handler of a step.
    """

    def register(name: str) -> type:
        return getattr(system, f"{name}_EL{el}")

    spsr, elr = (astuple(register(name).encoding) for name in ("SPSR", "ELR"))
    start = [
        *put(register("VBAR"), VECTORS),
        *[a.msr(OSLAR_EL1, 31), *a.mov64(0, KDE_SS), a.msr(MDSCR_EL1, 0)],
        *(put(system.MDCR_EL2, TDE | 3 << 12) if el == EL2 else []),
        *put(register("SPSR"), at << 2 | bool(at) | MASKED | SS),
        *put(register("ELR"), STEPPED),
        *a.mov64(19, LOG),
        a.ERET,
    ]
    handler = [
        *[a.mrs(20, elr), a.mrs(21, astuple(register("ESR").encoding)), a.mrs(22, spsr)],
        *[a.str_(20, 19), a.str_(21, 19, 8), a.str_(22, 19, 16), a.add_imm(19, 19, 24)],
        *[a.movz(23, SS >> 16, 16), a.orr(22, 22, 23), a.msr(spsr, 22), a.ERET],
    ]
    board = board_at(start, el=el, runner=runner, sampling=sampling)
    board.memory.fill(STEPPED, a.code([*code, *[a.NOP] * 8, a.b(0)]))
    for offset in (0x200, 0x400):
        board.memory.fill(VECTORS + offset, a.code(handler))
    return board, len(start), len(handler)


def stepped(
    code: list[int],
    at: int,
    el: int,
    runner: type[Runner],
    steps: int,
    sampling: Sampling | None = None,
    pcs: list[int] | None = None,
) -> list[tuple[int, int, int]]:
    """Step through ``code`` at one EL from another: where each step ended, its ESR and SPSR.SS."""
    board, before, handler = stepping_board(code, at, el, runner, sampling)
    if pcs is not None:
        board.unit.recorded.connect(lambda _, operation: pcs.append(operation.pc))
    assert board.run(before + steps * (handler + 1)) is Ending.LIMIT
    log = board.memory.read(LOG, 24 * steps)
    assert log is not None
    return [
        (place - STEPPED, esr, spsr >> 21 & 1)
        for place, esr, spsr in struct.iter_unpack("<3Q", log)
    ]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param([a.add_imm(1, 1, 1), a.b(8), a.NOP, a.svc(5)], id="engine"),
        pytest.param([*a.mov64(6, UART.base), a.ldr(7, 6, 0x18, 2), a.udf(0)], id="host"),
    ],
)
@pytest.mark.parametrize(("at", "el"), [(0, EL1), (EL1, EL1), (EL2, EL2)])
def test_wherever_a_run_ends_both_runners_are_at_one_place(
    code: list[int], at: int, el: int
) -> None:
    """Some ends come while a step is pending."""
    boards = [stepping_board(code, at, el, runner) for runner in (Runner, ReferenceRunner)]
    places = []
    for board, before, handler in boards:
        assert board.run(before) is Ending.LIMIT
        seen = []
        for _ in range(3 * (handler + 1)):
            assert board.run(1) is Ending.LIMIT
            seen.append((board.executed, board.cpu.pc, board.cpu.pstate, board.cpu.engine.x(21)))
        places.append(seen)
    assert places[0] == places[1]
    assert sum(STEPPED <= pc < VECTORS for _, pc, _, _ in places[0]) >= 3


@RUNNERS
@pytest.mark.parametrize(("at", "el"), [(0, EL1), (EL1, EL1), (0, EL2), (EL1, EL2), (EL2, EL2)])
def test_each_operation_is_a_step(at: int, el: int, runner: type[Runner]) -> None:
    code = [a.add_imm(1, 1, 1), a.b(8), a.NOP, a.add_imm(2, 2, 1)]
    ec = FROM_HERE if at == el else FROM_LOWER
    assert stepped(code, at, el, runner, 3) == [
        (0x4, step_exception(ec), 0),
        (0xC, step_exception(ec), 0),
        (0x10, step_exception(ec), 0),
    ]


@RUNNERS
def test_what_the_host_carries_out_is_a_step(runner: type[Runner]) -> None:
    code = [
        *[*a.mov64(6, UART.base), a.ldr(7, 6, 0x18, 2), a.add_imm(2, 2, 1)],
        *[a.ldr(7, 6, 0x18, 2), a.str_(7, 6, 0, 2), a.ldr(7, 6, 0x18, 2)],
        *[a.msr(PMSIRR_EL1, 31), a.mrs(3, PMSIRR_EL1), a.add_imm(3, 3, 1)],
    ]
    found = stepped(code, EL1, EL1, runner, len(code))
    assert found == [(4 * n + 4, step_exception(FROM_HERE), 0) for n in range(len(code))]


@RUNNERS
def test_a_call_ends_its_step_without_a_step_exception(runner: type[Runner]) -> None:
    found = stepped([a.svc(5), a.NOP], EL1, EL1, runner, 2)
    assert found == [(0x4, SVC << 26 | IL | 5, 0), (0x8, step_exception(FROM_HERE), 0)]


@RUNNERS
def test_an_operation_that_faults_is_still_to_be_stepped(runner: type[Runner]) -> None:
    ((place, esr, step),) = stepped([a.udf(0)], EL1, EL1, runner, 1)
    assert (place, esr >> 26, step) == (0, 0, 1)


@RUNNERS
def test_a_load_exclusive_says_so(runner: type[Runner]) -> None:
    code = [*a.mov64(6, RAM + 0x8000), a.ldxr(5, 6), a.NOP]
    found = stepped(code, EL1, EL1, runner, len(code))
    exceptions = [esr for _, esr, _ in found]
    assert exceptions == [
        *[step_exception(FROM_HERE)] * (len(code) - 2),
        step_exception(FROM_HERE, EX),
        step_exception(FROM_HERE),
    ]


@RUNNERS
def test_an_operation_of_the_hosts_is_a_step_and_can_be_behind_one(runner: type[Runner]) -> None:
    """FP that traps: the step exception in front of it comes first, and the trap ends no step."""
    code = [a.add_imm(1, 1, 1), a.fadd(0, 0, 0), a.NOP]
    fp = 0x07 << 26 | IL | 1 << 24 | 0xE << 20
    found = stepped([a.msr((3, 0, 1, 0, 2), 31), *code], EL1, EL1, runner, 3)
    assert found == [
        (0x4, step_exception(FROM_HERE), 0),
        (0x8, step_exception(FROM_HERE), 0),
        (0x8, fp, 1),
    ]


@RUNNERS
@pytest.mark.parametrize("word", [a.daifclr(8), a.msr((3, 3, 4, 2, 1), 31)])
def test_a_step_is_pending_once_it_is_unmasked(word: int, runner: type[Runner]) -> None:
    """PSTATE.SS is 0 since nothing returned with it, so nothing has been stepped: ISV is 0."""
    start = [
        *put(system.VBAR_EL1, VECTORS),
        *[a.msr(OSLAR_EL1, 31), a.daifset(8), *a.mov64(0, KDE_SS), a.msr(MDSCR_EL1, 0)],
        *[a.NOP, a.NOP, word, a.movz(1, 1), a.b(0)],
    ]
    board = board_at(start, el=EL1, runner=runner)
    board.memory.fill(VECTORS + 0x200, a.code([a.mrs(20, (3, 0, 5, 2, 0)), a.b(0)]))
    assert board.run(len(start)) is Ending.LIMIT
    assert board.cpu.engine.x(20) == FROM_HERE << 26 | IL | 0x22
    assert board.cpu.engine.x(1) == 0


@RUNNERS
def test_masked_again_nothing_is_stepped(runner: type[Runner]) -> None:
    code = [a.add_imm(1, 1, 1), a.daifset(8), a.NOP, a.NOP, a.daifclr(8), a.NOP]
    found = stepped(code, EL1, EL1, runner, 3)
    assert [place for place, _, _ in found] == [0x4, 0x14, 0x18]


@RUNNERS
@pytest.mark.parametrize(("step", "first"), [(0, (FROM_HERE - 1, 0)), (SS, (0x0E, 1))])
def test_a_return_to_an_illegal_state_steps_all_the_same(
    step: int, first: tuple[int, int], runner: type[Runner]
) -> None:
    """SPSR_EL1.IL: with SS a step is to come, which the Illegal State exception takes; else it is
    pending, and goes first."""
    start = [
        *put(system.VBAR_EL1, VECTORS),
        *[a.msr(OSLAR_EL1, 31), *a.mov64(0, KDE_SS), a.msr(MDSCR_EL1, 0)],
        *put(system.SPSR_EL1, MASKED | 1 << 20 | step),
        *put(system.ELR_EL1, STEPPED),
        a.ERET,
    ]
    board = board_at(start, el=EL1, runner=runner)
    board.memory.fill(STEPPED, a.code([a.NOP, a.b(0)]))
    handler = [a.mrs(20, (3, 0, 5, 2, 0)), a.mrs(21, (3, 0, 4, 0, 0)), a.b(0)]
    board.memory.fill(VECTORS + 0x400, a.code(handler))
    assert board.run(len(start) + 4) is Ending.LIMIT
    ec, ss = first
    assert (board.cpu.engine.x(20) >> 26, board.cpu.engine.x(21) >> 21 & 1) == (ec, ss)
    assert board.cpu.engine.x(21) >> 20 & 1


@RUNNERS
@pytest.mark.parametrize("lock", [(2, 0, 1, 0, 4), (2, 0, 1, 3, 4)])
def test_locks_keep_steps_away(lock: tuple[int, ...], runner: type[Runner]) -> None:
    start = [
        *put(system.VBAR_EL1, VECTORS),
        *[a.msr(OSLAR_EL1, 31), *a.mov64(0, KDE_SS), a.movz(1, 1), a.msr(lock, 1), a.ISB],
        *[a.msr(MDSCR_EL1, 0), a.daifclr(8), a.ISB, a.add_imm(2, 2, 1), a.add_imm(2, 2, 1)],
        *[a.msr(lock, 31), a.ISB, a.add_imm(2, 2, 1), a.b(0)],
    ]
    board = board_at(start, el=EL1, runner=runner, core=load_core("minimal"))
    board.memory.fill(VECTORS + 0x200, a.code([a.mrs(20, (3, 0, 5, 2, 0)), a.b(0)]))
    assert board.run(len(start) + 2) is Ending.LIMIT
    assert board.cpu.engine.x(2) == 2
    assert board.cpu.engine.x(20) == FROM_HERE << 26 | IL | 0x22


def test_each_operation_is_in_the_population_once() -> None:
    """A step exception is no operation: what was stepped is one, and what handles it is."""
    code = [*[*a.mov64(6, UART.base), a.ldr(7, 6, 0x18, 2)], a.msr((3, 0, 13, 0, 4), 31), a.b(0)]
    records = []
    for runner in (Runner, ReferenceRunner):
        pcs: list[int] = []
        sampling = Sampling(1, jitter=False)
        stepped(code, EL1, EL1, runner, len(code) + 3, sampling, pcs)
        records.append([pc - STEPPED for pc in pcs if 0 <= pc - STEPPED < 0x100])
    assert records[0] == records[1]
    assert records[0] == [4 * n for n in (*range(len(code)), *[len(code) - 1] * 3)]
