"""DC ZVA in compiled code: memory, traps and faults are those of the engine's own."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import ModelName
from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host import guests, stale_tables
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
EITHER_WAY = pytest.mark.parametrize("way", ["", "none"], ids=["at once", "by the engine"])
RW, TDZ, DZE = 1 << 31, 1 << 28, 1 << 14
SCTLR_EL1: int = 0x30D0_0800 | 1 << 26
DC_ZVA = (1, 3, 7, 4, 1)
DATA = RAM + 0x8_0000
TRAP = 0x6200_0000 | 1 << 20 | 1 << 17 | 3 << 14 | 7 << 10 | 2 << 5 | 4 << 1
"""ESR_ELx of DC ZVA, X2: EC 0x18, IL, and the instruction as a System access (D24.2.40)."""


def zero(register: int) -> int:
    """DC ZVA."""
    return a.sys(3, 7, 4, 1, register)


def lines(board: Board, at: int = DATA - 64) -> list[bool]:
    """Whether each of three lines around :data:`DATA` is zero throughout."""
    data = bytes(board.ram.bytes[at - RAM : at - RAM + 192])
    return [not any(data[n : n + 64]) for n in (0, 64, 128)]


def filled(board: Board) -> Board:
    board.memory.fill(DATA - 64, b"\xa5" * 192)
    return board


@EITHER_WAY
@RUNNERS
@pytest.mark.parametrize("offset", [0, 1, 63])
def test_the_block_of_the_address_is_filled(
    way: str, runner: type[Runner], offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, way)
    board = filled(board_at([*a.mov64(2, DATA + offset), zero(2), a.b(0)], el=1, runner=runner))
    board.run(20)
    assert lines(board) == [False, True, False]


@pytest.mark.accelerated
@pytest.mark.parametrize("model", ["none", "cache"])
def test_compiled_code_does_it(model: ModelName) -> None:
    code = [*a.mov64(2, DATA), zero(2), a.b(0)]
    board = filled(board_at(code, el=1, model=model))
    board.run(20)
    assert lines(board) == [False, True, False]
    assert (board.cpu.state.physical, board.cpu.state.zeroing) == (DATA, 0)


@EITHER_WAY
@RUNNERS
@pytest.mark.parametrize("traps", [False, True])
def test_el2_traps_it_at_el1(
    way: str, runner: type[Runner], traps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HCR_EL2.TDZ."""
    monkeypatch.setenv(OPTION, way)
    code = [*a.mov64(2, DATA), zero(2)]
    subject = filled(guests.board({system.HCR_EL2: RW | TDZ * traps}, code, runner))
    taken, syndrome, _ = guests.run(subject)
    assert (taken, syndrome if taken else TRAP) == (traps, TRAP)
    assert lines(subject) == [False, not traps, False]


@EITHER_WAY
@RUNNERS
@pytest.mark.parametrize("allowed", [False, True])
def test_el1_says_whether_el0_may(
    way: str, runner: type[Runner], allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCTLR_EL1.DZE, also where it has just been written."""
    monkeypatch.setenv(OPTION, way)
    vectors = RAM + 0x5000
    guest = [
        *guests.put(system.VBAR_EL1, vectors),
        *guests.put(system.SCTLR_EL1, SCTLR_EL1 | DZE * (not allowed)),
        *guests.put(system.SCTLR_EL1, SCTLR_EL1 | DZE * allowed),
        *guests.enter_application(),
    ]
    application = [*a.mov64(2, DATA), zero(2)]
    subject = filled(guests.board({system.HCR_EL2: RW}, guest, runner, application))
    esr = (3, 0, 5, 2, 0)
    subject.memory.fill(vectors + 0x400, a.code([a.mrs(21, esr), a.movz(20, 1), a.b(0)]))
    taken, syndrome, _ = guests.run(subject)
    assert (taken, syndrome) == ((0, 0) if allowed else (1, TRAP))
    assert lines(subject) == [False, allowed, False]


READ_ONLY = 1 << 7
PLACES = {
    "a page": stale_tables.PAGES + 0x40,
    "a page that may only be read": stale_tables.PAGES + stale_tables.PAGE,
    "no page": stale_tables.PAGES + 2 * stale_tables.PAGE,
    "no memory": 0x2000_0000,
    "the code that follows": 0,
}


def outcome(way: str, place: str, period: int | None, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Fill two blocks there, under an operating system's tables."""
    monkeypatch.setenv(OPTION, way)
    rows = {0: stale_tables.page(0), 1: stale_tables.page(1) | READ_ONLY}
    code = stale_tables.mapped(DZE)
    at = PLACES[place] or stale_tables.CODE + 4 * len(code) + 0x80 & -64
    code += [*a.mov64(2, at), zero(2), a.add_imm(2, 2, 64), zero(2), a.b(4)]
    code += [a.NOP] * 48 + [a.b(0)]
    memory = {stale_tables.CODE: a.code(code), **stale_tables.tables(rows)}
    memory[stale_tables.VECTORS + 0x200] = a.code([a.movz(20, 1), a.b(0)])
    memory[stale_tables.MEMORY] = b"\xa5" * 0x2000
    machine = Machine(image_of(memory, stale_tables.CODE), period=period)
    return machine.run(200)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [None, 3])
@pytest.mark.parametrize("place", PLACES)
def test_it_is_as_the_engine_has_it(
    place: str, period: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory, the syndrome of the abort, records."""
    at_once, by_engine = (outcome(way, place, period, monkeypatch) for way in ("", "none"))
    assert not at_once.differences(by_engine)
    taken = at_once.last_exception[0] is not None
    assert taken == (place != "a page")
    page = at_once.memory[stale_tables.MEMORY]
    assert page.count(0) == (128 if place == "a page" else 0)
    assert at_once.memory[stale_tables.MEMORY + 0x1000] == b"\xa5" * 0x1000
