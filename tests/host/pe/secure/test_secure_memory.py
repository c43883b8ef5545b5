"""What each Security state reaches of Secure memory, by both runners and while sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.memory_map import SECURE_RAM, UART
from spe_unicorn.machine.options import Sampling
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

SECURE = SECURE_RAM.base
ALIAS = 1 << 32
"""Where Secure memory is mapped as Non-secure."""
TABLE, VECTORS, LOWER, DATA = RAM + 0x8000, RAM + 0x2000, RAM + 0x1000, 0x5EC
NS, HCE, RW, RES1 = 1 << 0, 1 << 8, 1 << 10, 3 << 4
VALID, AF, XN, BLOCK_NS = 1, 1 << 10, 1 << 54, 1 << 5
EL1H = 0x3C5
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
EXTERNAL_LOAD, EXTERNAL_STORE = 0x10, 0x50
UART_FLAGS, TX_EMPTY, RX_EMPTY = 0x18, 1 << 7, 1 << 4
"""Offset of the PL011's UARTFR, and two of its bits."""


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def tables() -> bytes:
    """1 GiB blocks: devices and Secure memory, RAM, and at 4 GiB the former as Non-secure."""
    blocks = {0: VALID | AF | XN, 1: RAM | VALID | AF, ALIAS >> 30: VALID | AF | XN | BLOCK_NS}
    return b"".join(blocks.get(n, 0).to_bytes(8, "little") for n in range(512))


MMU_ON = [
    *put(system.MAIR_EL3, 0),
    *put(system.TCR_EL3, 25 | 1 << 16),
    *put(system.TTBR0_EL3, TABLE),
    *put(system.SCTLR_EL3, 0x30C5_0831),
]


def secure_board(
    code: list[int], runner: type[Runner], lower: list[int] | None = None, **options: object
) -> Board:
    """EL3 code; its vector counts exceptions in X20 and goes on after the operation."""
    handler = [
        a.add_imm(20, 20, 1),
        a.mrs(21, astuple(system.ESR_EL3.encoding)),
        a.mrs(22, astuple(system.ELR_EL3.encoding)),
        a.add_imm(22, 22, 4),
        a.msr(astuple(system.ELR_EL3.encoding), 22),
        a.ERET,
    ]
    begin = [*put(system.VBAR_EL3, VECTORS), *put(system.SCR_EL3, NS | HCE | RW | RES1 | 1 << 3)]
    board = board_at([*begin, *code, a.b(0)], runner=runner, secure=True, **options)
    for vector in (0x200, 0x400):
        board.memory.fill(VECTORS + vector, a.code(handler))
    board.memory.fill(LOWER, a.code([*(lower or []), a.b(0)]))
    board.memory.fill(TABLE, tables())
    board.memory.fill(SECURE, DATA.to_bytes(8, "little"))
    return board


def run(board: Board) -> None:
    """To the branch to itself at the end."""
    for _ in range(1000):
        assert board.run(1) is Ending.LIMIT
        if board.cpu.virtual.code(board.cpu.pc, 1) == (a.b(0),):
            return
    raise AssertionError("it does not end")


def run_at_once(board: Board) -> None:
    assert board.run(400) is Ending.LIMIT
    assert board.cpu.virtual.code(board.cpu.pc, 1) == (a.b(0),)


def caught(board: Board) -> tuple[int, int]:
    """How many exceptions, and the last one's fault status with WnR."""
    x = board.cpu.engine.x
    return x(20), x(21) & 0x7F


def drop(to: int = LOWER) -> list[int]:
    below = [*put(system.SCTLR_EL1, 0x30D0_0800), *put(system.HCR_EL2, 1 << 31)]
    return [*below, *put(system.SPSR_EL3, EL1H), *put(system.ELR_EL3, to), a.ERET]


LOAD = [*a.mov64(1, SECURE), *a.mov64(2, 7), a.ldr(2, 1)]


@RUNNERS
@pytest.mark.parametrize("go", [run, run_at_once])
def test_non_secure_state_is_refused_however_often_it_tries(
    runner: type[ReferenceRunner] | type[Runner], go: Callable[..., Any]
) -> None:
    lower = [*LOAD, a.ldr(2, 1), a.str_(2, 1), a.ldr(2, 1)]
    board = secure_board([*LOAD, a.add_imm(9, 2, 0), *drop()], runner, lower)
    go(board)
    assert board.cpu.engine.x(9) == DATA
    assert board.cpu.engine.x(2) == 7
    assert caught(board) == (4, EXTERNAL_LOAD)
    assert board.memory.read(SECURE, 8) == DATA.to_bytes(8, "little")


@RUNNERS
@pytest.mark.parametrize("go", [run, run_at_once])
def test_secure_state_is_refused_what_it_maps_as_non_secure(
    runner: type[ReferenceRunner] | type[Runner], go: Callable[..., Any]
) -> None:
    code = [
        *MMU_ON,
        *a.mov64(1, SECURE),
        *a.mov64(5, SECURE + ALIAS),
        *a.mov64(6, 7),
        a.ldr(2, 1),
        a.ldr(6, 5),  # refused
        a.str_(6, 1),
        a.ldr(3, 1),
        a.str_(2, 5),  # refused
        a.ldr(6, 5),  # refused
        a.ldr(4, 1),
    ]
    board = secure_board(code, runner)
    go(board)
    x = board.cpu.engine.x
    assert (x(2), x(3), x(4), x(6)) == (DATA, 7, 7, 7)
    assert caught(board) == (3, EXTERNAL_LOAD)


def test_a_device_is_used_within_a_run_while_accesses_are_looked_at(
    engine_runs: list[RunRequest],
) -> None:
    uart = a.ldr(8, 7, UART_FLAGS, 2)
    places = [*a.mov64(1, SECURE), *a.mov64(5, SECURE + ALIAS), *a.mov64(7, UART.base)]
    code = [*MMU_ON, *places, a.ldr(2, 1), *[uart] * 200, a.ldr(6, 5), uart, a.ldr(3, 1)]
    board = secure_board(code, Runner)
    run_at_once(board)
    x = board.cpu.engine.x
    assert (x(2), x(3)) == (DATA, DATA)
    assert x(8) == TX_EMPTY | RX_EMPTY
    assert caught(board) == (1, EXTERNAL_LOAD)
    assert len(engine_runs) < 100


@RUNNERS
def test_store_through_a_non_secure_mapping_says_so(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    board = secure_board([*MMU_ON, *a.mov64(5, SECURE + ALIAS), a.str_(5, 5)], runner)
    run_at_once(board)
    assert caught(board) == (1, EXTERNAL_STORE)


@RUNNERS
def test_mapping_that_is_taken_away_is_looked_for_no_longer(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    code = [
        *MMU_ON,
        *put(system.SCTLR_EL3, 0x30C5_0830),
        *a.mov64(1, SECURE),
        a.str_(1, 1),
        a.ldr(2, 1),
    ]
    board = secure_board(code, runner)
    run_at_once(board)
    assert board.cpu.engine.x(2) == SECURE
    assert caught(board) == (0, 0)


def test_both_runners_sample_the_same_operations_of_such_code() -> None:
    code = [*MMU_ON, *a.mov64(1, SECURE), *a.mov64(5, SECURE + ALIAS)]
    code += [a.ldr(2, 1), a.str_(2, 1), a.ldr(6, 5), a.ldr(3, 1)] * 20

    def records(runner: type[Runner]) -> list[bytes]:
        board = secure_board(code, runner, sampling=Sampling(3))
        seen: list[bytes] = []
        board.pes[0].unit.recorded.connect(lambda record, _: seen.append(bytes(record)))
        run_at_once(board)
        assert caught(board) == (20, EXTERNAL_LOAD)
        return seen

    fast = records(Runner)
    assert len(fast) > 40
    assert fast == records(ReferenceRunner)


@RUNNERS
@pytest.mark.parametrize("returns", [False, True])
def test_code_there_is_executed_by_secure_state_only(
    runner: type[ReferenceRunner] | type[Runner], returns: bool
) -> None:
    function = SECURE + 0x1000
    call = [*a.mov64(11, function), a.blr(11)]
    board = secure_board(
        [*call, a.add_imm(9, 2, 0), *call, *drop(function if returns else LOWER)], runner, call
    )
    board.memory.fill(function, a.code([a.add_imm(2, 2, 1), a.ret()]))
    board.memory.fill(
        VECTORS + 0x400, a.code([a.mrs(21, astuple(system.ESR_EL3.encoding)), a.b(0)])
    )
    run_at_once(board)
    assert (board.cpu.engine.x(9), board.cpu.engine.x(2)) == (1, 2)
    assert board.cpu.engine.x(21) == 0x8600_0010 - (1 << 26)


@RUNNERS
@pytest.mark.parametrize("interval", [1, 2, 3, 7])
def test_non_secure_state_is_refused_while_it_is_sampled(
    runner: type[ReferenceRunner] | type[Runner], interval: int
) -> None:
    lower = [*LOAD, *[a.ldr(2, 1), a.str_(2, 1), a.NOP] * 10]
    board = secure_board([*LOAD, *drop()], runner, lower, sampling=Sampling(interval))
    run_at_once(board)
    assert board.cpu.engine.x(2) == 7
    assert caught(board) == (21, EXTERNAL_STORE)
    assert board.memory.read(SECURE, 8) == DATA.to_bytes(8, "little")


ELR_ON = [a.mrs(22, astuple(system.ELR_EL1.encoding)), a.add_imm(22, 22, 4)]
OWN_VECTORS = RAM + 0x3000


@RUNNERS
def test_a_refusal_that_non_secure_el1_takes_by_itself_is_one_each_time(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    """SCR_EL3.EA is 0, so nothing but EL1 hears of it."""
    handler = [a.add_imm(20, 20, 1), *ELR_ON, a.msr(astuple(system.ELR_EL1.encoding), 22), a.ERET]
    lower = [*put(system.VBAR_EL1, OWN_VECTORS), *LOAD, a.ldr(2, 1), a.str_(2, 1), a.ldr(2, 1)]
    code = [*put(system.SCR_EL3, NS | HCE | RW | RES1), *LOAD, *drop()]
    board = secure_board(code, runner, lower)
    board.memory.fill(OWN_VECTORS + 0x200, a.code(handler))
    run_at_once(board)
    assert board.cpu.engine.x(20) == 4
    assert board.cpu.engine.x(2) == 7


SMC = 0xD400_0003
ROUNDS = 40
BACK = [*put(system.SPSR_EL3, EL1H), a.NOP]


def worlds(
    uses: tuple[bool, bool],
    runner: type[Runner],
    other: bool = True,
    base: int = RAM,
    **options: object,
) -> Board:
    """Non-secure EL1 calls EL3 again and again, which goes to Secure EL1, and back at its call.

    ``uses`` says whether EL3 and Secure EL1 store to Secure memory, a counter each. Non-secure EL1
    tries to, where ``other`` says so, and counts its calls in X10. The code of EL3 and of Secure
    EL1 is behind ``base``.
    """
    non_secure, secure, vectors = RAM + 0x1000, base + 0x1800, base + 0x2000
    counts = [a.ldr(12, 1), a.add_imm(12, 12, 1), a.str_(12, 1)]
    monitor = [
        # X19 is the world that has called, and X17, X18 where the other one goes on
        a.mrs(16, astuple(system.ELR_EL3.encoding)),
        *(counts if uses[0] else []),
        a.msr(astuple(system.ELR_EL3.encoding), 18),
        a.add_imm(18, 16, 0),
        a.mrs(15, astuple(system.SCR_EL3.encoding)),
        a.movz(14, 1),
        a.eor(15, 15, 14),
        a.msr(astuple(system.SCR_EL3.encoding), 15),
        a.ERET,
    ]
    # an External abort goes on after the access
    abort = [
        a.add_imm(20, 20, 1),
        a.mrs(22, astuple(system.ELR_EL3.encoding)),
        a.add_imm(22, 22, 4),
        a.msr(astuple(system.ELR_EL3.encoding), 22),
        a.ERET,
    ]
    is_call = [
        a.mrs(13, astuple(system.ESR_EL3.encoding)),
        a.lsr_imm(13, 13, 26),
        a.subs_imm(13, 13, 0x17),
        a.b_cond(0, 4 * (len(abort) + 1)),
    ]
    body = [*(counts if other else []), a.add_imm(10, 10, 1), SMC, a.subs_imm(11, 11, 1)]
    world = [*body, a.b_cond(1, -4 * len(body)), a.b(0)]
    answers = [*(counts if uses[1] else []), a.add_imm(9, 9, 1), SMC]
    begin = [
        *put(system.VBAR_EL3, vectors),
        *put(system.SCTLR_EL1, 0x30D0_0800),
        *put(system.HCR_EL2, 1 << 31),
    ]
    begin += [*put(system.SCR_EL3, NS | HCE | RW | RES1 | 1 << 3), *a.mov64(1, SECURE)]
    begin += [*a.mov64(11, ROUNDS), *a.mov64(18, secure), *BACK]
    begin += [*put(system.ELR_EL3, non_secure), a.ERET]
    board = board_at([*begin, a.b(0)], runner=runner, **{"secure": True, **options})
    board.memory.fill(vectors + 0x400, a.code([*is_call, *abort, *monitor]))
    board.memory.fill(non_secure, a.code(world))
    board.memory.fill(secure, a.code([*answers, a.b(-4 * len(answers))]))
    return board


@pytest.mark.sweep
@RUNNERS
@pytest.mark.parametrize("base", [RAM, SECURE + 0x1000])
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("uses", [(False, False), (True, False), (False, True), (True, True)])
def test_each_world_reaches_what_it_may_however_often_they_change(
    runner: type[ReferenceRunner] | type[Runner], uses: tuple[bool, bool], other: bool, base: int
) -> None:
    board = worlds(uses, runner, other, base)
    while board.cpu.virtual.code(board.cpu.pc, 1) != (a.b(0),):
        assert board.run(500 if runner is Runner else 5000) is Ending.LIMIT
        assert board.executed < 20_000
    x = board.cpu.engine.x
    assert (x(10), x(9)) == (ROUNDS, ROUNDS)
    assert x(20) == (2 * ROUNDS if other else 0)
    stored = int.from_bytes(board.memory.read(SECURE, 8) or b"", "little")
    assert stored == 2 * ROUNDS * uses[0] + ROUNDS * uses[1]


@RUNNERS
def test_what_somebody_outside_looks_at_is_refused_all_the_same(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    lower = [*LOAD, a.ldr(2, 1), *a.mov64(3, RAM), a.str_(2, 1), a.ldr(2, 1)]
    board = secure_board([*LOAD, *drop()], runner, lower)
    for _ in range(200):
        assert board.run(1) is Ending.LIMIT
        virtual = board.cpu.virtual
        assert virtual.read(SECURE, 8) == DATA.to_bytes(8, "little")
        assert virtual.write(SECURE + 8, bytes(8))
        assert virtual.code(SECURE, 1) == (DATA,)
        assert virtual.translate(SECURE, write=False) == SECURE
    assert board.cpu.engine.x(2) == 7
    assert caught(board) == (4, EXTERNAL_LOAD)


@RUNNERS
def test_a_mapping_that_comes_and_goes_is_looked_for_each_time(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    """The MMU is turned on and off. Where Secure memory is, it has no Non-secure mapping."""
    loop = [
        *put(system.SCTLR_EL3, 0x30C5_0831),
        a.ldr(6, 5),  # refused
        a.str_(8, 1),
        *put(system.SCTLR_EL3, 0x30C5_0830),
        a.ldr(2, 1),
        a.add_imm(8, 8, 1),
        a.subs_imm(19, 19, 1),
    ]
    code = [
        *put(system.MAIR_EL3, 0),
        *put(system.TCR_EL3, 25 | 1 << 16),
        *put(system.TTBR0_EL3, TABLE),
    ]
    code += [*a.mov64(1, SECURE), *a.mov64(5, SECURE + ALIAS), *a.mov64(8, 0)]
    code += [*a.mov64(19, 12), *loop, a.b_cond(1, -4 * len(loop))]
    board = secure_board(code, runner)
    assert board.run(800) is Ending.LIMIT
    assert board.cpu.engine.x(2) == 11
    assert caught(board) == (12, EXTERNAL_LOAD)


@RUNNERS
def test_what_somebody_outside_looks_at_is_refused_in_secure_state_too(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    load = [a.ldr(6, 5), a.NOP]
    code = [*MMU_ON, *a.mov64(5, SECURE + ALIAS), *a.mov64(6, 7), *load * 4]
    board = secure_board(code, runner)
    for _ in range(60):
        assert board.run(1) is Ending.LIMIT
        board.cpu.virtual.read(SECURE + ALIAS, 8)
    assert board.cpu.engine.x(6) == 7
    assert caught(board) == (4, EXTERNAL_LOAD)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("interval", [5, 29, 97])
def test_records_tell_of_the_world_that_executed_the_operation(secure: bool, interval: int) -> None:
    """Samples wait while EL3 goes on to the other world."""
    found = []
    for runner in (Runner, ReferenceRunner):
        options = {"secure": secure, "sampling": Sampling(interval)}
        board = worlds((False, False), runner, False, **options)
        seen: list[bytes] = []
        board.pes[0].unit.streamed.connect(lambda data, seen=seen: seen.append(bytes(data)))
        assert board.run(1200) is Ending.LIMIT
        found.append(b"".join(seen))
    assert len(found[0]) >= 64 * (1200 // interval - 1)
    assert found[0] == found[1]


# What is not refused, by docs/reference/limits.md

CPTR_EL3, CPACR_EL1 = (3, 6, 1, 1, 2), (3, 0, 1, 0, 2)
DSB, ISB, TLBI_ALLE3 = 0xD503_3F9F, 0xD503_3FDF, 0xD50E_871F
HLT_F000 = 0xD45E_0000
PTRUE_P0_D, LD1D_Z0_P0_X1 = 0x25D8_E3E0, 0xA5E0_A020
SCTLR, SCR = 0x30C5_0831, NS | HCE | RW | RES1 | 1 << 3
OWN = TABLE + 8 * (ALIAS >> 30)
"""The descriptor of the mapping as Non-secure."""


@RUNNERS
def test_a_walk_of_non_secure_state_reads_tables_in_secure_memory(
    runner: type[Runner],
) -> None:
    there, value = SECURE + 0x1_0000, RAM + 0x9000
    lower = [*put(system.MAIR_EL1, 0), *put(system.TCR_EL1, 25 | 1 << 23 | 2 << 32)]
    lower += [*put(system.TTBR0_EL1, there), *put(system.SCTLR_EL1, 0x30D0_0801)]
    board = secure_board(drop(), runner, [*lower, *a.mov64(1, value), a.ldr(2, 1)])
    board.memory.fill(there, tables())
    board.memory.fill(value, b"\x77")
    run_at_once(board)
    assert (board.cpu.engine.x(2), caught(board)) == (0x77, (0, 0))


@RUNNERS
def test_secure_state_fetches_through_its_non_secure_mapping(
    runner: type[Runner],
) -> None:
    function = SECURE + 0x1000
    board = secure_board([*MMU_ON, *a.mov64(11, function + ALIAS), a.blr(11)], runner)
    board.memory.fill(OWN, (VALID | AF | BLOCK_NS).to_bytes(8, "little"))
    board.memory.fill(function, a.code([a.movz(2, 5), a.ret()]))
    run_at_once(board)
    assert (board.cpu.engine.x(2), caught(board)) == (5, (0, 0))


@RUNNERS
def test_an_sve_load_of_consecutive_elements_reads_it_and_so_do_loads_behind_it(
    runner: type[Runner],
) -> None:
    vector = [PTRUE_P0_D, LD1D_Z0_P0_X1, a.fmov_to_x(3, 0)]
    enabled = [*a.mov64(0, 3 << 20 | 3 << 16), a.msr(CPACR_EL1, 0), ISB]
    lower = [*enabled, *LOAD, a.add_imm(4, 2, 0), *vector, a.ldr(2, 1)]
    code = [*a.mov64(0, 1 << 8), a.msr(CPTR_EL3, 0), *drop()]
    board = secure_board(code, runner, lower, core=load_core("max"))
    run_at_once(board)
    x = board.cpu.engine.x
    assert (x(4), x(3), x(2)) == (7, DATA, DATA)
    assert caught(board) == (1, EXTERNAL_LOAD)


@RUNNERS
@pytest.mark.parametrize(
    ("then", "refused"),
    [
        ([], 0),
        (put(system.SCTLR_EL3, SCTLR), 0),
        (put(system.SCTLR_EL3, SCTLR | 1 << 12), 1),
        (put(system.SCR_EL3, SCR | 1 << 1), 1),
    ],
    ids=["maintenance", "SCTLR_EL3 as it was", "SCTLR_EL3", "SCR_EL3"],
)
def test_a_new_non_secure_mapping_counts_from_the_next_change_of_sctlr_or_scr(
    runner: type[Runner], then: list[int], refused: int
) -> None:
    new = [*a.mov64(7, OWN), *a.mov64(8, VALID | AF | XN | BLOCK_NS), a.str_(8, 7)]
    code = [*MMU_ON, *a.mov64(5, SECURE + ALIAS), *new, DSB, TLBI_ALLE3, DSB, ISB, *then]
    board = secure_board([*code, *a.mov64(6, 7), a.ldr(6, 5)], runner)
    board.memory.fill(OWN, bytes(8))
    run_at_once(board)
    assert (board.cpu.engine.x(6), caught(board)[0]) == ([DATA, 7][refused], refused)


def test_semihosting_of_non_secure_state_reads_it() -> None:
    """SYS_WRITE0 (4) prints a string."""
    said = bytearray()
    lower = [*a.mov64(1, SECURE), a.movz(0, 4), HLT_F000]
    board = secure_board(drop(), Runner, lower, console=ConsoleEnds(said.extend))
    board.memory.fill(SECURE, b"secret\0")
    run_at_once(board)
    assert (bytes(said), caught(board)) == (b"secret", (0, 0))
