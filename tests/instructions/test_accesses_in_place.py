"""Watchpoints and Allocation Tags of accesses that the engine lacks: LRCPC3, LD1RO, SVE2.1."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.host.pe.access import tag_words as tags
from tests.host.pe.access.tagged_boards import tagged
from tests.host.run.debug.debugged import BOTH, DATA, LOADS, taken
from tests.instructions import ordered_words as o
from tests.instructions.ordered_words import watch, watched_esr
from tests.support import a64 as a

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
FP_AND_SVE = 0x33 << 16
ZCR_EL1 = (3, 0, 1, 2, 0)
LD1ROD, PTRUE_D2, P1 = 0xA5A0_2000, 0x25D8_E041, 1 << 10
"""PTRUE P1.D, VL2: the third and the fourth element are not active."""
BASE = DATA + 32
CASES = {
    "LDIAPP": (o.LDIAPP | o.WIDE | 4 << 16 | 3, 0, 16, False),
    "STILP": (o.STILP | o.WIDE | 4 << 16 | 3, -16, 16, True),
    "LDIAPP, no writeback": (o.LDIAPP | o.STAYS | 4 << 16 | 3, 0, 8, False),
    "LDAPR": (o.LDAPR | o.WIDE | 3, 0, 8, False),
    "STLR": (o.STLR | o.WIDE | 3, -8, 8, True),
    "LDAPUR": (o.LDAPUR | o.QUAD | 16 << 12 | 3, 16, 16, False),
    "STLUR": (o.STLUR | 3 << 30 | (-16 & 0x1FF) << 12 | 3, -16, 8, True),
    "LDAP1": (o.LDAP1 | 3, 0, 8, False),
    "STL1": (o.STL1 | o.SECOND | 3, 0, 8, True),
    "LD1ROD": (LD1ROD | P1 | o.X1 | 3, 0, 16, False),
    "LD1Q": (0xC41F_A000 | P1 | o.X1 | 3, 0, 16, False),
    "ST1Q": (0xE43F_2000 | P1 | o.X1 | 3, 0, 16, True),
    "LD2Q": (0xA490_E000 | P1 | o.X1 | 3, 0, 32, False),
    "ST3Q": (0xE480_0000 | P1 | o.X1 | 3, 0, 48, True),
    "LD1D, quadwords": (0xA590_2000 | P1 | o.X1 | 3, 0, 8, False),
    "ST1D, quadwords": (0xE5C0_E000 | P1 | o.X1 | 3, 0, 8, True),
    "LD1B, two vectors": (0xA040_0000 | o.X1 | 2, 0, 64, False),
    "STNT1B, two vectors": (0xA060_0001 | o.X1 | 2, 0, 64, True),
}
"""The word, where it accesses from its base on, how many bytes, and whether it stores."""
PREDICATES = [a.msr(ZCR_EL1, 1), PTRUE_D2, 0x2520_7810]
"""Vectors of 256 bits, P1, and PTRUE PN8.B."""
TO_Z6 = 0x05E0_38C6
"""MOV Z6.D, X6."""
ELSEWHERE = 0x800
LD1B_X9 = 0xA040_0000 | 9 << 5 | 16
"""LD1B of Z16 and Z17: from the next instruction on, compiled code may carry them out."""
SETTING = [a.add_imm(6, 6, 32), *a.mov64(1, 1), *PREDICATES, TO_Z6, a.movz(3, 7)]
SETTING += [*a.mov64(9, DATA + ELSEWHERE), LD1B_X9]


def from_x6(word: int) -> int:
    """The word with the base X6, which has the address of the data, in place of X1."""
    return word & ~(31 << 5) | 6 << 5


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("name", CASES)
def test_a_watchpoint_stops_before_the_access(name: str, runner: type[Runner]) -> None:
    """On its last eight bytes; a watchpoint of the eight after them, or of others, does not."""
    word, offset, size, stores = CASES[name]
    code = [*SETTING, from_x6(word)]
    end = BASE + offset + size
    esr = watched_esr(stores=stores)
    first = end - 8
    for watched, kinds, stops in (
        (first, BOTH, True),
        (first, LOADS, not stores),
        (end, BOTH, False),
        (BASE + offset - 8, BOTH, False),
    ):
        registers = watch(watched, kinds)
        found, board = taken(
            code,
            {**registers, system.CPACR_EL1: FP_AND_SVE},
            runner,
            core=load_core("max"),
        )
        assert [(one.place, one.esr, one.far) for one in found] == (
            [(4 * len(SETTING), esr, first)] if stops else []
        )
        if stops:
            assert board.memory.read(DATA, 256) == bytes(range(256))
            assert (board.cpu.engine.x(6), board.cpu.engine.x(3)) == (BASE, 7)


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fails", [False, True])
def test_tags_are_checked(name: str, fails: bool, runner: type[Runner]) -> None:
    """All of the 128 bytes around have tag 4; the base has it, or another one."""
    word, offset, _, stores = CASES[name]
    base = tags.DATA + 64
    store_tags = [tags.stg(8, 7, 16 * n) for n in range(8)]
    code = [*a.mov64(7, tags.DATA), *a.mov64(8, tags.tag(4)), *store_tags]
    code += [*put(system.CPACR_EL1, FP_AND_SVE), a.ISB, *a.mov64(1, 1), *PREDICATES]
    code += [*a.mov64(9, tags.DATA + ELSEWHERE), LD1B_X9]
    code += [a.movz(3, 7), *a.mov64(6, tags.tag(7 if fails else 4, base)), TO_Z6, from_x6(word)]
    core = load_core("max")
    board, before = tagged([*code, a.b(0)], runner, tags.ATA | tags.SYNC, core=core)
    board.run(before + len(code) + 4)
    registers = board.cpu.registers
    assert (board.cpu.pc == tags.VECTORS + 0x200) == fails
    if fails:
        assert registers.raw(system.ESR_EL1) == tags.ESR_CHECK | (tags.WRITE if stores else 0)
        assert registers.raw(system.FAR_EL1) == tags.tag(7, base + offset)
        assert board.cpu.engine.x(6) == tags.tag(7, base)
        assert board.memory.read(tags.DATA, 128) == bytes(128)
