"""Turns that compiled code takes are those that Python and the reference runner take."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import SHORT_TURN, TURN
from tests.host.native.registers.gic_boards import (
    IRM,
    NE,
    SGI1R,
    board_of,
    sgi,
    x,
)
from tests.machine.turns.relays import (
    CNTPCT_EL0,
    CORES,
    VIRTUAL_TIMER,
    WAKE_1,
    Taken,
    alarm,
    alike,
    differ,
    everything,
    forever,
    takes_interrupts,
    with_timers,
    woken,
    works,
)
from tests.support import a64

CONTEXTIDR_EL1, TTBR0_EL1 = (3, 0, 13, 0, 1), (3, 0, 2, 0, 0)
HVC = 0xD400_0002


def ping_pong(number: int, pes: int) -> list[int]:
    """Sleep until an interrupt comes, then wake the next PE. PE 0 sends the first."""
    send = [*a64.mov64(0, sgi(5, 1 << (number + 1) % pes)), a64.msr(SGI1R, 0)]
    words = takes_interrupts(number)[:-1]
    if number == 0:
        words += send
    loop = [
        a64.WFI,
        a64.daifclr(2),
        a64.NOP,
        a64.daifset(2),
        *send,
        a64.mrs(10, CNTPCT_EL0),
        a64.add(11, 11, 10),
    ]
    return [*words, *loop, a64.b(-4 * len(loop))]


@pytest.mark.accelerated
@pytest.mark.parametrize(
    ("pes", "core"), [(2, "generic"), (3, "generic"), (2, "neoverse-v2"), (2, "max")]
)
def test_interrupts_go_round_in_compiled_code(
    pes: int, core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Taken(monkeypatch)
    programs = [ping_pong(number, pes) for number in range(pes)]
    board = board_of(programs, core=core)
    board.run(20_000)
    assert taken.operations > 19_000
    taken.allowed = False
    other = board_of(programs, core=core)
    other.run(20_000)
    differ(board, other)
    assert x(board, 21) != [0]


CLOCK = [a64.mrs(10, CNTPCT_EL0), a64.add(11, 11, 10)]
KINDS = ["sw", "sswwo", "sswwopfc", "ssswwwsswwoopce", "ssswwwoooopptfedcah"]
"""What programs do, by letters of :func:`piece_of_work`."""


def piece_of_work(rng: random.Random, kinds: str, pes: int) -> list[int]:
    """Some operations: most send, sleep or work; some are for Python."""
    kind = rng.choice(kinds)
    if kind == "s":
        targets = rng.choice([1 << rng.randrange(pes), rng.randrange(1 << pes), IRM])
        words = [*a64.mov64(0, sgi(rng.randrange(16), 0) | targets), a64.msr(SGI1R, 0)]
        return [*words, *rng.choice([[], [a64.WFI], [a64.NOP, a64.WFI]])]
    if kind == "w":
        return [a64.WFI]
    if kind == "o":
        loop = [a64.add_imm(12, 12, 1), a64.subs_imm(13, 13, 1), a64.b_cond(NE, -8)]
        rounds = rng.choice([1, 1, 10, 10, 10, 100, 100, 1000, TURN // 3])
        return [*a64.mov64(13, rounds), *loop]
    if kind == "p":  # poll until the flag is as long as the rounds that are left
        return [a64.ldr(14, 8), a64.add_imm(14, 14, 1), a64.str_(14, 8)]
    if kind == "t":
        return alarm(rng.choice([1, 5, 100, 2000]))
    if kind == "f":
        return rng.choice([[a64.daifset(2), a64.WFI, a64.daifclr(2)], [a64.daifset(2)]])
    if kind == "e":
        return rng.choice(
            [[a64.WFE], [a64.SEV], [a64.SEV, a64.WFE], [a64.ldr(14, 8), a64.SEV, a64.str_(14, 8)]]
        )
    if kind == "d":
        return rng.choice([[a64.sys(0, 8, 3, 0, 31)], [a64.sys(0, 7, 1, 0, 31)]])
    if kind == "c":
        return CLOCK
    if kind == "a":
        return [a64.daifclr(2), a64.msr(CONTEXTIDR_EL1, 12)]
    return [a64.movz(0, 0), HVC]  # no call that firmware knows


def random_program(rng: random.Random, number: int, pes: int) -> list[int]:
    body: list[int] = []
    kinds = rng.choice(KINDS)
    for _ in range(rng.randint(3, 25)):
        body += piece_of_work(rng, kinds, pes)
    return [
        *takes_interrupts(number),
        *alarm(rng.choice([50, 300])),
        *body,
        a64.daifclr(2),
        a64.b(-4 * (len(body) + 1)),
    ]


def random_board(seed: int, runner: type[Runner] = Runner) -> Board:
    rng = random.Random(seed)
    pes = rng.choice([2, 2, 2, 3, 4])
    programs = [random_program(rng, number, pes) for number in range(pes)]
    board = board_of(programs, runner, CORES[seed % len(CORES)])
    with_timers(board)
    if pes > 2 and rng.random() < 0.5:
        board.pes[rng.randrange(1, pes)].s.on = False
    return board


@pytest.mark.accelerated
@pytest.mark.parametrize("ticks", [120, 250, 777])
def test_a_timer_goes_off_at_its_time_between_turns(
    ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PE 0 never sleeps. While its timer runs, it wakes PE 1 again and again."""
    wakes = [*WAKE_1, *works(5), *CLOCK]
    first = [*takes_interrupts(0), *alarm(ticks), *forever(wakes)]
    second = [*takes_interrupts(1), *alarm(2 * ticks), *forever([a64.WFI, *works(30), *CLOCK])]
    board = alike([first, second], [20_000] + [700] * 30, monkeypatch)
    assert min(x(board, 21) + x(board, 21, pe=1)) >= VIRTUAL_TIMER


@pytest.mark.accelerated
def test_turns_of_a_pe_that_is_alone_get_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = woken(forever([*WAKE_1, *works(2 * TURN), *WAKE_1]))
    alike(programs, [10_000] * 30, monkeypatch)


@pytest.mark.accelerated
def test_maintenance_of_a_turn_reaches_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    maintains = [a64.sys(0, 8, 3, 0, 31), *WAKE_1, *works(5)]
    board = alike(woken(forever(maintains)), [3 * TURN] + [100] * 30, monkeypatch)
    assert board.pes[1].cpu.state.flushes > 100


@pytest.mark.accelerated
def test_an_interrupt_for_a_pe_that_is_off_ends_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    off = [*a64.mov64(0, sgi(5, 0b100)), a64.msr(SGI1R, 0)]
    programs = woken([*works(20), *off, *works(20), *forever([*WAKE_1, *works(5)])])
    alike([*programs, [a64.NOP]], [2 * TURN] + [50] * 300, monkeypatch, off={2})


@pytest.mark.accelerated
def test_a_pe_that_has_polled_has_a_short_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """PE 0 polls until PE 2 stores, and wakes PE 1. Its next turn is short, but its work is not."""
    polls = [a64.ldr(14, 8), a64.cbz(14, -4)]
    work = [*works(SHORT_TURN), *WAKE_1]
    rounds, body = a64.mov64(12, 100), [*WAKE_1, *works(5), a64.subs_imm(12, 12, 1)]
    many = [*rounds, *body, a64.b_cond(NE, -4 * len(body))]
    first = [*takes_interrupts(0), *many, *polls, *WAKE_1, *forever(work)]
    second = [*takes_interrupts(1), *forever([a64.WFI, *works(10)])]
    third = [*takes_interrupts(2), *works(60 * TURN), a64.str_(8, 8), *forever(works(50))]
    alike([first, second, third], [110 * TURN, *[TURN] * 16, *[50] * 600], monkeypatch)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(24))
def test_random_turns_are_the_same_in_compiled_code(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Taken(monkeypatch)
    boards = [random_board(seed), random_board(seed)]
    for piece in (1, 7, 100, 999, 5000, 3, 20_000):
        endings = []
        for board, taken.allowed in zip(boards, (True, False), strict=True):
            endings.append(board.run(piece))
        assert endings[0] is endings[1]
        differ(*boards)


@pytest.mark.sweep
@pytest.mark.accelerated
@pytest.mark.parametrize("seed", range(100, 106))
def test_random_turns_are_those_of_the_reference_runner(seed: int) -> None:
    boards = [random_board(seed), random_board(seed, ReferenceRunner)]
    for piece in (50, 500, 6000):
        for board in boards:
            board.run(piece)
        assert everything(boards[0])[::2] == everything(boards[1])[::2]


@pytest.mark.accelerated
def test_the_random_programs_have_many_turns_in_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whole ones, and ones with which Python goes on."""
    taken = Taken(monkeypatch)
    for seed in range(5):
        random_board(seed).run(30_000)
    assert taken.whole > 100
    assert taken.midway > 100
