"""Loads and stores of FEAT_SVE2p1 in compiled code: as at a stop, and where a stop is needed.

The first one of a board is always carried out at a stop, and each one by steps.
"""

from __future__ import annotations

from random import Random
from typing import cast

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import ModelName
from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.pe.amended.quadword_access import QuadwordAccess
from spe_unicorn.host.pe.vectors import vector
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.instructions.sve2p1.memory_guests import (
    BYTES,
    CORE,
    LAST,
    LOOP,
    MIDDLE,
    PAGES_AT,
    ROOM,
    TRANSLATION_FAULT,
    WRITES,
    execute,
    guest,
    random_vectors,
    registers,
)
from tests.instructions.sve2p1.memory_model import PAGES, Operands, Page, Vectors
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM

SIZE = 32
"""Bytes of a vector."""
ALL = 0xFFFF_FFFF
EE = 1 << 25
IC_IVAU = a.sys(3, 7, 5, 1, 1)
BY_NAME = {page.name: page for page in PAGES}
COMMON = ("LD1Q", "ST1Q", "LD3Q", "ST2Q, immediate", "LD1W.Q", "ST1D.Q", "LD1B x2", "STNT1W x4")
SOME = pytest.mark.parametrize("page", [BY_NAME[name] for name in COMMON], ids=COMMON)


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The words that are carried out at a stop."""
    found: list[int] = []
    carry_out = QuadwordAccess.carry_out

    def counted(one: QuadwordAccess) -> bool:
        found.append(one._word)
        return carry_out(one)

    monkeypatch.setattr(QuadwordAccess, "carry_out", counted)
    return found


def operands(page: Page) -> Operands:
    """Z8 on, X1 or Z1 as the base, X2 added where a register is."""
    return Operands(8, 8 if page.consecutive else 2, 1, 2 if page.by_register else 0)


def case(page: Page, address: int, seed: int = 1) -> Vectors:
    """All elements are active, or half of those of a counter; the first one is at ``address``."""
    v = random_vectors(Random(seed), SIZE, page, operands(page))
    v.x[1], v.x[2], v.p[2] = address, 0, ALL
    v.p[8] = SIZE * page.vectors // 2 << 1 | 1
    if page.gathers:
        v.z[1] = address | address + 64 << 128
    return v


def warm(board: Board, page: Page) -> None:
    """Have the board execute the page's word at a stop."""
    execute(board, page.word(operands(page)), case(page, MIDDLE))


@SOME
def test_the_second_one_takes_no_stop(page: Page, stops: list[int]) -> None:
    board = guest(8 * SIZE, Runner)
    warm(board, page)
    v = case(page, MIDDLE + 0x40, 2)
    expected = Vectors(SIZE, list(v.z), list(v.p), list(v.x), dict(v.memory))
    page.operation(expected, operands(page))
    execute(board, page.word(operands(page)), v)
    assert len(stops) == 1
    assert registers(board, SIZE) == (expected.z, expected.p, expected.x)
    assert board.memory.read(BYTES, ROOM) == bytes(expected.memory[BYTES + n] for n in range(ROOM))


@pytest.mark.parametrize("accelerators", ["none", "inline,zeroes"])
def test_without_the_accelerator_each_takes_one(
    accelerators: str, stops: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, accelerators)
    board = guest(8 * SIZE, Runner)
    for _ in range(3):
        warm(board, BY_NAME["LD1B x2"])
    assert len(stops) == 3


@SOME
def test_pages_that_lie_apart(page: Page, stops: list[int]) -> None:
    """What crosses a page of virtual addresses goes on in another page than the next one."""
    board = guest(8 * SIZE, Runner, end=LAST)
    # the page before the middle is mapped twice, the one behind it is not: it begins anew
    entry = board.memory.read(PAGES_AT + 8 * ((MIDDLE - RAM >> 12) - 1), 8)
    assert entry is not None
    board.memory.fill(PAGES_AT + 8 * (MIDDLE - RAM >> 12), entry)
    address = MIDDLE - (16 if page.vectors > 1 or page.gathers else 4)
    execute(board, page.word(operands(page)), case(page, address - 0x200))
    v = case(page, address)
    seen = {at: v.memory[at - 0x1000 if at >= MIDDLE else at] for at in v.memory}
    expected = Vectors(SIZE, list(v.z), list(v.p), list(v.x), dict(seen))
    page.operation(expected, operands(page))
    execute(board, page.word(operands(page)), v)
    assert len(stops) == 1
    assert registers(board, SIZE) == (expected.z, expected.p, expected.x)
    changed = {at - 0x1000 * (at >= MIDDLE): byte for at, byte in expected.memory.items()
               if byte != seen[at]}  # fmt: skip
    found = board.memory.read(BYTES, ROOM)
    assert found == bytes(changed.get(BYTES + n, v.memory[BYTES + n]) for n in range(ROOM))


@SOME
def test_a_fault_changes_nothing(page: Page, stops: list[int]) -> None:
    board = guest(8 * SIZE, Runner, end=LAST)
    warm(board, page)
    execute(board, page.word(operands(page)), case(page, MIDDLE))
    assert len(stops) == 1
    v = case(page, LAST - (16 if page.vectors > 1 else 4))
    if page.gathers:
        v.z[1] = (LAST - 64) | LAST << 128
    before = board.cpu.engine.x(20)
    execute(board, page.word(operands(page)), v, 20)
    x = board.cpu.engine.x
    assert (x(20) - before, len(stops)) == (1, 2)
    write = 0 if page.name.startswith("LD") else WRITES
    assert (x(21), x(23)) == (TRANSLATION_FAULT | write, LAST)
    assert registers(board, SIZE) == (v.z, v.p, v.x)


@pytest.mark.parametrize("name", ["LD1Q", "ST1Q", "LD3Q", "ST2Q, immediate", "LD1W.Q"])
def test_big_endian_data_are_for_the_engine(name: str, stops: list[int]) -> None:
    page = BY_NAME[name]
    board = guest(8 * SIZE, Runner, controls=EE)  # the MMU is off
    for n in range(2):
        execute(board, page.word(operands(page)), case(page, MIDDLE, n))
    assert len(stops) == 2
    raw = board.memory.read(MIDDLE, 16)
    assert raw is not None
    size = 4 if name == "LD1W.Q" else 16
    assert vector(board.cpu, 8, 128) == int.from_bytes(raw[:size], "big")


@pytest.mark.parametrize("name", ["LD1Q", "LD2Q", "ST4Q"])
def test_a_quadword_that_is_not_aligned_takes_a_stop(name: str, stops: list[int]) -> None:
    """Whether its memory is Device memory, Python finds out."""
    board = guest(8 * SIZE, Runner)
    warm(board, BY_NAME[name])
    execute(board, BY_NAME[name].word(operands(BY_NAME[name])), case(BY_NAME[name], MIDDLE + 8))
    assert len(stops) == 2


def test_code_that_was_stored_is_executed() -> None:
    """ST1B of two vectors over a function that has run, and IC IVAU."""
    board = guest(128, Runner)
    page, function = BY_NAME["ST1B x2"], RAM + 0x2_0000
    old = a.code([a.add_imm(6, 6, 1), a.RET])
    new = a.code([a.add_imm(6, 6, 4), a.RET])
    calls = [a.blr(9), page.word(Operands(8, 8, 1, 2)), IC_IVAU, a.ISB, a.blr(9), a.b(0)]
    for _ in range(2):
        v = random_vectors(Random(1), 16, page, Operands(8, 8, 1, 2))
        v.x[1], v.x[2], v.x[6], v.x[9] = function, 0, 0, function
        v.p[8], v.z[8] = len(new) << 1 | 1, int.from_bytes(new, "little")
        board.memory.fill(function, old)
        board.cpu.engine.forget_all_code()
        execute(board, calls[0], v, 0)
        board.memory.fill(RAM + 0x800, a.code(calls))
        board.cpu.engine.forget_all_code()
        board.run(len(calls) + 6)
        assert board.cpu.engine.x(6) == 5


CODE = [
    *(*put(system.CPACR_EL1, 0b11 << 20 | 0b11 << 16), *a.mov64(0, 1)),
    *(a.msr((3, 0, 1, 2, 0), 0), a.ISB, *a.mov64(7, RAM + 0x8000), *a.mov64(1, 3)),
    *(0x2518_E3E2, 0x05E0_38E7),  # PTRUE P2.B; MOV Z7.D, X7
    0x2521_4FF0,  # WHILELO PN8.B, XZR, X1, VLx2
    *(*LOOP, a.add_imm(7, 7, 32), a.b(-4 * (len(LOOP) + 1))),
]


@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 3, 7, 64])
def test_both_runners_make_the_same_of_a_loop_with_and_without(
    period: int, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = image_of({RAM: a.code(CODE)}, RAM)
    results = []
    for runner, accelerators in ((Runner, ""), (ReferenceRunner, ""), (Runner, "none")):
        monkeypatch.setenv(OPTION, accelerators)
        one = Machine(
            image, runner=runner, core=CORE, period=period, model=cast("ModelName", model)
        )
        results.append(one.run(len(CODE) + 400))
    first, *others = results
    for other in others:
        assert first.differences(other) == {}
    assert first.records


def test_a_core_model_sees_them(stops: list[int]) -> None:
    image = image_of({RAM: a.code(CODE)}, RAM)
    Machine(image, core=CORE, model="cache").run(len(CODE) + 50)
    assert len(stops) > 30
