"""Turns that compiled code takes are those that Python and the reference runner take."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import asdict

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import SHORT_TURN, TURN
from spe_unicorn.machine.turns.relay import Passed, Relay
from tests.host.native.registers.gic_boards import (
    CODE,
    EOIR1,
    IAR1,
    IRM,
    IRQ,
    NE,
    SGI1R,
    VBAR_EL1,
    board_of,
    looks,
    sgi,
    x,
)
from tests.support import a64
from tests.support.small_boards import RAM

CNTPCT_EL0 = (3, 3, 14, 0, 1)
CNTV_TVAL_EL0, CNTV_CTL_EL0 = (3, 3, 14, 3, 0), (3, 3, 14, 3, 1)
CONTEXTIDR_EL1, TTBR0_EL1 = (3, 0, 13, 0, 1), (3, 0, 2, 0, 0)
WFE, SEV = 0xD503_205F, 0xD503_209F
HVC = 0xD400_0002
VIRTUAL_TIMER = 27
FLAG = RAM + 0x8_0000
REDISTRIBUTOR_ENABLE, FRAMES = 0x1_0100, 0x2_0000


def takes_interrupts(number: int) -> list[int]:
    return [
        *a64.mov64(9, RAM + number * CODE + CODE // 2),
        a64.msr(VBAR_EL1, 9),
        *a64.mov64(8, FLAG),
        a64.daifclr(2),
    ]


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


class Taken:
    """Counts what compiled code takes: operations in whole turns, turns that it only begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations = self.midway = self.whole = 0
        self.allowed = True
        take = Relay.take

        def counted(relay: Relay, *arguments: object) -> Passed:
            if not self.allowed:
                return Passed()
            relay._passes = 0  # whether it is worth it or not
            passed = take(relay, *arguments)
            self.operations += passed.operations
            self.whole += passed.operations > 0
            self.midway += passed.midway is not None
            return passed

        monkeypatch.setattr(Relay, "take", counted)


def everything(board: Board) -> list[object]:
    """All that the PEs, the GIC and the schedule hold."""
    schedule = board._schedule
    assert schedule is not None
    pes = [
        (
            *(asdict(pe.s), int(pe.cpu.state.skipped), pe.due, pe.deadline),
            pe.cpu.events.save(),
            *(int(getattr(pe.cpu.state, name)) for name in ("epoch", "flushes", "maintenance")),
        )
        for pe in board.pes
    ]
    return [asdict(schedule.s), pes, looks(board)]


def differ(board: Board, other: Board) -> None:
    """Fail where two boards are not alike."""
    for ours, theirs in zip(everything(board), everything(other), strict=True):
        assert ours == theirs


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
        return rng.choice([[WFE], [SEV], [SEV, WFE], [a64.ldr(14, 8), SEV, a64.str_(14, 8)]])
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


def alarm(ticks: int) -> list[int]:
    """Have the virtual timer go off after a number of ticks."""
    on = [a64.movz(15, ticks), a64.msr(CNTV_TVAL_EL0, 15), a64.movz(15, 1)]
    return [*on, a64.msr(CNTV_CTL_EL0, 15)]


def with_timers(board: Board) -> Board:
    """A board whose PEs take the interrupts of their virtual timers, and set them anew."""
    is_timer = [a64.subs_imm(31, 20, VIRTUAL_TIMER), a64.b_cond(NE, 12)]
    again = [*is_timer, a64.movz(15, 400), a64.msr(CNTV_TVAL_EL0, 15)]
    for number in range(len(board.pes)):
        frame = number * FRAMES
        redistributors = board.peripherals.gic.redistributors
        redistributors.write(frame + REDISTRIBUTOR_ENABLE, 4, 0xFFFF | 1 << VIRTUAL_TIMER)
        redistributors.write(frame + 0x1_0080, 4, 0xFFFF_FFFF)
        redistributors.write(frame + 0x1_0400 + VIRTUAL_TIMER, 1, 0x80)
        handler = [a64.mrs(20, IAR1), a64.add(21, 21, 20), *again, a64.msr(EOIR1, 20)]
        place = RAM + number * CODE + CODE // 2 + IRQ
        board.memory.fill(place, a64.code([*handler, a64.ERET]))
    return board


CORES = ("generic", "neoverse-v2", "max")
"""Members are operations; micro-operations; operations that tell the branch before them."""


def random_board(seed: int, runner: type[Runner] = Runner) -> Board:
    rng = random.Random(seed)
    pes = rng.choice([2, 2, 2, 3, 4])
    programs = [random_program(rng, number, pes) for number in range(pes)]
    board = board_of(programs, runner, CORES[seed % len(CORES)])
    with_timers(board)
    if pes > 2 and rng.random() < 0.5:
        board.pes[rng.randrange(1, pes)].s.on = False
    return board


def alike(
    programs: list[list[int]],
    pieces: list[int],
    monkeypatch: pytest.MonkeyPatch,
    off: Collection[int] = (),
) -> Board:
    """Run these programs with and without turns in compiled code. Fail where they are not alike.

    The PEs in ``off`` are off.
    """
    taken = Taken(monkeypatch)
    boards = [with_timers(board_of(programs)) for _ in range(2)]
    for board in boards:
        for number in off:
            board.pes[number].s.on = False
    for piece in pieces:
        for board, taken.allowed in zip(boards, (True, False), strict=True):
            board.run(piece)
        differ(*boards)
    assert taken.whole
    return boards[0]


def works(rounds: int) -> list[int]:
    return [*a64.mov64(13, rounds), a64.subs_imm(13, 13, 1), a64.b_cond(NE, -4)]


def forever(body: list[int]) -> list[int]:
    return [*body, a64.b(-4 * len(body))]


WAKE_1 = [*a64.mov64(0, sgi(5, 0b10)), a64.msr(SGI1R, 0)]


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


def woken(first: list[int]) -> list[list[int]]:
    """PE 0 wakes PE 1 so often that compiled code has taken turns, and then does ``first``."""
    rounds = a64.mov64(12, 200)
    body = [*WAKE_1, *works(5), a64.subs_imm(12, 12, 1)]
    many = [*works(TURN), *rounds, *body, a64.b_cond(NE, -4 * len(body))]  # PE 1 sleeps by then
    second = [*takes_interrupts(1), *forever([a64.WFI, a64.NOP])]
    return [[*takes_interrupts(0), *many, *first], second]


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
