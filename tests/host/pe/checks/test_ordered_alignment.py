"""Ordered accesses have to be aligned in Normal memory, too, where alignment is checked everywhere.

Arm ARM B2.2.2.3: without FEAT_LSE2 a misaligned Load-Acquire, Load-AcquirePC or Store-Release takes
an Alignment fault, whatever SCTLR_ELx.A is.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

TABLE, VECTORS, DATA = RAM + 0x8000, RAM + 0x2000, RAM + 0xA000
SCTLR = 0x30C5_0830 & ~8
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
LOAD_FAULT, STORE_FAULT = 0x9600_0021, 0x9600_0061
SIZES = {"B": 0, "H": 1, "W": 2, "X": 3}
RT, RN = 3, 1 << 5
LOADS = {"LDAR": 0x08DF_FC00, "LDLAR": 0x08DF_7C00, "LDAPR": 0x38BF_C000, "LDAPUR": 0x1940_0000}
STORES = {"STLR": 0x089F_FC00, "STLLR": 0x089F_7C00, "STLUR": 0x1900_0000}
SIGNED = {
    "LDAPURSB X": (0x1980_0000, 0),
    "LDAPURSH W": (0x59C0_0000, 1),
    "LDAPURSW": (0x9980_0000, 2),
}
WORDS = {
    **{f"{n}{s}": (w | k << 30, k, LOAD_FAULT) for n, w in LOADS.items() for s, k in SIZES.items()},
    **{
        f"{n}{s}": (w | k << 30, k, STORE_FAULT)
        for n, w in STORES.items()
        for s, k in SIZES.items()
    },
    **{name: (word, size, LOAD_FAULT) for name, (word, size) in SIGNED.items()},
}
ELR = (3, 6, 4, 0, 1)


def machine(
    words: list[int], runner: type[Runner], checks: bool = True, core: str = "generic"
) -> Board:
    """At EL3, with RAM as Normal memory. The vector counts in X20 and skips the operation."""
    code = [
        *[*put(system.VBAR_EL3, VECTORS), *put(system.MAIR_EL3, 0xFF00)],
        *[*put(system.TCR_EL3, 25 | 1 << 16), *put(system.TTBR0_EL3, TABLE)],
        *[*put(system.SCTLR_EL3, SCTLR | 0b101), *words, a.b(0)],
    ]
    handler = [
        *[a.add_imm(20, 20, 1), a.mrs(21, (3, 6, 5, 2, 0)), a.mrs(23, (3, 6, 6, 0, 0))],
        *[a.mrs(22, ELR), a.add_imm(22, 22, 4), a.msr(ELR, 22), a.ERET],
    ]
    options = {"check_alignment": checks, "core": load_core(core)}
    board = board_at(code, el=EL3, runner=runner, **options)
    board.memory.fill(VECTORS + 0x200, a.code(handler))
    block = RAM | 1 << 10 | 1 << 2 | 1  # AF, Attr1: Normal memory
    board.memory.fill(TABLE + 8, block.to_bytes(8, "little"))
    board.memory.fill(DATA, bytes(range(1, 65)))
    return board


@RUNNERS
@pytest.mark.parametrize("name", WORDS)
def test_a_misaligned_one_faults_and_does_nothing(name: str, runner: type[Runner]) -> None:
    word, size, syndrome = WORDS[name]
    for offset in range(1 << size + 1):
        board = machine([*a.mov64(1, DATA + offset), word | RN | RT], runner)
        assert board.run(300) is Ending.LIMIT
        x = board.cpu.engine.x
        if offset % (1 << size) == 0:
            assert x(20) == 0, offset
            continue
        assert (x(20), x(21), x(23), x(3)) == (1, syndrome, DATA + offset, 0), offset
        assert board.memory.read(DATA, 64) == bytes(range(1, 65))


@RUNNERS
def test_an_offset_counts(runner: type[Runner]) -> None:
    """LDAPUR and STLUR of 64 bits with an offset of -1, of a base that is aligned or not."""
    words = [WORDS[name][0] | 0x1FF << 12 | RN | RT for name in ("LDAPURX", "STLURX")]
    board = machine([*a.mov64(1, DATA + 16), *words, a.add_imm(1, 1, 1), words[0]], runner)
    assert board.run(300) is Ending.LIMIT
    x = board.cpu.engine.x
    assert (x(20), x(21), x(23)) == (2, STORE_FAULT, DATA + 15)
    assert x(3) == 0x1817_1615_1413_1211


@RUNNERS
def test_plain_accesses_and_those_that_are_not_looked_at_do_not_fault(
    runner: type[Runner],
) -> None:
    board = machine([*a.mov64(1, DATA + 1), a.ldr(3, 1), a.str_(3, 1, 8)], runner)
    assert board.run(300) is Ending.LIMIT
    assert board.cpu.engine.x(20) == 0
    board = machine([*a.mov64(1, DATA + 1), a.ldar(3, 1)], runner, checks=False)
    assert board.run(300) is Ending.LIMIT
    assert board.cpu.engine.x(3) == 0x0908_0706_0504_0302


@RUNNERS
@pytest.mark.parametrize("not_aligned_allowed", [False, True])
def test_with_lse2_they_fault_across_16_bytes(
    not_aligned_allowed: bool, runner: type[Runner]
) -> None:
    """UnalignedAccessFaults(): not AllInAlignedQuantity() of 16 bytes, and SCTLR_ELx.nAA is 0."""
    controls = put(system.SCTLR_EL3, SCTLR | 0b101 | not_aligned_allowed << 6)
    words = [WORDS[name][0] | RN | RT for name in ("LDARX", "STLRX", "LDAPURW")]
    for offset in (1, 8, 9, 12, 13, 15):
        board = machine([*controls, *a.mov64(1, DATA + offset), *words], runner, core="max")
        assert board.run(300) is Ending.LIMIT
        wide, narrow = offset > 8, offset > 12
        faults = 0 if not_aligned_allowed else 2 * wide + narrow
        assert board.cpu.engine.x(20) == faults, offset
