"""SPE and the Performance Monitors tell one story: population, samples, records."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import spe as s
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.spe.feed import SampleEvent as S
from tests.support import a64 as a
from tests.support.counters import BUFFER, MAX, RUNNERS, counters, get, profiling, put, ran, x

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
        *put(s.PMSCR_EL1, 0),
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
def test_counters_freeze_while_profiling_has_stopped(runner: type[Runner]) -> None:
    """PMBLIMITR_EL1.PMFZ with PMCR_EL0.FZS: a full buffer stops the counters; DP is 0."""
    fzs = 1 << 32
    code = [
        *counters(E.INST_RETIRED, S.FILTRATE, control=fzs | 1),
        *profiling(256, 0x1000),
    ]
    code += put(s.PMBLIMITR_EL1, BUFFER + 0x1000 | 1 << 5 | 1)  # PMFZ
    loop = [*a.mov64(4, 20_000), a.sub_imm(4, 4, 1), a.cbnz(4, -4), get(r.PMEVCNTRS[0], 1)]
    board = ran([*code, *loop, get(r.PMCCNTR_EL0, 2)], runner, GENERIC, 45_000)
    written = board.unit.statistics.written
    assert written == 63  # of 64 bytes: then the 128 that the largest record takes do not fit
    instructions, cycles = x(board, 1, 2)
    assert 63 * 256 <= instructions < 63 * 256 + 100
    assert cycles > 40_000


@RUNNERS
@pytest.mark.parametrize("discards", [False, True])
def test_what_passes_the_filter_is_written_or_discarded(
    runner: type[Runner], discards: bool
) -> None:
    """A loop of a load and two others, of which PMSFCR_EL1 keeps the loads: one sample of three."""
    code = [*counters(S.POP, S.FEED, S.FILTRATE), *profiling(256), *a.mov64(3, BUFFER)]
    code += [*put(s.PMSCR_EL1, 0), *put(s.PMSFCR_EL1, 1 << 1 | 1 << 17)]  # FT, LD
    code += put(s.PMBLIMITR_EL1, BUFFER + 0x4_0000 | (0b10 << 1 if discards else 0) | 1)
    code += [*put(s.PMSICR_EL1, 0), *put(r.PMCR_EL0, 0b11), *a.mov64(4, 2000)]
    code += [*put(s.PMSCR_EL1, 0b11), a.ldr(1, 3), a.sub_imm(4, 4, 1), a.cbnz(4, -8), a.PSB_CSYNC]
    code += [*put(s.PMSCR_EL1, 0), *(get(r.PMEVCNTRS[n], 5 + n) for n in range(3))]
    board = ran(code, runner, MAX, 7000)
    population, samples, kept = x(board, 5, 6, 7)
    assert population == 3 * 2000 + 3  # PSB CSYNC, the move and the write that ends profiling
    assert samples == population // 256 == 23
    # the n-th sample is operation 256 * n, counted from 1; loads are the first of each three
    assert kept == sum(256 * n % 3 == 1 for n in range(1, 24))
    statistics = board.unit.statistics
    assert (statistics.written, statistics.discarded) == ((0, kept) if discards else (kept, 0))
    assert (statistics.filtered, statistics.lost) == (samples - kept, 0)
