"""Store-exclusives that do not store (Arm ARM D14.1.1, D14.3).

"The counter does not count a Store-Exclusive instruction that fails" is said of ST_RETIRED alone.
Memory-writing instructions, which ST_SPEC counts, include a store-exclusive that does not update
memory.
"""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.decode import decode
from spe_unicorn.host.native.marks import MARK_EXCLUSIVE, marks_of
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.words import may_fail
from tests.support import a64 as a
from tests.support.counters import BUFFER, RUNNERS, counters, get, profiling, put, ran, x
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM

WHERE = RAM + 0x4_0000
STORED, FAILED = [a.ldxr(2, 1), a.stxr(3, 2, 1)], [a.ldxr(2, 1), a.CLREX, a.stxr(3, 2, 1)]
STXP, STXRB, STLXR = 0xC823_1022, 0x0803_7C22, 0xC803_FC22
"""STXP W3, X2, X4, [X1]; STXRB W3, W2, [X1]; STLXR W3, X2, [X1]."""
CASP = 0x4822_7C24
"""CASP X2, X3, X4, X5, [X1]."""
EVENTS = (E.ST_RETIRED, E.ST_SPEC, E.LD_RETIRED, E.MEM_ACCESS)


def read(first: int = 10) -> list[int]:
    return [get(r.PMEVCNTRS[n], first + n) for n in range(len(EVENTS))]


def prepared(code: list[int]) -> list[int]:
    """``code`` with X1 the address of a doubleword, counted."""
    return [*a.mov64(1, WHERE), *counters(*EVENTS), *code, *read()]


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize(
    ("code", "retired", "issued", "loads"),
    [
        (STORED, 1, 1, 1),
        (FAILED, 0, 1, 1),
        ([a.stxr(3, 2, 1)], 0, 1, 0),
        ([STXP], 0, 1, 0),
        ([STXRB], 0, 1, 0),
        ([STLXR], 0, 1, 0),
        ([a.ldxr(2, 1), STLXR], 1, 1, 1),
        ([a.ldxr(2, 1), *[a.stxr(3, 2, 1)] * 3], 1, 3, 1),  # the first clears the monitor
        ([*FAILED, a.movz(3, 0)], 0, 1, 1),  # the status is lost within the block
        ([*STORED, a.movz(3, 1)], 1, 1, 1),
        ([*FAILED, a.stlr(2, 1), *STORED, *FAILED, a.stlr(2, 1)], 3, 5, 3),
        ([CASP], 1, 1, 1),  # compare and swap counts whether it stores or not
    ],
)
def test_st_retired_leaves_out_what_fails(
    runner: type[Runner], code: list[int], retired: int, issued: int, loads: int
) -> None:
    board = ran(prepared([a.CLREX, *code]), runner)
    assert x(board, 10, 11, 12) == [retired, issued, loads]


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("sampled", [False, True])
def test_loops_whose_blocks_count_themselves(runner: type[Runner], sampled: bool) -> None:
    """A lock that is taken at the second attempt, 300 times."""
    body = [*FAILED, *STORED, a.stlr(2, 1)]
    loop = [*a.mov64(4, 300), *body, a.sub_imm(4, 4, 1), a.cbnz(4, -4 * len(body) - 4)]
    code = [*a.mov64(1, WHERE), *counters(*EVENTS), *(profiling(256) if sampled else [])]
    board = ran([*code, *put(r.PMCR_EL0, 0b11), *loop, *read()], runner, operations=6000)
    assert x(board, 10, 11, 12, 13) == [600, 900, 600, 1500]
    assert bool(board.unit.statistics.written) is sampled


@RUNNERS
@pytest.mark.parametrize("stores", range(1, 5))
def test_an_overflow_is_at_the_store_that_makes_it(runner: type[Runner], stores: int) -> None:
    """With PMCR_EL0.FZO counter 1 counts up to the operation that overflows counter 0."""
    code = [*a.mov64(1, WHERE), *counters(E.ST_RETIRED, E.INST_RETIRED, control=0b10_0000_0001)]
    code += [*a.mov64(2, (1 << 32) - stores), *put(r.PMEVCNTRS[1], 0)]
    code += [a.msr((3, 3, 14, 8, 0), 2)]
    body = [*FAILED, *STORED]
    board = ran([*code, *body * 4, get(r.PMEVCNTRS[1], 10), get(r.PMOVSSET_EL0, 11)], runner)
    # two MSRs and then bodies of five, of which the last operation stores
    assert x(board, 10, 11) == [2 + 5 * stores, 1]


@RUNNERS
def test_counters_are_enabled_in_the_block_of_a_store_that_fails(runner: type[Runner]) -> None:
    enable = r.PMCNTENSET_EL0
    code = [*a.mov64(1, WHERE), *counters(*EVENTS), *put(r.PMCNTENCLR_EL0, 15)]
    code += [*FAILED, *a.mov64(0, 15), a.msr((3, 3, 9, 12, 1), 0), *FAILED, *STORED]
    board = ran([*code, a.msr((3, 3, 9, 12, 2), 0), *FAILED, *read()], runner)
    assert enable.encoding.crm == 12
    assert x(board, 10, 11, 12, 13) == [1, 2, 2, 4]


@pytest.mark.parametrize("period", [1, 2, 3])
def test_samples_by_st_retired_are_of_stores_that_store(period: int) -> None:
    """Each body has two stores that store and one that does not."""
    body = [*a.mov64(1, BUFFER), *FAILED, a.stlr(2, 1), *STORED]
    image = image_of({RAM: a.code([*body, a.b(-4 * len(body))])}, RAM)
    machine = Machine(image, period=period, event="ST_RETIRED")
    machine.run(20 * (len(body) + 1))
    first = RAM + 4 * (len(body) - 3)
    places = {first, first + 8} if period != 2 else {first + 8}
    assert {sample.pc for sample in machine.operations} == places
    assert len(machine.operations) == 40 // period


def test_the_hooks_know_each_store_exclusive() -> None:
    """The hooks see a word alone. Bits 29:24 of all exclusives are 001000."""
    random = Random(0)
    words = [0x0800_0000 | random.getrandbits(32) & 0xC0FF_FFFF for _ in range(4000)]
    marked = {word for word in words if int(marks_of(word)) & MARK_EXCLUSIVE}
    assert marked == {word for word in words if may_fail(decode(word))}
    assert len(marked) > 400
