"""PEs that wait in a WFE, or in a loop that polls, while compiled code takes turns of others."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import TURN
from spe_unicorn.machine.turns.relay import Passed, Relay
from tests.host.native.registers.gic_boards import NE, SGI1R, board_of, sgi, x
from tests.machine.turns.relays import (
    FLAG,
    Taken,
    alarm,
    alike,
    differ,
    everything,
    takes_interrupts,
    with_timers,
)
from tests.support import a64

SEVL = 0xD503_20BF
POLLS = [a64.ldr(14, 8), a64.cbz(14, -4)]
"""Until the flag at X8 is set."""
AWAITS = [SEVL, a64.WFE, a64.ldxr(14, 8), a64.cbz(14, -8)]
"""The same by a load-exclusive and a WFE."""
AFTER = [a64.add_imm(11, 11, 1), a64.b(-4)]


def work(operations: int) -> list[int]:
    loop = [a64.add_imm(12, 12, 1), a64.subs_imm(13, 13, 1), a64.b_cond(NE, -8)]
    return [*a64.mov64(13, operations // 3), *loop]


def stores(value: int = 1) -> list[int]:
    return [a64.movz(14, value), a64.str_(14, 8)]


class Waited(Taken):
    """Counts, too, the times at which compiled code took several turns while some PE waited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.times = 0
        taken = Relay._take

        def counted(relay: Relay, *arguments: object) -> Passed:
            waited = any(pe.s.dozing for pe in relay._pes)
            passed = taken(relay, *arguments)
            self.times += waited and passed.turns > 1
            return passed

        monkeypatch.setattr(Relay, "_take", counted)


@pytest.mark.accelerated
@pytest.mark.parametrize("waits", [POLLS, AWAITS])
def test_a_pe_waits_for_a_store_while_another_works(
    waits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on soon after the store, and has executed next to nothing before."""
    waited = Waited(monkeypatch)
    first = [*takes_interrupts(0), *waits, *AFTER]
    second = [*takes_interrupts(1), *work(40 * TURN), *stores(), *AFTER]
    board = alike([first, second], [5 * TURN, 30 * TURN, 7, 20 * TURN], monkeypatch)
    assert waited.times >= 1
    assert x(board, 14) == [1]
    assert x(board, 11)[0] > 0
    assert board.pes[0].cpu.executed < 12 * TURN


@pytest.mark.accelerated
@pytest.mark.parametrize("waits", [POLLS, AWAITS])
@pytest.mark.parametrize(
    "event",
    [
        [a64.SEV],
        [*a64.mov64(0, sgi(5, 1)), a64.msr(SGI1R, 0)],
        [a64.sys(0, 8, 3, 0, 31)],
        [a64.sys(0, 7, 1, 0, 31)],
        [a64.movz(15, 9), a64.str_(15, 8, 8)],
    ],
)
def test_what_else_happens_to_a_pe_that_waits(
    waits: list[int], event: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event, an interrupt, maintenance, a store beside what it waits for."""
    first = [*takes_interrupts(0), *waits, *AFTER]
    second = [*takes_interrupts(1), *work(20 * TURN), *event, *work(9 * TURN), *stores(), *AFTER]
    alike([first, second], [4 * TURN, 11 * TURN, 3 * TURN, 9 * TURN, 20 * TURN], monkeypatch)


@pytest.mark.accelerated
def test_a_timer_ends_the_wait_of_a_pe(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [*takes_interrupts(0), *alarm(300), *POLLS, *AFTER]
    second = [*takes_interrupts(1), *work(60 * TURN), *stores(), *AFTER]
    alike([first, second], [5 * TURN, 50 * TURN, 9 * TURN], monkeypatch)


@pytest.mark.accelerated
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_memory_of_each_size_ends_a_wait(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most significant byte is what changes."""
    waits = [a64.ldr(14, 8, 0, size), a64.cbz(14, -4)]
    last = (1 << size) - 1
    storing = [a64.movz(15, 0x80), a64.str_(15, 8, last, 0)]
    first = [*takes_interrupts(0), *waits, *AFTER]
    second = [*takes_interrupts(1), *work(9 * TURN), *storing, *AFTER]
    board = alike([first, second], [5 * TURN, 12 * TURN], monkeypatch)
    assert x(board, 14) == [0x80 << 8 * last]


@pytest.mark.accelerated
def test_more_than_compiled_code_looks_at_is_python_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loads in the loop: either may change."""
    waits = [a64.ldr(14, 8), a64.ldr(15, 8, 8), a64.orr(16, 14, 15), a64.cbz(16, -12)]
    storing = [a64.movz(15, 7), a64.str_(15, 8, 8)]
    first = [*takes_interrupts(0), *waits, *AFTER]
    second = [*takes_interrupts(1), *work(9 * TURN), *storing, *AFTER]
    board = alike([first, second], [5 * TURN, 12 * TURN], monkeypatch)
    assert x(board, 15) == [7]


@pytest.mark.accelerated
def test_all_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waited(monkeypatch)
    waiting = [[*takes_interrupts(n), *(POLLS if n % 2 else AWAITS), *AFTER] for n in range(3)]
    last = [*takes_interrupts(3), *work(60 * TURN), *stores(), a64.SEV, *AFTER]
    board = alike([*waiting, last], [20 * TURN, 45 * TURN, 9 * TURN], monkeypatch)
    assert waited.times > 1
    assert [x(board, 14, pe=n) for n in range(3)] == [[1]] * 3


@pytest.mark.accelerated
def test_turns_of_a_pe_that_is_alone_double_in_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other PE sleeps. A turn that is longer than a slice is Python's to finish."""
    taken = Taken(monkeypatch)
    programs = [[*takes_interrupts(0), a64.WFI, *AFTER], [*takes_interrupts(1), *AFTER]]
    board = with_timers(board_of(programs))
    assert board._schedule is not None
    lengths = []
    for _ in range(6):
        board.run(1 << 18)
        lengths.append(board._schedule.s.length)
    assert lengths == sorted(lengths)
    assert lengths[-1] > 8 * TURN
    assert taken.operations > 4 * TURN
    other = with_timers(board_of(programs))
    taken.allowed = False
    for _ in range(6):
        other.run(1 << 18)
    differ(board, other)


def piece(rng: random.Random, pes: int) -> list[int]:
    """Some operations: most wait, store or work."""
    kind = rng.choice("ppaaassseewwwwwitmx")
    flag = [*a64.mov64(8, FLAG + 64 * rng.randrange(3))]
    if kind in "pa":
        return [*flag, *(POLLS if kind == "p" else AWAITS)]
    if kind == "s":
        return [*flag, *stores(rng.randrange(2)), *rng.choice([[], [a64.SEV]])]
    if kind == "e":
        return rng.choice([[a64.SEV], [SEVL, a64.WFE], [a64.WFE]])
    if kind == "w":
        return work(rng.choice([30, 300, 3000, TURN, 3 * TURN]))
    if kind == "i":
        return [*a64.mov64(0, sgi(5, rng.randrange(1, 1 << pes))), a64.msr(SGI1R, 0)]
    if kind == "t":
        return alarm(rng.choice([5, 100, 2000]))
    if kind == "m":
        return rng.choice([[a64.sys(0, 8, 3, 0, 31)], [a64.sys(0, 7, 1, 0, 31)]])
    return [*flag, *rng.choice([[a64.WFI], [a64.ldxr(14, 8), a64.WFE]])]


def waiting_board(seed: int, runner: type[Runner] = Runner) -> Board:
    rng = random.Random(seed)
    pes = rng.choice([2, 2, 3, 4])
    programs = []
    for number in range(pes):
        body = [word for _ in range(rng.randint(2, 12)) for word in piece(rng, pes)]
        back = a64.b(-4 * (len(body) + 1))
        programs.append([*takes_interrupts(number), *alarm(300), *body, a64.daifclr(2), back])
    return with_timers(board_of(programs, runner))


def compare(seed: int, monkeypatch: pytest.MonkeyPatch) -> Waited:
    waited = Waited(monkeypatch)
    boards = [waiting_board(seed), waiting_board(seed)]
    for operations in (1, 5000, 5 * TURN, 3, 15 * TURN):
        endings = []
        for board, waited.allowed in zip(boards, (True, False), strict=True):
            endings.append(board.run(operations))
        assert endings[0] is endings[1]
        differ(*boards)
    return waited


@pytest.mark.accelerated
def test_random_waits_are_the_same_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(compare(seed, monkeypatch).times for seed in range(4)) > 4


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 124))
def test_more_random_waits_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(seed, monkeypatch)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(200, 206))
def test_random_waits_are_those_of_the_reference_runner(seed: int) -> None:
    boards = [waiting_board(seed), waiting_board(seed, ReferenceRunner)]
    for operations in (50, 5000, TURN):
        for board in boards:
            board.run(operations)
        assert everything(boards[0])[::2] == everything(boards[1])[::2]
