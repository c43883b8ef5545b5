"""A core with a shadow of synchronous overflows, on the machine; where D13.2.2 allows none."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.counters import (
    ELR,
    HANDLER,
    LOOP,
    MSR_PM,
    REPORT,
    RUNNERS,
    SPSR,
    SYNC,
    SYNCHRONOUS,
    prepared,
    put,
    x,
)
from tests.support.small_boards import RAM, board_at

SHADOW = 3
WORST = load_core(f"max,pmu_shadow={SHADOW}")
"""With the highest threshold: one event overflows."""
EARLIER = load_core("max,pmu_shadow=BR_RETIRED:3,pmu_threshold=BR_RETIRED:0xfffffffffffffff0")
ISB = 0xD503_3FDF


def ran(code: list[int], runner: type[Runner], core: Core = WORST) -> Board:
    board = board_at(code, el=1, runner=runner, core=core)
    board.memory.fill(HANDLER, a.code(REPORT))
    board.run(600)
    return board


def branches(code: list[int], runner: type[Runner], core: Core = WORST) -> int:
    """Which branch of the loop behind ``code`` makes the exception pending, from 1 on."""
    code = [*code, *LOOP]
    branch = RAM + 4 * (len(code) - 1)
    board = ran(code, runner, core)
    assert x(board, 9, 10, 11) == [SYNCHRONOUS, branch - 4, branch]
    return x(board, 4)[0]


@RUNNERS
@pytest.mark.parametrize("distance", [2, 3, 9])
def test_below_the_threshold_later_operations_observe_it(
    runner: type[Runner], distance: int
) -> None:
    code = [*prepared(E.BR_RETIRED | SYNC, -distance), MSR_PM[0]]
    assert branches(code, runner) == distance + SHADOW


@RUNNERS
def test_msr_pm_is_an_a_at_the_threshold(runner: type[Runner]) -> None:
    assert branches([*prepared(E.BR_RETIRED | SYNC, -1), MSR_PM[0]], runner) == 1


@RUNNERS
@pytest.mark.parametrize(("a_", "shadow"), [(ISB, 0), (a.NOP, SHADOW)])
def test_isb_is_an_a_at_the_threshold(runner: type[Runner], a_: int, shadow: int) -> None:
    """The counter comes to its threshold after MSR PM."""
    code = [*prepared(E.BR_RETIRED | SYNC, -2), MSR_PM[0], a.b(4), a_]
    assert branches(code, runner) == 1 + shadow


@RUNNERS
def test_isb_is_an_a_with_the_flag_set(runner: type[Runner]) -> None:
    """The overflow happens in front of the ISB, in its shadow."""
    code = [*prepared(E.BR_RETIRED | SYNC, -2), MSR_PM[0], a.b(4), a.b(4), ISB]
    assert branches(code, runner) == 1


@RUNNERS
def test_an_exception_return_is_an_a(runner: type[Runner]) -> None:
    code = prepared(E.BR_RETIRED | SYNC, -2)
    code += [*a.mov64(0, 0x3C5), a.msr(SPSR, 0), a.adr(0, 12), a.msr(ELR, 0), a.ERET]
    assert branches(code, runner) == 1  # the ERET itself is the first branch


@RUNNERS
@pytest.mark.parametrize(("distance", "found"), [(16, 16), (17, 17 + SHADOW)])
def test_the_threshold_of_an_event_is_the_cores(
    runner: type[Runner], distance: int, found: int
) -> None:
    code = [*prepared(E.BR_RETIRED | SYNC, -distance), MSR_PM[0]]
    assert branches(code, runner, EARLIER) == found


@RUNNERS
def test_what_disables_the_exception_between_a_and_b_brings_the_shadow_back(
    runner: type[Runner],
) -> None:
    code = [*prepared(E.BR_RETIRED | SYNC, -1), MSR_PM[0]]
    code += [*put(r.PMECR_EL1, 0b000), *put(r.PMECR_EL1, 0b111)]
    # while it is disabled the counter overflows at 32 bits, which it is far from
    assert branches(code, runner) == 1 + SHADOW


@RUNNERS
def test_overshoot_by_masking_is_seen_at_once_behind_msr_pm(runner: type[Runner]) -> None:
    code = [*prepared(E.BR_RETIRED | SYNC, -1), a.b(4), a.b(4), MSR_PM[0]]
    assert branches(code, runner) == 1


@RUNNERS
def test_an_event_without_a_shadow_on_a_core_that_has_one(runner: type[Runner]) -> None:
    code = [*prepared(E.SW_INCR | SYNC, -2), *a.mov64(0, 1), MSR_PM[0]]
    code += [a.msr((3, 3, 9, 12, 4), 0)] * 2 + [a.b(0)]  # PMSWINC_EL0
    write = RAM + 4 * (len(code) - 2)
    assert x(ran(code, runner, EARLIER), 9, 10, 11, 13) == [SYNCHRONOUS, write + 4, write, 0]
