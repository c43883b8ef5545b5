"""The PMU Profiling exception on the machine: synchronous and not, masked, overshot, restored."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.counters import (
    ASYNCHRONOUS,
    ELR,
    HANDLER,
    LOOP,
    MAX,
    MSR_PM,
    PM,
    PPEND,
    REPORT,
    RUNNERS,
    SPSR,
    SYNC,
    SYNCHRONOUS,
    get,
    prepared,
    put,
    x,
)
from tests.support.small_boards import RAM, board_at


def ran(code: list[int], runner: type[Runner], handler: list[int] | None = None) -> Board:
    board = board_at(code, el=1, runner=runner, core=MAX)
    board.memory.fill(HANDLER, a.code(REPORT if handler is None else handler))
    board.run(600)
    return board


@RUNNERS
@pytest.mark.parametrize("distance", [1, 2, 3, 4, 9])
def test_the_operation_that_overflows_makes_it_pending(runner: type[Runner], distance: int) -> None:
    code = [*prepared(E.BR_RETIRED | SYNC, -distance), MSR_PM[0], *LOOP]
    branch = RAM + 4 * (len(code) - 1)
    board = ran(code, runner)
    assert x(board, 4, 9, 10, 11) == [distance, SYNCHRONOUS, branch - 4, branch]
    spsr, value, overflowed = x(board, 12, 13, 14)
    assert spsr & (PPEND | PM) == PPEND
    assert (value, overflowed & 1) == (0, 1)


@RUNNERS
@pytest.mark.parametrize("overshoot", [0, 1, 2, 5])
def test_what_is_masked_overshoots_and_the_next_event_is_seen(
    runner: type[Runner], overshoot: int
) -> None:
    """After MSR PM, with the overflow flag set, the first branch makes it pending: no shadow."""
    masked = [a.b(4)] * (overshoot + 1)
    code = [*prepared(E.BR_RETIRED | SYNC, -1), *masked, MSR_PM[0], a.NOP, a.NOP, a.b(4), a.b(0)]
    branch = RAM + 4 * (len(code) - 2)
    board = ran(code, runner)
    assert x(board, 9, 10, 11, 13) == [SYNCHRONOUS, branch + 4, branch, overshoot + 1]


@RUNNERS
def test_without_the_interrupt_enable_nothing_is_pending(runner: type[Runner]) -> None:
    code = [*prepared(E.BR_RETIRED | SYNC, -2, noticed=0), MSR_PM[0], *LOOP]
    board = ran(code, runner)
    assert x(board, 9) == [0]
    assert x(board, 4)[0] > 100


@RUNNERS
def test_a_counter_that_is_not_synchronous_raises_it_after_the_overflow(
    runner: type[Runner],
) -> None:
    code = [*prepared(E.BR_RETIRED, -3), MSR_PM[0], *LOOP]
    branch = RAM + 4 * (len(code) - 1)
    board = ran(code, runner)
    assert x(board, 4, 9, 10, 13) == [3, ASYNCHRONOUS, branch - 4, 0]


@RUNNERS
def test_a_synchronous_counter_of_another_event_does_not_count(runner: type[Runner]) -> None:
    code = [*prepared(E.LD_RETIRED | SYNC, 0), get(r.PMEVCNTRS[0], 1), a.ldr_literal(2, 8), a.NOP]
    board = ran([*code, get(r.PMEVCNTRS[0], 1), a.b(0)], runner)
    assert x(board, 1) == [0]


@RUNNERS
def test_a_software_increment_is_seen_by_its_own_write(runner: type[Runner]) -> None:
    code = [*prepared(E.SW_INCR | SYNC, -1), *a.mov64(0, 1), MSR_PM[0], a.NOP]
    code += [a.msr((3, 3, 9, 12, 4), 0), a.b(0)]  # PMSWINC_EL0
    write = RAM + 4 * (len(code) - 2)
    assert x(ran(code, runner), 9, 10, 11, 13) == [SYNCHRONOUS, write + 4, write, 0]


@RUNNERS
def test_an_exception_return_brings_pending_back(runner: type[Runner]) -> None:
    """The handler returns to SPSR_EL1 with PPEND 1 and PM 0: the exception is taken at once."""
    handler = [
        a.cbnz(20, 12),
        *[a.movz(20, 1), a.ERET],
        *REPORT,
    ]
    code = [*prepared(E.BR_RETIRED | SYNC, -2), MSR_PM[0], *LOOP]
    branch = RAM + 4 * (len(code) - 1)
    board = ran(code, runner, handler)
    assert x(board, 20, 4, 9, 10, 11) == [1, 2, SYNCHRONOUS, branch - 4, branch]


@RUNNERS
def test_overflow_is_an_interrupt_where_pmee_says_so(runner: type[Runner]) -> None:
    code = [*prepared(E.BR_RETIRED | SYNC, (1 << 32) - 2), *put(r.PMECR_EL1, 0), MSR_PM[0], *LOOP]
    board = ran(code, runner)
    assert x(board, 9) == [0]
    assert board.pes[0].counting.monitors.interrupt


@RUNNERS
def test_a_call_that_overflows_makes_nothing_pending(runner: type[Runner]) -> None:
    """It retires, but with an exception. The write of the counter is the first of the four."""
    handler = [a.mrs(12, SPSR), get(r.PMOVSSET_EL0, 14), a.b(0)]
    code = [*prepared(E.INST_RETIRED | SYNC, -4), a.NOP, MSR_PM[0], a.svc(0), a.NOP, a.b(0)]
    spsr, overflowed = x(ran(code, runner, handler), 12, 14)
    assert (spsr & PPEND, overflowed & 1) == (0, 1)


@RUNNERS
def test_pending_comes_back_while_no_counter_is_enabled(runner: type[Runner]) -> None:
    """The exception is taken once, from a PE on which nothing counts."""
    handler = [a.add_imm(20, 20, 1), *put(r.PMIAR_EL1, 0x1234), *REPORT]
    code = [*prepared(E.INST_RETIRED | SYNC, 0), *put(r.PMCNTENCLR_EL0, (1 << 33) - 1)]
    code += [
        *a.mov64(0, PPEND | 0x3C5),
        a.msr(SPSR, 0),
        a.adr(0, 12),
        a.msr(ELR, 0),
        a.ERET,
        a.b(0),
    ]
    board = ran(code, runner, handler)
    assert x(board, 20, 9, 10, 11) == [1, SYNCHRONOUS, RAM + 4 * (len(code) - 1), 0x1234]


@RUNNERS
@pytest.mark.parametrize("sync", [0, SYNC])
def test_a_wfi_is_ended_by_its_own_overflow(runner: type[Runner], sync: int) -> None:
    code = [*prepared(E.INST_RETIRED | sync, -4), a.NOP, MSR_PM[0], a.WFI, a.NOP, a.b(0)]
    board = ran(code, runner)
    esr = SYNCHRONOUS if sync else ASYNCHRONOUS
    assert x(board, 9, 10) == [esr, RAM + 4 * (len(code) - 2)]
