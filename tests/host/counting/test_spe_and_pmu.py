"""SPE and the Performance Monitors tell one story: population, samples, records."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import spe
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.spe.feed import SampleEvent as S
from tests.support import a64 as a
from tests.support.counters import (
    BUFFER,
    MAX,
    RUNNERS,
    counters,
    enc,
    get,
    profiling,
    put,
    ran,
    x,
)

GENERIC = load_core("generic")
LOOPS = 1000


@RUNNERS
@pytest.mark.parametrize("interval", [256, 512, 768])
def test_population_and_samples_are_exact_at_each_read(runner: type[Runner], interval: int) -> None:
    """With RND 0 each interval of the population has one sample, and each sample a record."""
    code = [
        *counters(S.POP, S.FEED, S.FILTRATE, E.INST_RETIRED),
        *profiling(interval),
        *[*a.mov64(4, LOOPS), a.sub_imm(4, 4, 1), a.cbnz(4, -4)],
        get(r.PMEVCNTRS[0], 1),
        get(r.PMEVCNTRS[1], 2),
        a.PSB_CSYNC,
        *put(spe.PMSCR_EL1, 0),
        *(get(r.PMEVCNTRS[n], 5 + n) for n in range(3)),
    ]
    board = ran(code, runner, GENERIC, 4000)
    population = 2 * LOOPS + 1  # the move that sets the loop up
    assert x(board, 1, 2) == [population, population // interval]
    # the two reads, PSB CSYNC, and the move and the write that end profiling
    assert x(board, 5) == [population + 5]
    samples = (population + 5) // interval
    assert x(board, 6, 7) == [samples, samples]
    assert board.unit.statistics.written == samples


@RUNNERS
@pytest.mark.parametrize("nops", [0, 1, 5, 64])
def test_a_read_of_the_population_leaves_itself_out_and_a_write_loses_nothing(
    runner: type[Runner], nops: int
) -> None:
    """Counter 0 begins with the MSR that clears it, as counter 1 does, two operations later."""
    code = [*counters(S.POP, E.INST_RETIRED), *profiling(4096)]
    code += [*put(r.PMEVCNTRS[0], 0), *put(r.PMEVCNTRS[1], 0), *[a.NOP] * nops]
    code += [get(r.PMEVCNTRS[0], 1), get(r.PMEVCNTRS[1], 2), a.NOP]
    code += [get(r.PMEVCNTRS[0], 3), get(r.PMEVCNTRS[1], 4), *put(r.PMSELR_EL0, 0)]
    code += [get(r.PMXEVCNTR_EL0, 5), get(r.PMEVCNTRS[1], 6)]
    board = ran(code, runner)
    # the MSR, a move and the MSR to counter 1, the NOPs: 3 to the first read, which is not in it
    assert x(board, 1, 2) == [3 + nops, 2 + nops]
    assert x(board, 3, 4) == [6 + nops, 5 + nops]
    assert x(board, 5, 6) == [10 + nops, 9 + nops]


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("distance", range(1, 13))
def test_the_population_overflows_at_its_operation_among_writes(
    runner: type[Runner], distance: int
) -> None:
    """With PMCR_EL0.FZO counter 1 counts up to the operation that overflows counter 0."""
    code = [*counters(S.POP, E.INST_RETIRED, control=0b10_0000_0001), *profiling(4096)]
    code += [*put(r.PMEVCNTRS[1], 0), *a.mov64(1, (1 << 32) - distance)]
    code += [a.msr(enc(r.PMEVCNTRS[0]), 1)]  # itself the first member
    code += [w for n in range(6) for w in (a.msr(enc(r.PMSELR_EL0), 2), get(r.PMCR_EL0, 4), a.NOP)]
    code += [get(r.PMEVCNTRS[1], 5), get(r.PMOVSSET_EL0, 6), get(r.PMEVCNTRS[0], 7)]
    moves = len(a.mov64(1, (1 << 32) - distance))
    board = ran(code, runner)
    assert x(board, 5, 6, 7) == [1 + moves + distance, 1, 1 << 32]


@RUNNERS
def test_samples_of_the_accesses_themselves_are_not_in_what_they_read(
    runner: type[Runner],
) -> None:
    """Each 257th operation is sampled (D17.3): the first reads their number, the next sets it."""
    off = put(spe.PMSCR_EL1, 0)  # UNKNOWN after a reset
    code = [*off, *counters(S.POP, S.FEED), *profiling(256), *[a.NOP] * 256]
    code += [get(r.PMEVCNTRS[1], 1), get(r.PMEVCNTRS[1], 2), *[a.NOP] * 255]
    code += [a.msr(enc(r.PMEVCNTRS[1]), 9), get(r.PMEVCNTRS[1], 3)]
    board = ran([a.movz(9, 7), *code], runner)
    # the 257th operation reads 0, the next one 1; the sample of the 514th counts on from its 7
    assert x(board, 1, 2, 3) == [0, 1, 8]


@pytest.mark.sweep
@RUNNERS
def test_counters_freeze_while_profiling_has_stopped(runner: type[Runner]) -> None:
    """PMBLIMITR_EL1.PMFZ with PMCR_EL0.FZS: a full buffer stops the counters; DP is 0."""
    fzs = 1 << 32
    code = [
        *counters(E.INST_RETIRED, S.FILTRATE, control=fzs | 1),
        *profiling(256, 0x1000),
    ]
    code += put(spe.PMBLIMITR_EL1, BUFFER + 0x1000 | 1 << 5 | 1)  # PMFZ
    loop = [*a.mov64(4, 20_000), a.sub_imm(4, 4, 1), a.cbnz(4, -4), get(r.PMEVCNTRS[0], 1)]
    board = ran([*code, *loop, get(r.PMCCNTR_EL0, 2)], runner, GENERIC, 45_000)
    written = board.unit.statistics.written
    assert written == 63  # of 64 bytes: then the 128 that the largest record takes do not fit
    instructions, cycles = x(board, 1, 2)
    assert 63 * 256 <= instructions < 63 * 256 + 100
    assert cycles > 40_000


@RUNNERS
def test_counters_freeze_once_the_buffer_says_so(runner: type[Runner]) -> None:
    """Profiling had stopped before: PMBLIMITR_EL1.{PMFZ, E} freeze counters, until it is 0."""
    code = [
        *(*counters(E.INST_RETIRED, control=1 << 32 | 1), *put(spe.PMBSR_EL1, 1 << 17), a.ISB),
        *(get(r.PMEVCNTRS[0], 1), a.NOP, get(r.PMEVCNTRS[0], 2)),
        *(*put(spe.PMBLIMITR_EL1, BUFFER + 0x1000 | 1 << 5 | 1), a.ISB),
        *(get(r.PMEVCNTRS[0], 3), *[a.NOP] * 9, get(r.PMEVCNTRS[0], 4)),
        *(*put(spe.PMBLIMITR_EL1, 0), a.ISB, get(r.PMEVCNTRS[0], 5), a.NOP, get(r.PMEVCNTRS[0], 6)),
    ]
    board = ran(code, runner, GENERIC, 200)
    before, then, frozen, still, again, on = x(board, 1, 2, 3, 4, 5, 6)
    assert then - before == 2
    assert still == frozen > then
    assert on - again == 2


@RUNNERS
@pytest.mark.parametrize("discards", [False, True])
def test_what_passes_the_filter_is_written_or_discarded(
    runner: type[Runner], discards: bool
) -> None:
    """A loop of a load and two others, of which PMSFCR_EL1 keeps the loads: one sample of three."""
    code = [*counters(S.POP, S.FEED, S.FILTRATE), *profiling(256), *a.mov64(3, BUFFER)]
    code += [*put(spe.PMSCR_EL1, 0), *put(spe.PMSFCR_EL1, 1 << 1 | 1 << 17)]  # FT, LD
    code += put(spe.PMBLIMITR_EL1, BUFFER + 0x4_0000 | (0b10 << 1 if discards else 0) | 1)
    code += [*put(spe.PMSICR_EL1, 0), *put(r.PMCR_EL0, 0b11), *a.mov64(4, 2000)]
    code += [*put(spe.PMSCR_EL1, 0b11), a.ldr(1, 3), a.sub_imm(4, 4, 1), a.cbnz(4, -8), a.PSB_CSYNC]
    code += [*put(spe.PMSCR_EL1, 0), *(get(r.PMEVCNTRS[n], 5 + n) for n in range(3))]
    board = ran(code, runner, MAX, 7000)
    population, samples, kept = x(board, 5, 6, 7)
    assert population == 3 * 2000 + 3  # PSB CSYNC, the move and the write that ends profiling
    assert samples == population // 256 == 23
    # the n-th sample is operation 256 * n, counted from 1; loads are the first of each three
    assert kept == sum(256 * n % 3 == 1 for n in range(1, 24))
    statistics = board.unit.statistics
    assert (statistics.written, statistics.discarded) == ((0, kept) if discards else (kept, 0))
    assert (statistics.filtered, statistics.lost) == (samples - kept, 0)
