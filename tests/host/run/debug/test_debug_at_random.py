"""Debug registers at random, under random code: both runners end in the same state."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from tests.host.run.debug.debugged import (
    DATA,
    LOG,
    OPERATIONS,
    board,
    random_code,
    random_registers,
)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(24))
def test_both_runners_agree(seed: int) -> None:
    outcomes = []
    for runner in (Runner, ReferenceRunner):
        random = Random(seed)
        chosen, words = random_registers(random), random_code(random)
        el = random.choice((1, 1, 2))
        sampling = Sampling(random.choice((1, 7)), jitter=False)
        made, before = board(words, chosen, runner, at=1, el=el, sampling=sampling)
        seen: list[tuple[int, bool, int | None, int | None]] = []
        made.unit.recorded.connect(
            lambda _, operation, seen=seen: seen.append(
                (operation.pc, operation.exception, operation.va, operation.pa)
            )
        )
        ending = made.run(before + OPERATIONS)
        cpu = made.cpu
        outcomes.append(
            (
                ending,
                cpu.pc,
                cpu.pstate,
                cpu.executed,
                [cpu.engine.x(n) for n in range(31)],
                made.memory.read(DATA, 256),
                made.memory.read(LOG, 2048),
                [cpu.registers.raw(r) for r in d.DEBUG_REGISTERS],
                seen,
            )
        )
    for fast, plain in zip(*outcomes, strict=True):
        assert fast == plain
