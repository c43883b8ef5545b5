"""The GIC's CPU interface in compiled code: what software sees, and that Python says the same."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.host.engine import surviving
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.native.registers.gic_accesses import PMR, asks
from tests.host.native.registers.gic_boards import (
    CODE,
    EOIR1,
    IAR1,
    IRM,
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

RPR, HPPIR1, DIR = (3, 0, 12, 11, 3), (3, 0, 12, 12, 2), (3, 0, 12, 11, 1)
SPURIOUS, IDLE = 1023, 0xFF


@pytest.mark.accelerated
def test_an_sgi_to_itself_is_acknowledged_runs_and_ends(monkeypatch):
    """IHI 0069: the most urgent first; what is active masks what is not more urgent."""
    program = [
        *a64.mov64(0, sgi(5, 1)),
        *a64.mov64(1, sgi(3, 1)),
        a64.msr(SGI1R, 0),
        a64.msr(SGI1R, 1),
        a64.mrs(2, IAR1),  # INTID 5 is more urgent
        a64.mrs(3, IAR1),  # INTID 3 does not preempt it
        a64.msr(EOIR1, 2),
        a64.mrs(4, IAR1),
        a64.msr(EOIR1, 4),
        a64.mrs(5, IAR1),
    ]
    board = board_of([program], priority5=0x40, priority3=0x60)
    asked = asks(monkeypatch)
    board.run(40)
    assert x(board, 2, 3, 4, 5) == [5, SPURIOUS, 3, SPURIOUS]
    assert asked == []


@pytest.mark.accelerated
def test_the_mask_hides_what_is_not_more_urgent(monkeypatch):
    program = [
        *a64.mov64(0, sgi(5, 1)),
        *a64.mov64(1, 0x40),
        *a64.mov64(2, 0x4F),
        a64.msr(SGI1R, 0),
        a64.msr(PMR, 1),
        a64.mrs(3, IAR1),
        a64.msr(PMR, 2),  # five bits of it are there: 0x48
        a64.mrs(4, PMR),
        a64.mrs(5, IAR1),
    ]
    board = board_of([program], priority5=0x40)
    asked = asks(monkeypatch)
    board.run(40)
    assert x(board, 3, 4, 5) == [SPURIOUS, 0x48, 5]
    assert asked == []


def test_with_eoimode_the_end_drops_the_priority_alone():
    program = [
        *a64.mov64(0, sgi(5, 1)),
        a64.msr(SGI1R, 0),
        a64.mrs(1, IAR1),
        a64.mrs(2, RPR),
        a64.msr(EOIR1, 1),
        a64.mrs(3, RPR),
        a64.msr(SGI1R, 0),
        a64.mrs(4, IAR1),  # it is still active
        a64.msr(DIR, 1),
        a64.mrs(5, IAR1),
    ]
    board = board_of([program], eoimode=1)
    board.run(40)
    assert x(board, 1, 2, 3, 4, 5) == [5, 0x80, IDLE, SPURIOUS, 5]


def test_group_0_is_not_acknowledged_as_group_1():
    program = [*a64.mov64(0, sgi(5, 1)), a64.msr(SGI1R, 0), a64.mrs(1, IAR1)]
    board = board_of([program], groups=0xFFFF & ~(1 << 5))
    board.run(20)
    assert x(board, 1) == [SPURIOUS]  # nor sent: it is in another group than was asked for


@pytest.mark.accelerated
@pytest.mark.parametrize(
    ("value", "takers"), [(sgi(7, 0b0110), {1, 2}), (sgi(7, 0) | IRM, {1, 2, 3}), (sgi(7, 1), {0})]
)
def test_an_sgi_goes_to_a_list_or_to_all_others(value, takers, monkeypatch):
    sender = [*a64.mov64(0, value), a64.msr(SGI1R, 0), a64.mrs(5, IAR1)]
    receiver = [*[a64.NOP] * 8, a64.mrs(5, IAR1)]
    board = board_of([sender, receiver, receiver, receiver])
    asked = asks(monkeypatch)
    board.run(200_000)
    assert {n for n in range(4) if x(board, 5, pe=n) == [7]} == takers
    assert asked == []


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_an_interrupt_of_another_pe_ends_its_wait_and_the_turn(runner):
    """PE 1 sleeps; the SGI is the last operation of PE 0's turn, and PE 1 takes it at once."""
    rounds = 8500  # so many that PE 0 has a second turn
    loop = [*a64.mov64(8, rounds), a64.subs_imm(8, 8, 1), a64.b_cond(NE, -4)]
    sender = [*loop, *a64.mov64(0, sgi(7, 0b10)), a64.msr(SGI1R, 0), *[a64.NOP] * 50]
    before = len(loop) - 2 + 2 * rounds + len(a64.mov64(0, sgi(7, 0b10)))
    receiver = [
        *a64.mov64(9, RAM + CODE + CODE // 2),
        a64.msr(VBAR_EL1, 9),
        a64.daifclr(2),
        a64.WFI,
    ]
    board = board_of([sender, receiver], runner)
    board.run(before + len(receiver) - 20)
    assert board.pes[1].s.asleep
    while x(board, 21, pe=1) != [7]:
        board.run(1)
    assert board.pes[1].cpu.executed == len(receiver) + 2
    assert board.pes[0].cpu.executed == before + 1


@pytest.mark.accelerated
@pytest.mark.parametrize("survives", [True, False])
def test_compiled_code_takes_the_irqs_of_a_run(survives, monkeypatch):
    """On hosts, too, on which a failed assertion of the engine ends the process."""
    if not survives:
        monkeypatch.setattr(surviving, "_survival", lambda start: None)
    rounds = 400
    program = [
        *a64.mov64(9, RAM + CODE // 2),
        a64.msr(VBAR_EL1, 9),
        a64.daifclr(2),
        *a64.mov64(0, sgi(5, 1)),
        *a64.mov64(8, rounds),
        a64.msr(SGI1R, 0),
        a64.subs_imm(8, 8, 1),
        a64.b_cond(NE, -8),
    ]
    boards = [board_of([program], runner) for runner in (Runner, ReferenceRunner)]
    asked: list[Board] = []
    take = Interrupts.take
    for board in boards:
        interrupts = board.pes[0].interrupts
        monkeypatch.setattr(
            interrupts, "take", lambda i=interrupts, b=board: asked.append(b) or take(i)
        )
        board.run(len(program) + rounds * 7)
    assert x(boards[0], 21) == [5 * rounds]
    assert looks(boards[0]) == looks(boards[1])
    assert asked.count(boards[0]) < rounds / 50
    assert asked.count(boards[1]) >= rounds


def random_program(rng: random.Random, number: int) -> list[int]:
    """Accesses in any order, also those that no software makes, with interrupts on and off."""
    words = [*a64.mov64(9, RAM + number * CODE + CODE // 2), a64.msr(VBAR_EL1, 9)]
    for _ in range(rng.randint(20, 120)):
        kind = rng.choice("sssaaaeeepmirdnw")
        if kind == "s":
            targets = rng.choice([rng.randrange(16), IRM])
            words += [*a64.mov64(0, sgi(rng.randrange(16), 0) | targets), a64.msr(SGI1R, 0)]
        elif kind == "a":
            words += [a64.mrs(1, IAR1), a64.add(2, 2, 1), a64.mul(2, 2, 1)]
        elif kind == "e":
            value = rng.choice([None, rng.randrange(16), SPURIOUS, 40, 1 << 24 | 3])
            words += [*([] if value is None else a64.mov64(1, value)), a64.msr(EOIR1, 1)]
        elif kind == "p":
            words += [*a64.mov64(3, rng.randrange(256)), a64.msr(PMR, 3)]
        elif kind == "m":
            words += [a64.mrs(4, PMR), a64.add(2, 2, 4)]
        elif kind == "i":
            words.append(rng.choice([a64.daifclr, a64.daifset])(3))
        elif kind == "r":
            words += [a64.mrs(5, rng.choice([RPR, HPPIR1])), a64.add(2, 2, 5)]
        elif kind == "d":
            words.append(a64.msr(DIR, 1))
        elif kind == "n":
            words += [a64.NOP] * rng.randint(1, 30)
        else:
            words += [*a64.mov64(3, 0xF0), a64.msr(PMR, 3), a64.daifclr(3), a64.YIELD]
    return words


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(24))
def test_compiled_code_and_python_do_the_same(seed):
    rng = random.Random(seed)
    pes = rng.randint(1, 4)
    programs = [random_program(rng, number) for number in range(pes)]
    options = {
        "groups": rng.choice([0xFFFF, rng.getrandbits(16)]),
        "eoimode": rng.randrange(2),
        **{f"priority{n}": rng.randrange(0, 0x100, 8) for n in range(16)},
    }
    boards = [board_of(programs, runner, **options) for runner in (Runner, ReferenceRunner)]
    for piece in (50, 500, pes * 1000):
        for board in boards:
            board.run(piece)
        assert looks(boards[0]) == looks(boards[1])


def test_what_is_watched_is_answered_by_python(monkeypatch):
    """Whoever listens to accesses, or to what is acknowledged, hears of all of them."""
    program = [*a64.mov64(0, sgi(5, 1)), a64.msr(SGI1R, 0), a64.mrs(1, IAR1), a64.msr(EOIR1, 1)]
    board = board_of([program])
    heard: list[tuple[int, int]] = []
    board.peripherals.gic.routing.activated.connect(lambda pe, intid: heard.append((pe, intid)))
    asked = asks(monkeypatch)
    board.run(20)
    assert heard == [(0, 5)]
    assert asked == ["ICC_SGI1R_EL1", "ICC_IAR1_EL1", "ICC_EOIR1_EL1"]
