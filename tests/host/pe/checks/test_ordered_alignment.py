"""Ordered accesses have to be aligned in Normal memory, too, where alignment is checked everywhere.

Arm ARM B2.2.2.3: without FEAT_LSE2 a misaligned Load-Acquire, Load-AcquirePC or Store-Release takes
an Alignment fault, whatever SCTLR_ELx.A is.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.host.normal_memory import DATA, LOAD_FAULT, SCTLR, STORE_FAULT, machine
from tests.support import a64 as a

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
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


@pytest.mark.sweep
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
