"""Every countable event: the fast runner, the reference and a trace of the program agree.

The trace lists the words of all operations that the engine attempts. One whose exception returns to
itself has not retired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.registers.pmu import PMCR_EL0, PMEVTYPER
from spe_unicorn.cores.profile import Core
from spe_unicorn.decode import decode
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.exceptions import EXCEPTION_EVENTS
from spe_unicorn.pmu.words import WORD_EVENTS, events_of
from tests.support.machine_runs import Machine
from tests.support.random_programs import RAM, random_program
from tests.support.random_runs import MAX, NEOVERSE, Trace, run_in_pieces, settings_of

COUNTERS = 6
CLOCK = (E.INST_RETIRED, E.CPU_CYCLES, E.CNT_CYCLES)
COUNTED = sorted({*CLOCK, *WORD_EVENTS, *EXCEPTION_EVENTS, E.PC_WRITE_RETIRED})
GROUPS = [COUNTED[n : n + COUNTERS] for n in range(0, len(COUNTED), COUNTERS)]
FILTERS = {0: 0, 1: PMEVTYPER.P.mask, 2: PMEVTYPER.U.mask}
"""Everything; EL0 alone; EL1 alone."""


def program(machine: Machine, events: Iterable[int], filter_: int = 0) -> None:
    """Have the first PE count ``events`` from now on, from 0, at 64 bits."""
    counting = machine.board.pes[0].counting
    counting.settle()
    state = counting.monitors.s
    for number, event in enumerate(events):
        state.types[number] = event | filter_
        state.values[number] = 0
    state.control = PMCR_EL0.of(E=1, LP=1).value
    state.enabled = (1 << COUNTERS) - 1
    state.noticed = state.overflowed = 0
    counting.changed()


def counted(machine: Machine) -> list[int]:
    counting = machine.board.pes[0].counting
    counting.settle()
    return counting.monitors.s.values[:COUNTERS]


class RetiredTrace(Trace):
    """Which operations of a trace did not retire, and which exceptions were taken."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.failed: set[int] = set()
        self.exceptions = 0
        machine.board.cpu.exception_taken.connect(self._on_exception)

    def _on_exception(self, record: ExceptionRecord, entry: ExceptionEntry) -> None:
        self.exceptions += 1
        if record.syndrome is not None and self.pcs and entry.elr == self.pcs[-1]:
            self.failed.add(len(self.pcs) - 1)

    def events(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for number, word in enumerate(self.words):
            found[E.CPU_CYCLES] += 1
            if number not in self.failed:
                found[E.INST_RETIRED] += 1
                found.update(events_of(decode(word)))
        found[E.EXC_TAKEN] = self.exceptions
        return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_both_runners_and_the_trace_count_the_same(seed: int, group: int) -> None:
    image = random_program(seed, settings_of(seed))
    events = GROUPS[group]
    values = []
    traced: Counter[int] = Counter()
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, seed=seed, core=MAX)
        trace = RetiredTrace(machine) if runner is ReferenceRunner else None
        program(machine, events)
        machine.run(2500)
        values.append(counted(machine))
        if trace is not None:
            traced = trace.events()
    assert values[0] == values[1]
    known = {*CLOCK, *WORD_EVENTS, E.EXC_TAKEN} - {E.CNT_CYCLES}
    for event, value in zip(events, values[0], strict=False):
        if event in known:
            assert value == traced[event], E(event)


@pytest.mark.parametrize("core", [MAX, NEOVERSE], ids=["instructions", "micro-operations"])
@pytest.mark.parametrize("seed", range(8))
def test_counters_reprogrammed_at_random_count_the_same(seed: int, core: Core) -> None:
    """In pieces, with other events and filters from time to time."""
    image = random_program(seed, settings_of(seed))
    found = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, seed=seed, core=core)
        random, values = Random(seed), []
        for _ in range(12):
            program(machine, random.sample(COUNTED, COUNTERS), FILTERS[random.randrange(3)])
            run_in_pieces(machine, random.randrange(1, 300), random)
            values.append(counted(machine))
        found.append(values)
    assert found[0] == found[1]


MODELLED = sorted(
    {
        *(E.BR_PRED, E.BR_MIS_PRED, E.BR_MIS_PRED_RETIRED, E.L1D_TLB, E.L1D_TLB_REFILL),
        *(E.DTLB_WALK, E.L1D_CACHE, E.L1D_CACHE_REFILL, E.L2D_CACHE, E.L2D_CACHE_REFILL),
        *(E.LL_CACHE, E.LL_CACHE_MISS),
    }
)


@pytest.mark.parametrize("seed", range(6))
def test_what_the_cache_model_knows_is_counted_the_same(seed: int) -> None:
    image = random_program(seed, settings_of(seed))
    found = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, seed=seed, core=MAX, model="cache")
        random, values = Random(seed), []
        for _ in range(8):
            program(machine, random.sample(MODELLED, COUNTERS), FILTERS[random.randrange(3)])
            run_in_pieces(machine, random.randrange(1, 400), random)
            values.append(counted(machine))
        found.append(values)
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_counted_changes_nothing_that_is_executed(seed: int) -> None:
    image = random_program(seed, settings_of(seed, spe=True))
    results = []
    for events in ((), GROUPS[0]):
        machine = Machine(image, ram=RAM, seed=seed, core=MAX)
        if events:
            program(machine, events)
        results.append(machine.run(3000))
    assert results[0].differences(results[1]) == {}


@pytest.mark.parametrize("seed", range(8))
def test_overflows_at_random_places_freeze_the_others_at_the_same_operation(seed: int) -> None:
    """At 32 bits, with PMCR_EL0.FZO: the first overflow stops every counter but the cycles'."""
    image = random_program(seed, settings_of(seed))
    found = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, seed=seed, core=MAX)
        random, values = Random(seed), []
        state = machine.board.pes[0].counting.monitors.s
        for _ in range(8):
            program(machine, random.sample(COUNTED, COUNTERS))
            state = machine.board.pes[0].counting.monitors.s
            state.control = PMCR_EL0.of(E=1, FZO=1).value
            state.values[0] = (1 << 32) - random.randrange(1, 40)
            machine.board.pes[0].counting.changed()
            run_in_pieces(machine, random.randrange(1, 300), random)
            values.append((counted(machine), state.overflowed))
        found.append(values)
    assert found[0] == found[1]


def test_firmware_that_counts_passes_stepped_as_it_runs() -> None:
    fast, reference = (Machine("pmu_counts", runner=runner) for runner in (Runner, ReferenceRunner))
    assert fast.run().differences(reference.run()) == {}
    assert b"not ok" not in fast.console
