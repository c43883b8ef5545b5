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
from tests.support.counters import BUFFER, RUNNERS, counters, get, profiling, put, ran, x

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
