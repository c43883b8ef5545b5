"""STZG, STZ2G, STGP, DC GVA and DC GZVA in compiled code: they do what they do at a stop.

Expected values are worked out by hand from C6.2 and C5.3 of the Arm ARM.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.pe.amended.tagging import Tagging
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.rows import Row
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.host.pe.access.tag_words import (
    ATA,
    ATA0,
    DATA,
    POST,
    PRE,
    SCTLR,
    VECTORS,
    dc,
    stg,
    stgp,
    tag,
)
from tests.host.pe.access.tagged_boards import USER, tagged
from tests.support import a64 as a
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
FILL = 0x5555_5555_5555_5555
E0E = 1 << 24
AT = DATA + 0x1000
"""A page of its own, and the one after it."""


@pytest.fixture
def at_stops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The words that Python has carried out."""
    seen: list[int] = []
    plain = Tagging.carry_out

    def noted(self: Tagging, row: Row, word: int) -> bool:
        seen.append(word)
        return plain(self, row, word)

    monkeypatch.setattr(Tagging, "carry_out", noted)
    return seen


def after(
    loop: list[int], rounds: int, runner: type[Runner], registers: dict[int, int], sctlr: int = ATA
) -> Board:
    """The board after so many rounds of ``loop``, with memory from AT - 64 on filled before."""
    put_in = [word for number, value in registers.items() for word in a.mov64(number, value)]
    start = [*a.mov64(20, rounds), *put_in]
    code = [*start, *loop, a.sub_imm(20, 20, 1), a.cbnz(20, -4 * len(loop) - 4), a.b(0)]
    board, _ = tagged(code, runner, sctlr)
    board.memory.fill(AT - 64, FILL.to_bytes(8, "little") * 48)
    board.run(len(start) + rounds * (len(loop) + 2))
    return board


def words(board: Board, address: int, count: int) -> list[int]:
    data = board.memory.read(address, 8 * count)
    return [int.from_bytes(data[8 * n : 8 * n + 8], "little") for n in range(count)]


def tags(board: Board, address: int, count: int) -> list[int | None]:
    assert board.cpu.tags is not None
    return [board.cpu.tags.read(address + 16 * n) for n in range(count)]


@RUNNERS
def test_zeros_with_tags(runner: type[Runner]) -> None:
    """STZG [X1], #16; STZ2G [X1, #16]!, over the end of a page; back to where X1 was."""
    registers = {1: AT - 48, 2: tag(5)}
    loop = [stg(2, 1, 16, POST, kind=1), stg(2, 1, 16, PRE, kind=3), a.sub_imm(1, 1, 32)]
    board = after(loop, 5, runner, registers)
    assert words(board, AT - 64, 10) == [FILL] * 2 + [0] * 2 + [FILL] * 2 + [0] * 4
    assert tags(board, AT - 64, 6) == [0, 5, 0, 5, 5, 0]
    assert board.cpu.engine.x(1) == AT - 48


@RUNNERS
def test_a_pair_with_a_tag(runner: type[Runner]) -> None:
    """The tag is that of the address, with the offset; X31 is zero as data."""
    registers = {1: tag(9, AT), 2: 0x22, 3: 0x33}
    loop = [stgp(2, 3, 1, 16, POST), stgp(31, 2, 1, 32), stgp(3, 31, 1, -16, PRE)]
    board = after(loop, 3, runner, registers)
    assert words(board, AT, 10) == [0x33, 0, FILL, FILL, FILL, FILL, 0, 0x22, FILL, FILL]
    assert tags(board, AT, 5) == [9, 0, 0, 9, 0]
    assert board.cpu.engine.x(1) == tag(9, AT)


@RUNNERS
def test_blocks(runner: type[Runner]) -> None:
    """DC GZVA of the block of 64 bytes around X1, DC GVA of the next one."""
    registers = {1: tag(3, AT + 40), 2: tag(4, AT + 64)}
    board = after([dc(4, 4, 1), dc(4, 3, 2)], 4, runner, registers)
    assert words(board, AT - 8, 18) == [FILL] + [0] * 8 + [FILL] * 9
    assert tags(board, AT - 16, 10) == [0, 3, 3, 3, 3, 4, 4, 4, 4, 0]


@pytest.mark.accelerated
def test_python_is_asked_no_more(at_stops: list[int]) -> None:
    """Whatever tag an address has, its page is known."""
    loop = [stg(2, 1, kind=1), stg(2, 1, kind=3), stgp(2, 2, 3), dc(4, 4, 1), dc(4, 3, 3)]
    after(loop, 50, Runner, {1: AT, 2: tag(5), 3: tag(7, AT)})
    assert len(at_stops) == 1  # the first one, by which compiled code is told of the page


@RUNNERS
def test_a_pair_where_data_are_big_endian(runner: type[Runner]) -> None:
    """SCTLR_EL1.E0E, after compiled code has learnt of the page: the data of EL0, not of EL1."""
    at = USER - 0x800
    user = [stgp(2, 3, 1), stgp(2, 3, 1, 32), stg(2, 1, 16, kind=1), a.svc(0)]
    code = [*a.mov64(1, at), *a.mov64(2, 0x22), *a.mov64(3, 0x33), stgp(2, 3, 1, 48)]
    code += [stgp(2, 3, 1, 64), *put(system.SCTLR_EL1, SCTLR | ATA | ATA0 | E0E), a.ISB]
    code += [stgp(2, 3, 1, 80), *put(system.ELR_EL1, USER), *put(system.SPSR_EL1, 0x3C0), a.ERET]
    board, _ = tagged(code, runner, ATA | ATA0, user=user)
    board.run(len(code) + len(user))
    swapped = [0x22 << 56, 0x33 << 56]
    plain = [0x22, 0x33]
    assert words(board, at, 12) == [*swapped, 0, 0, *swapped, *plain, *plain, *plain]
    assert board.cpu.registers.raw(system.ESR_EL1) == 0x5600_0000


@RUNNERS
def test_el0_needs_leave_for_blocks_and_for_nothing_else(runner: type[Runner]) -> None:
    """SCTLR_EL1.DZE is 0: DC GZVA traps at EL0, after EL1 has executed one."""
    user = [*a.mov64(1, USER - 0x800), stg(1, 1, kind=1), dc(4, 4, 1)]
    code = [*a.mov64(1, AT), dc(4, 4, 1), dc(4, 4, 1), *put(system.ELR_EL1, USER)]
    code += [*put(system.SPSR_EL1, 0x3C0), a.ERET]
    board, _ = tagged(code, runner, ATA | ATA0, user=user)
    board.run(len(code) + len(user))
    registers = board.cpu.registers
    assert board.cpu.pc == VECTORS + 0x400
    assert registers.raw(system.ESR_EL1) >> 26 == 0x18
    assert registers.raw(system.ELR_EL1) == USER + 4 * len(user) - 4


@RUNNERS
def test_code_that_a_pair_overwrites(runner: type[Runner]) -> None:
    """Two MOVZ that STGP stores, and then two others, are executed after IC IVAU each time."""
    first = a.movz(5, 1) | a.movz(6, 2) << 32
    second = a.movz(5, 3) | a.movz(6, 4) << 32
    place = AT + 0x100
    refreshed = [0xD50B_7B21, 0xD503_3B9F, 0xD50B_7521, 0xD503_3B9F, a.ISB]  # DC CVAU, IC IVAU
    tail = a.ret(30) | a.NOP << 32
    code = [*a.mov64(1, place), *a.mov64(4, tail), *a.mov64(2, first), stgp(2, 4, 1), *refreshed]
    code += [a.blr(1), a.add_imm(7, 5, 0), *a.mov64(2, second), stgp(2, 4, 1), *refreshed]
    code += [a.blr(1), a.b(0)]
    board, _ = tagged(code, runner, ATA)
    board.run(len(code) - 1 + 6)
    assert [board.cpu.engine.x(n) for n in (5, 6, 7)] == [3, 4, 1]


@RUNNERS
def test_the_tag_of_a_fault_is_not_stored(runner: type[Runner]) -> None:
    """STZ2G over the end of the mapped memory: neither granule is stored to."""
    end = RAM + 0x20_0000 + 0x20_0000 - 16
    loop = [stg(2, 1, kind=1), stg(2, 3, kind=3)]
    board = after(loop, 1, runner, {1: AT, 2: tag(5), 3: end})
    assert board.cpu.pc == VECTORS + 0x200
    assert tags(board, end, 1) == [0]
