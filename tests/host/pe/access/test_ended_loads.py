"""First-fault and non-fault loads of SVE that a tag check or a watchpoint ends.

Expected values are worked out by hand from AArch64.CheckTag() and MemNF() (Arm ARM J1.1), rule
RCFWVW (D10.7.1), and the pages of LDFF1D and LDNF1D (C8.2): a check that fails is no exception, in
whichever mode, and not noted. From that element on FFR is FALSE, and of the values that Arm allows
the element is 0.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.pe.vectors import FFR, predicate, vector
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.host.pe.access.tag_words import (
    ASYNC,
    ATA,
    DATA,
    ESR_CHECK,
    MSR_TCO,
    SYNC,
    TABLES,
    VECTORS,
    WRITE,
    stg,
    tag,
)
from tests.host.pe.access.tagged_boards import UNMAPPED, tagged
from tests.support import a64 as a
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
PTRUE, WHOLE = 0x25D8_E3E0, 0x0101_0101
SETFFR = 0x252C_9000
LDNF1D, LDFF1D, GATHER = 0xA5F0_A020, 0xA5FF_6020, 0xC5A0_E020
"""LDNF1D {Z0.D}, P0/Z, [X1]; LDFF1D {Z0.D}, P0/Z, [X1]; LDFF1D {Z0.D}, P0/Z, [Z1.D]."""
INDEX = 0x04E0_4400 | 8 << 16 | 1 << 5 | 1
"""INDEX Z1.D, X1, #8."""
ZCR_EL1 = (3, 0, 1, 2, 0)
ASYMMETRIC = 3 << 40
HOLE = RAM + 0x5000
"""A page of which a test takes the translation."""


def after(
    word: int,
    runner: type[Runner],
    sctlr: int,
    *,
    at: int = tag(5, DATA),
    more: list[int] | None = None,
    core: str = "neoverse-n2,sve_bits=256",
) -> Board:
    """The board after a load of four doublewords; from DATA on they hold 1, 2, 3 and 4.

    The granule of the first two has the tag 5 there, that of the other two has the tag 0.
    """
    store = [n for value in range(1, 5) for n in (*a.mov64(2, value), a.str_(2, 0, 8 * value - 8))]
    start = [*a.mov64(0, DATA), *store, *a.mov64(3, tag(5)), stg(3, 0)]
    start += [*put(system.CPACR_EL1, 3 << 20 | 3 << 16), *put(system.TFSR_EL1, 0)]
    start += [a.ISB, a.movz(4, 1), a.msr(ZCR_EL1, 4), a.ISB]
    start += [*a.mov64(1, at), PTRUE, INDEX, SETFFR, *(more or [])]
    start += [*put(system.SCTLR_EL1, 0x30D0_0805 | ATA | sctlr), a.ISB]
    board, _ = tagged([*start, word, a.b(0)], runner, ATA, core=load_core(core))
    board.run(len(start) + 1)
    return board


def shown(board: Board) -> tuple[list[int], int, int]:
    """The four elements of Z0, FFR, and P0."""
    whole = vector(board.cpu, 0, 256)
    values = [whole >> 64 * n & (1 << 64) - 1 for n in range(4)]
    return values, predicate(board.cpu, FFR) & (1 << 32) - 1, predicate(board.cpu, 0)


LOADS = pytest.mark.parametrize("word", [LDNF1D, LDFF1D, GATHER])


@RUNNERS
@LOADS
@pytest.mark.parametrize(
    ("sctlr", "core"), [(SYNC, "neoverse-n2"), (ASYNC, "neoverse-n2"), (ASYMMETRIC, "neoverse-v2")]
)
def test_a_later_element_ends_the_load(
    word: int, sctlr: int, core: str, runner: type[Runner]
) -> None:
    board = after(word, runner, sctlr, core=f"{core},sve_bits=256")
    assert shown(board) == ([1, 2, 0, 0], 0xFFFF, WHOLE)
    assert board.cpu.pc != VECTORS + 0x200
    assert board.cpu.registers.raw(system.TFSR_EL1) == 0


@RUNNERS
@LOADS
@pytest.mark.parametrize(
    ("sctlr", "more"),
    [(0, []), (SYNC, [MSR_TCO[1]]), (SYNC, [*a.mov64(3, tag(5, DATA + 16)), stg(3, 3)])],
)
def test_what_is_not_checked_is_loaded(
    word: int, sctlr: int, more: list[int], runner: type[Runner]
) -> None:
    """Without a mode, with PSTATE.TCO, and where the tags are the same."""
    board = after(word, runner, sctlr, more=more)
    assert shown(board) == ([1, 2, 3, 4], 0xFFFF_FFFF, WHOLE)


@RUNNERS
@pytest.mark.parametrize("sctlr", [SYNC, ASYNC])
def test_no_element_of_a_non_fault_load_raises_anything(sctlr: int, runner: type[Runner]) -> None:
    other = [*a.mov64(3, tag(9, DATA)), stg(3, 1), stg(3, 1, 16)]
    board = after(LDNF1D, runner, sctlr, more=other)
    assert shown(board) == ([0, 0, 0, 0], 0, WHOLE)
    assert board.cpu.registers.raw(system.TFSR_EL1) == 0


@RUNNERS
@pytest.mark.parametrize("word", [LDFF1D, GATHER])
def test_the_first_element_of_a_first_fault_load_is_as_any(word: int, runner: type[Runner]) -> None:
    """Synchronously it faults; asynchronously it is noted and loaded, and the next one ends."""
    other = [*a.mov64(3, tag(9, DATA)), stg(3, 1), stg(3, 1, 16)]
    board = after(word, runner, SYNC, more=other)
    assert board.cpu.pc == VECTORS + 0x200
    assert board.cpu.registers.raw(system.ESR_EL1) == ESR_CHECK
    assert board.cpu.registers.raw(system.FAR_EL1) == tag(5, DATA)
    assert predicate(board.cpu, FFR) & (1 << 32) - 1 == 0xFFFF_FFFF
    board = after(word, runner, ASYNC, more=other)
    assert shown(board) == ([1, 0, 0, 0], 0xFF, WHOLE)
    assert board.cpu.registers.raw(system.TFSR_EL1) == 1


@RUNNERS
@LOADS
def test_inactive_elements_are_not_checked(word: int, runner: type[Runner]) -> None:
    one = after(word, runner, SYNC, more=[0x25D8_E020])  # PTRUE P0.D, VL1
    assert shown(one) == ([1, 0, 0, 0], 0xFFFF_FFFF, 1)


@RUNNERS
def test_a_page_that_is_not_there_ends_the_load_as_before(runner: type[Runner]) -> None:
    assert shown(after(LDNF1D, runner, SYNC, at=UNMAPPED - 16)) == ([0] * 4, 0xFFFF, WHOLE)
    assert shown(after(LDNF1D, runner, SYNC, at=tag(5, UNMAPPED - 16))) == ([0] * 4, 0, WHOLE)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "at", "esr"),
    [
        (0xD50B_7421, HOLE + 0x1000, ESR_CHECK | WRITE),  # DC ZVA, X1
        (0xA5EF_A020, HOLE + 0x1020, ESR_CHECK),  # LD1D {Z0.D}, P0/Z, [X1, #-1, MUL VL]
    ],
)
def test_what_lies_before_an_access_need_not_be_there(
    word: int, at: int, esr: int, runner: type[Runner]
) -> None:
    """The page before that of the access has no translation, and the check is made all the same."""
    start = [*put(system.CPACR_EL1, 3 << 20 | 3 << 16), a.ISB, *a.mov64(1, tag(5, at))]
    start += [a.movz(4, 1), a.msr(ZCR_EL1, 4), a.ISB, PTRUE]
    code = [*start, word, a.b(0)]
    board, _ = tagged(code, runner, ATA | SYNC, core=load_core("neoverse-n2,sve_bits=256"))
    board.memory.fill(TABLES + 0x2000 + (HOLE - RAM) // 512, bytes(8))
    board.run(len(start) + 1)
    registers = board.cpu.registers
    assert board.cpu.pc == VECTORS + 0x200
    assert registers.raw(system.ESR_EL1) == esr
    assert registers.raw(system.FAR_EL1) == tag(5, HOLE + 0x1000)
