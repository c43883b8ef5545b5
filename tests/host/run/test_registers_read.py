"""Registers that samples move, read while samples wait: PMBPTR_EL1, PMBSR_EL1 and PMSICR_EL1.

A guest reads them in a loop that is sampled, and stores what it reads. The reference runner has all
records in memory by then; compiled code works out where they will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.pe.access.system_access import SystemAccesses
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64
from tests.support.small_boards import RAM, board_at

PMSCR, PMSICR, PMSIRR, PMSFCR = ((3, 0, 9, 9, op2) for op2 in (0, 2, 3, 4))
PMSLATFR = (3, 0, 9, 9, 6)
PMBLIMITR, PMBPTR, PMBSR = ((3, 0, 9, 10, op2) for op2 in (0, 1, 3))
E1SPE, PA, TS = 1 << 1, 1 << 4, 1 << 5
ENABLED = 1
RND = 1
FT, LOADS, FL = 1 << 1, 1 << 17, 1 << 2
NE = 1
BUFFER, SEEN, DATA = RAM + 0x4_0000, RAM + 0x2_0000, RAM + 0x1_0000
SIZE = 0x2_0000
ROUNDS = 60
LONGEST = 400
"""Operations of a round, and some more."""
FULL = 1 << 17 | 0b000001
"""PMBSR_EL1.S, and BSC: the buffer is full."""


def profiled(
    *,
    size: int = SIZE,
    pmsirr: int = 0x100,
    pmsfcr: int = 0,
    pmslatfr: int = 0,
    reads: tuple[tuple[int, ...], ...] = (PMBPTR, PMBSR, PMSICR),
    work: Sequence[int] = (),
) -> list[int]:
    """A loop of loads, stores, a division and branches, or of ``work``.

    Each round stores the registers at X20.
    """
    setup = []
    for register, value in (
        (PMBPTR, BUFFER),
        (PMBLIMITR, BUFFER + size | ENABLED),
        (PMBSR, 0),
        (PMSFCR, pmsfcr),
        (PMSLATFR, pmslatfr),
        (PMSIRR, pmsirr),
        (PMSICR, 0),
        (PMSCR, E1SPE | PA | TS),
    ):
        setup += [*a64.mov64(0, value), a64.msr(register, 0)]
    setup += [*a64.mov64(20, SEEN), *a64.mov64(21, DATA), *a64.mov64(22, ROUNDS)]
    inner = [
        a64.ldr(3, 21, 8),
        a64.add_imm(3, 3, 5),
        a64.str_(3, 21, 8),
        a64.udiv(4, 3, 22),
        a64.subs_imm(23, 23, 1),
    ]
    body = [*a64.mov64(23, 61), *inner, a64.b_cond(NE, -4 * len(inner))]
    if work:
        body = [*work]
    for n, register in enumerate(reads):
        body += [a64.mrs(5 + n, register)]
    for n in range(len(reads)):
        body += [a64.str_(5 + n, 20, 8 * n)]
    body += [a64.add_imm(20, 20, 8 * len(reads)), a64.subs_imm(22, 22, 1)]
    return [*setup, *body, a64.b_cond(NE, -4 * len(body)), a64.b(0)]


def ran(runner: type[Runner], program: list[int], **options: Any) -> Board:
    board = board_at(program, 1, EL1, runner, **options)
    board.run(60 + ROUNDS * LONGEST)
    return board


def seen(board: Board, registers: int = 3) -> list[int]:
    data = board.memory.read(SEEN, 8 * registers * ROUNDS)
    return [int.from_bytes(data[n : n + 8], "little") for n in range(0, len(data), 8)]


CASES = {
    "each 257": {},
    "each 1025": {"pmsirr": 0x400},
    "at random": {"pmsirr": 0x200 | RND},
    "loads alone": {"pmsfcr": FT | LOADS},
    "slow ones": {"pmsfcr": FL, "pmslatfr": 4},
    "full": {"size": 0x1000},
    "all slots": {"pmsirr": 0xFFFF00},
}


RUNS = [("generic", case) for case in CASES]
RUNS += [("neoverse-v2", "each 257"), ("neoverse-v2", "loads alone"), ("max", "at random")]


@pytest.mark.sweep
@pytest.mark.parametrize(("core", "name"), RUNS)
def test_the_guest_reads_what_it_reads_step_by_step(core: str, name: str) -> None:
    case = CASES[name]
    fast, plain = (
        ran(runner, profiled(**case), core=load_core(core)) for runner in (Runner, ReferenceRunner)
    )
    assert seen(fast) == seen(plain)
    assert len(set(seen(plain)[::3])) > 1 or case.get("pmsirr") == 0xFFFF00
    assert fast.memory.read(BUFFER, SIZE) == plain.memory.read(BUFFER, SIZE)
    assert vars(fast.unit.statistics) == vars(plain.unit.statistics)
    assert fast.cpu.executed == plain.cpu.executed


def test_the_pointer_moves_by_each_record_and_the_status_says_full() -> None:
    board = ran(Runner, profiled(size=0x1000))
    pointers, statuses = seen(board)[::3], seen(board)[1::3]
    assert pointers == sorted(pointers)
    assert pointers[-1] <= BUFFER + 0x1000
    assert statuses[0] == 0
    assert statuses[-1] == FULL


def test_the_counter_goes_down_by_what_runs_in_between() -> None:
    """As many operations are between any two reads; a load is 0x400, and takes a member."""
    board = ran(Runner, profiled(pmsirr=0x400, reads=(PMSICR,)))
    counts = seen(board, 1)
    lengths = {before - after for before, after in pairwise(counts)}
    round_ = 1 + 61 * 6 + 5
    assert lengths == {round_, round_ - 0x401}


SETUP = 8
"""Accesses before the loop."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SystemAccesses]:
    """An element for each access that Python carries out."""
    found = []
    execute = SystemAccesses.execute

    def counting(self: SystemAccesses) -> bool:
        found.append(self)
        return execute(self)

    monkeypatch.setattr(SystemAccesses, "execute", counting)
    return found


@pytest.mark.accelerated
@pytest.mark.parametrize("register", [PMBPTR, PMBSR, PMSICR], ids=["PMBPTR", "PMBSR", "PMSICR"])
def test_reads_do_not_end_a_batch(register: tuple[int, ...], asked: list[SystemAccesses]) -> None:
    """Once each kind of sample is known, Python answers a read only at an edge of a batch."""
    board = ran(Runner, profiled(pmsirr=0x400, reads=(register,)))
    assert len(set(seen(board, 1))) >= (ROUNDS // 4 if register != PMBSR else 1)
    assert len(asked) < SETUP + ROUNDS // 3


@pytest.mark.accelerated
def test_reads_do_not_wait_for_each_new_kind_of_samples(asked: list[SystemAccesses]) -> None:
    """Nearly each sample is of another instruction. After a few reads all are known ahead."""
    work = [*(a64.add_imm(9, 9, n) for n in range(120)), a64.b(4)]
    program = profiled(pmsirr=0x100, reads=(PMBPTR,), work=work)
    fast = ran(Runner, program)
    few = len(asked) - SETUP
    assert 0 < few < 12
    plain = ran(ReferenceRunner, program)
    assert seen(fast, 1) == seen(plain, 1)
    assert len(set(seen(plain, 1))) > 25


def test_who_hears_of_accesses_hears_of_each_read() -> None:
    board = board_at(profiled(), 1, EL1)
    heard = []
    board.handler.system.accessed.wire(lambda access: heard.append(access.name))
    board.run(60 + 20 * LONGEST)
    assert heard.count("PMBPTR_EL1") > 15
