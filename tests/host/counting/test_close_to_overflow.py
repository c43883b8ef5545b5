"""What counting costs close to the overflow of an event that the core model alone knows."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.registers.pmu import PMCR_EL0
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.countable import MODELLED
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.random_programs import RAM, random_program
from tests.support.random_runs import MAX, run_in_pieces, settings_of

CODE, DATA = 0x4000_0000, 0x4010_0000
TURNS = 300
LOOP = [a.ldr(3, 1), *(a.add_imm(2, 2, 1) for _ in range(6)), a.subs_imm(5, 5, 1)]
PROGRAM = [*a.mov64(1, DATA), a.movz(5, TURNS), *LOOP, a.b_cond(a.NE, -4 * len(LOOP)), a.b(0)]
OPERATIONS = (len(LOOP) + 1) * TURNS
"""Of the loop: in each turn a load of one line that is always there, in a block of nine."""


def count_from(machine: Machine, event: E, value: int, *, freezes: bool = False) -> None:
    """Have counter 0 count an event from ``value`` on, at 64 bits, and counter 1 the operations."""
    counting = machine.board.pes[0].counting
    counting.count_executed()
    state = counting.monitors.s
    counting.monitors.configure(0, event)
    counting.monitors.configure(1, E.INST_RETIRED)
    state.values[:2] = value, 0
    state.control = PMCR_EL0.of(E=1, LP=1, FZO=freezes).value
    state.enabled, state.noticed, state.overflowed = 3, 0, 0
    counting.changed()


@pytest.mark.parametrize(
    ("event", "left", "most"),
    [
        # each block's load makes one, and could make more
        pytest.param(E.L1D_CACHE, TURNS + 50, TURNS + 20, id="a stop each block"),
        # a line that is there is never missed, and the engine stops where one is missed
        pytest.param(E.L1D_CACHE_REFILL, 100, 20, id="awaited"),
        # each block has one branch at most, and so 10,000 are far away
        pytest.param(E.BR_MIS_PRED, 10_000, 20, id="branches far away"),
        pytest.param(E.BR_MIS_PRED, 100, 20, id="branches nearby"),
    ],
)
def test_blocks_that_cannot_reach_the_overflow_run_as_blocks(
    event: E, left: int, most: int, engine_runs: list[RunRequest]
) -> None:
    machine = Machine(image_of({CODE: a.code(PROGRAM)}, CODE), core="max", model="cache")
    machine.board.run(len(PROGRAM) - len(LOOP) - 2 + len(LOOP) + 1)
    count_from(machine, event, (1 << 64) - left)
    engine_runs.clear()
    machine.board.run(OPERATIONS - len(LOOP) - 1)
    state = machine.board.pes[0].counting.monitors.s
    machine.board.pes[0].counting.count_executed()
    assert state.values[1] == OPERATIONS - len(LOOP) - 1
    assert not state.overflowed & 1
    assert len(engine_runs) <= most


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(6))
def test_overflows_of_modelled_events_freeze_at_the_same_operation(seed: int) -> None:
    """PMCR_EL0.FZO: counter 1 says at which operation the overflow landed."""
    image = random_program(seed, settings_of(seed))
    found = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, seed=seed, core=MAX, model="cache")
        random, values = Random(seed), []
        state = machine.board.pes[0].counting.monitors.s
        for event in (E.L1D_CACHE, E.BR_PRED, *random.sample(sorted(MODELLED), 6)):
            count_from(machine, event, (1 << 64) - random.randrange(1, 15), freezes=True)
            run_in_pieces(machine, random.randrange(50, 600), random)
            machine.board.pes[0].counting.count_executed()
            values.append((event, state.values[:2], state.overflowed))
        found.append(values)
    assert found[0] == found[1]
    assert sum(overflowed & 1 for _, _, overflowed in found[0]) >= 2


@pytest.mark.parametrize("name", ["bench_list", "mix"])
def test_an_awaited_event_costs_few_runs_of_the_engine(
    name: str, engine_runs: list[RunRequest]
) -> None:
    options = {"core": "neoverse-n1", "model": "cache", "event": "l1d_cache_refill"}
    machine = Machine(name, period=100, **options)
    machine.run(100_000)
    runs = len(engine_runs)
    assert len(machine.sampled) > 10
    assert runs <= 3 * len(machine.sampled) + 100
