"""Counters that a guest switches on after its blocks have run without: what is counted of them."""

from __future__ import annotations

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA = 0x4000_0000, 0x4010_0000
PMCR, PMCNTENSET, PMCNTENCLR = (3, 3, 9, 12, 0), (3, 3, 9, 12, 1), (3, 3, 9, 12, 2)
PMEVTYPER0, PMEVCNTR0 = (3, 3, 14, 12, 0), (3, 3, 14, 8, 0)
NE = 1
TIMES = 40


def loop() -> list[int]:
    """40 times two loads and a store."""
    body = [a.ldr(0, 4), a.ldr(1, 4, 8), a.str_(0, 4, 16), a.subs_imm(6, 6, 1)]
    return [a.movz(6, TIMES), *body, a.b_cond(NE, -16)]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("core", ["generic", "neoverse-n1", "neoverse-v2", "max"])
@pytest.mark.parametrize(("event", "each"), [(PMUEvent.LD_SPEC, 2), (PMUEvent.ST_SPEC, 1)])
def test_blocks_count_what_they_hold(core: str, event: PMUEvent, each: int) -> None:
    """The loop runs without the counter, then with it, and so on."""
    on = [*a.mov64(0, int(event)), a.msr(PMEVTYPER0, 0), a.movz(0, 1), a.msr(PMCNTENSET, 0)]
    on += [a.msr(PMCR, 0), 0xD503_3FDF]  # ISB
    off = [a.movz(0, 1), a.msr(PMCNTENCLR, 0), 0xD503_3FDF, a.mrs(20, PMEVCNTR0)]
    body = [*loop(), *on, a.msr(PMEVCNTR0, 31), *loop(), *off]
    code = [*a.mov64(4, DATA), *body, a.b(-4 * len(body))]
    image = image_of({CODE: a.code(code)}, CODE)
    fast, plain = (Machine(image, runner=runner, core=core) for runner in (Runner, ReferenceRunner))
    for _ in range(4):
        assert not fast.run(1_000).differences(plain.run(1_000))
    assert fast.board.cpu.engine.x(20) == TIMES * each
