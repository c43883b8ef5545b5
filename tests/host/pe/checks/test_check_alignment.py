"""Alignment checked everywhere: Device memory, RAM without translation, SP."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.options import Sampling
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

TABLE, VECTORS, DATA = RAM + 0x8000, RAM + 0x2000, RAM + 0xA000
VALID, AF, NORMAL = 1, 1 << 10, 1 << 2
GIB = 1 << 30
DEVICE = RAM + GIB
"""Where RAM is mapped once more, as Device memory."""
SCTLR, SA = 0x30C5_0830, 1 << 3
LOAD_FAULT, STORE_FAULT, SP_FAULT = 0x9600_0021, 0x9600_0061, 0x9A00_0000
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
MMU_ON = [
    *put(system.MAIR_EL3, 0xFF00),
    *put(system.TCR_EL3, 25 | 1 << 16),
    *put(system.TTBR0_EL3, TABLE),
    *put(system.SCTLR_EL3, SCTLR & ~SA | 0b101),
]


def machine(code: list[int], runner: type[Runner], checks: bool = True, **options: object) -> Board:
    """At EL3; its vector counts in X20 and skips the operation, X21 is the last syndrome."""
    begin = [*put(system.VBAR_EL3, VECTORS), *put(system.SCTLR_EL3, SCTLR & ~SA)]
    elr = (3, 6, 4, 0, 1)
    handler = [
        a.add_imm(20, 20, 1),
        a.mrs(21, (3, 6, 5, 2, 0)),
        a.mrs(23, (3, 6, 6, 0, 0)),
        a.mrs(22, elr),
        a.add_imm(22, 22, 4),
        a.msr(elr, 22),
        a.ERET,
    ]
    blocks = {1: RAM | VALID | AF | NORMAL, 2: RAM | VALID | AF}
    board = board_at(
        [*begin, *code, a.b(0)], el=EL3, runner=runner, check_alignment=checks, **options
    )
    board.memory.fill(VECTORS + 0x200, a.code(handler))
    board.memory.fill(TABLE, b"".join(blocks.get(n, 0).to_bytes(8, "little") for n in range(512)))
    board.memory.fill(DATA, bytes(range(64)))
    return board


def run(board: Board, operations: int = 300) -> tuple[int, int]:
    """To the branch to itself: how many faults there were, and the last syndrome."""
    assert board.run(operations) is Ending.LIMIT
    assert board.cpu.virtual.code(board.cpu.pc, 1) == (a.b(0),)
    return board.cpu.engine.x(20), board.cpu.engine.x(21)


@RUNNERS
@pytest.mark.parametrize(
    ("words", "faults"),
    [
        ([a.ldr(3, 1)], (1, LOAD_FAULT)),
        ([a.str_(3, 1)], (1, STORE_FAULT)),
        ([a.ldr(3, 1, 0, size=0)], (0, 0)),
        ([a.add_imm(1, 1, 7), a.ldr(3, 1)], (0, 0)),
    ],
)
def test_ram_without_translation_is_device_memory(
    runner: type[ReferenceRunner] | type[Runner], words: list[int], faults: tuple[int, int]
) -> None:
    board = machine([*a.mov64(1, DATA + 1), *words], runner)
    assert run(board) == faults
    if faults[0]:
        assert board.cpu.engine.x(23) == DATA + 1


@RUNNERS
def test_the_mapping_says_what_is_device_memory(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    code = [
        *MMU_ON,
        *a.mov64(1, DATA + 1),
        *a.mov64(2, DATA - RAM + DEVICE + 1),
        a.ldr(3, 1),
        a.ldr(4, 2),  # refused
        a.ldr(5, 1, 8),
        a.str_(3, 2),  # refused
        a.ldr(6, 2, 0, size=0),
    ]
    board = machine(code, runner)
    assert run(board) == (2, STORE_FAULT)
    x = board.cpu.engine.x
    assert (x(3), x(4), x(6)) == (0x0807_0605_0403_0201, 0, 1)
    assert x(5) == 0x100F_0E0D_0C0B_0A09
    assert x(23) == DATA - RAM + DEVICE + 1


@RUNNERS
@pytest.mark.parametrize(("sa", "faults"), [(SA, (1, SP_FAULT)), (0, (0, 0))])
def test_sp_is_checked_where_sa_says_so(
    runner: type[ReferenceRunner] | type[Runner], sa: int, faults: tuple[int, int]
) -> None:
    code = [*MMU_ON, *put(system.SCTLR_EL3, SCTLR & ~SA | 0b101 | sa), *a.mov64(7, DATA + 8)]
    board = machine([*code, a.add_imm(31, 7, 0), a.ldr(3, 31), a.ldr(4, 7)], runner)
    assert run(board) == faults


@RUNNERS
def test_nobody_asks_nothing_is_checked(runner: type[ReferenceRunner] | type[Runner]) -> None:
    board = machine([*a.mov64(1, DATA + 1), a.ldr(3, 1)], runner, checks=False)
    assert run(board) == (0, 0)


def test_both_runners_sample_the_same_operations_beside_faults() -> None:
    loop = [a.ldr(3, 1), a.ldr(4, 2), a.add_imm(5, 5, 1), a.str_(3, 1, 8)] * 20
    code = [*MMU_ON, *a.mov64(1, DATA + 1), *a.mov64(2, DATA - RAM + DEVICE + 1), *loop]

    def records(runner: type[Runner]) -> list[bytes]:
        board = machine(code, runner, sampling=Sampling(3))
        seen: list[bytes] = []
        unit = board.pes[0].unit
        unit.recorded.connect(lambda record, _: seen.append(bytes(record)))
        assert run(board, 400)[0] == 20
        return seen

    fast = records(Runner)
    assert len(fast) > 100
    assert fast == records(ReferenceRunner)
