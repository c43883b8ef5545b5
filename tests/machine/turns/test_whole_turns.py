"""Turns that end because all of their operations have been executed, in compiled code."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.machine.pe import TURN
from spe_unicorn.machine.turns import relay
from spe_unicorn.machine.turns.relay import Passed, Relay
from tests.host.native.registers.gic_boards import board_of, x
from tests.machine.turns.relays import CORES, FLAG, NE, Taken, alike, differ, forever, works
from tests.support import a64
from tests.support.small_boards import RAM

IC_IALLUIS = a64.sys(0, 7, 1, 0)
DC_CVAU, IC_IVAU = a64.sys(3, 7, 11, 1, 8), a64.sys(3, 7, 5, 1, 8)
SHARED = RAM + 0x9_0000
"""Code that PE 1 calls and PE 0 rewrites."""


def at(place: int) -> list[int]:
    return a64.mov64(8, place)


def counts() -> list[int]:
    """A loop of six operations, two of which are memory's."""
    return forever(
        [
            a64.add_imm(1, 1, 3),
            a64.str_(1, 8),
            a64.ldr(2, 8),
            a64.add(3, 3, 2),
            a64.add_imm(4, 4, 1),
        ]
    )


@pytest.mark.accelerated
@pytest.mark.parametrize("core", CORES)
def test_pes_that_work_change_turns_in_compiled_code(
    core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turns are of 16,384 operations, and no block of six ends with one."""
    programs = [[*at(FLAG + 64 * n), *[a64.NOP] * n, *counts()] for n in range(3)]
    board = alike(programs, [90 * TURN], monkeypatch, core=core, least=80 * TURN + 1)
    for n in range(3):  # 30 turns each; the fifth operation of a round of six adds to X4
        before = len(at(FLAG)) + n
        assert x(board, 4, pe=n) == [(30 * TURN - before + 1) // 6]


@pytest.mark.accelerated
@pytest.mark.parametrize("core", CORES)
def test_guests_whose_wfis_trap_change_turns_there_as_well(
    core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine ends a run in the midst of a block by a WFI of its own, which is trapped, too."""
    programs = [[*at(FLAG + 64 * n), *[a64.NOP] * n, *counts()] for n in range(2)]
    pieces = [90 * TURN, *[TURN // 3] * 5]
    board = alike(programs, pieces, monkeypatch, core=core, least=80 * TURN, hcr=1 << 31 | 1 << 13)
    assert all(pe.cpu.entries.last_exception is None for pe in board.pes)


@pytest.mark.accelerated
@pytest.mark.parametrize("rounds", [TURN, TURN - 7, TURN // 3, 5 * TURN // 2])
def test_an_event_that_was_sent_in_a_turn_is_heard(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PE 1 takes one at each of its WFEs, and waits where there is none."""
    sends = [*at(FLAG), *works(3 * TURN), a64.str_(8, 8), *forever([a64.SEV, *works(rounds)])]
    waits = [*at(FLAG), a64.WFE, a64.ldr(14, 8), a64.cbz(14, -8)]
    hears = [*waits, *forever([*works(5 * TURN), a64.WFE, *[a64.NOP] * 64])]
    board = alike([sends, hears], [100 * TURN, *[TURN // 2] * 60], monkeypatch, least=40 * TURN)
    assert board.pes[1].s.hears


@pytest.mark.accelerated
def test_of_turns_that_take_long_fewer_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So Ctrl-C and the time limit are looked at, however slow the operations of a guest are."""
    pace, seconds = 1.0, iter(range(1 << 20))
    monkeypatch.setattr(relay.time, "monotonic", lambda: next(seconds) * pace)
    most: list[int] = []
    take = Relay._take

    def noted(self: Relay, *arguments: object) -> Passed:
        passed = take(self, *arguments)
        assert passed.turns <= (most or [64])[-1]
        most.append(self._most)
        return passed

    monkeypatch.setattr(Relay, "_take", noted)
    board = board_of([[*at(FLAG + 64 * n), *counts()] for n in range(2)])
    board.run(200 * TURN)
    assert most[:8] == [32, 16, 8, 4, 2, 1, 1, 1]
    most.clear()
    pace = 0.01
    board.run(400 * TURN)
    assert most[:8] == [2, 4, 8, 16, 32, 64, 64, 64]


def wait_loop(rng: random.Random) -> list[int]:
    """Some operations and a branch back to one of them: loops that count, store, or only look."""
    choices = [
        a64.ldr(14, 8),
        a64.ldr(14, 8),
        a64.subs_imm(31, 14, 1),
        a64.subs_imm(31, 14, 1),
        a64.NOP,
        a64.add_imm(12, 12, 1),
        a64.add_imm(14, 14, 1),
        a64.add_imm(15, 14, 1),
        a64.add(15, 15, 14),
        a64.movz(12, 5),
        a64.str_(14, 8),
        a64.b_cond(a64.EQ, 8),
        a64.cbz(14, 8),
    ]
    words = [rng.choice(choices) for _ in range(rng.choice([0, 1, 2, 3, 5, 14, 15, 16]))]
    back = -4 * rng.randint(0, len(words))
    return [*words, rng.choice([a64.b(back), a64.b_cond(NE, back), a64.cbz(31, back)])]


@pytest.mark.sweep
@pytest.mark.accelerated
@pytest.mark.parametrize("seed", range(60))
def test_whoever_may_wait_is_looked_at(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """PEs that poll, or have a WFE near, end their turns as Python has it."""
    rng = random.Random(seed)
    programs = []
    for n in range(2):
        loops = [word for _ in range(rng.randint(1, 3)) for word in wait_loop(rng)]
        near = [a64.WFE] if rng.random() < 0.2 else []
        words = [*at(FLAG), *works(rng.choice([5, TURN])), *near, *loops, a64.str_(12, 8)]
        programs.append([*words, *forever(works(rng.choice([20, 7000])) if n else counts())])
    alike(programs, [TURN, 11 * TURN, 5, 3000, 9 * TURN], monkeypatch, least=0)


@pytest.mark.accelerated
def test_a_pe_that_polls_is_found_at_the_end_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    polls = [*at(FLAG), *works(5 * TURN), a64.ldr(14, 8), a64.cbz(14, -4), *forever([a64.NOP])]
    programs = [[*at(FLAG + 64), *counts()], polls]
    board = alike(programs, [30 * TURN], monkeypatch, least=15 * TURN)
    assert board.pes[1].s.polls
    assert not board.pes[0].s.polls


@pytest.mark.accelerated
@pytest.mark.parametrize("maintenance", [IC_IALLUIS, IC_IVAU])
def test_code_that_another_pe_rewrites_is_executed_from_the_next_turn_on(
    maintenance: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = a64.code([a64.add_imm(20, 20, 1)])
    tells = [DC_CVAU, maintenance]
    rewrites = [
        *at(SHARED),
        *works(3 * TURN),
        *tells,  # from here on it is known what code memory holds
        *works(3 * TURN),
        *a64.mov64(9, int.from_bytes(new, "little")),
        a64.str_(9, 8, size=2),
        *tells,
        *forever([a64.add_imm(1, 1, 1), a64.add(3, 3, 1)]),
    ]
    calls = [*at(SHARED), *forever([a64.blr(8), a64.add_imm(5, 5, 1), *works(50)])]
    taken = Taken(monkeypatch)
    boards = [board_of([rewrites, calls]) for _ in range(2)]
    for board, taken.allowed in zip(boards, (True, False), strict=True):
        board.memory.fill(SHARED, a64.code([a64.NOP, a64.RET]))
        for _ in range(8):
            board.run(10 * TURN)
    differ(*boards)
    assert taken.operations > 40 * TURN
    assert x(boards[0], 20, pe=1) != [0]
    assert x(boards[0], 20, pe=1) < x(boards[0], 5, pe=1)
