"""Every countable event: the fast runner, the reference and a trace of the program agree.

The trace lists the words of all operations that the engine attempts. One whose exception returns to
itself has not retired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from unicorn import Uc

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Family
from spe_unicorn.arch.registers.pmu import PMCR_EL0, PMEVTYPER
from spe_unicorn.cores.profile import Core
from spe_unicorn.decode import decode
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.exceptions import EXCEPTION_EVENTS
from spe_unicorn.pmu.words import WORD_EVENTS, events_of
from tests.host.nested_guests import guest_hypervisor
from tests.support.machine_runs import Machine
from tests.support.random_programs import RAM, random_program
from tests.support.random_runs import MAX, NEOVERSE, Trace, run_in_pieces, settings_of

COUNTERS = 6
CLOCK = (E.INST_RETIRED, E.CPU_CYCLES, E.CNT_CYCLES)
BY_RUN = (E.PC_WRITE_RETIRED, E.PC_WRITE_SPEC, E.UNALIGNED_LDST_RETIRED)
PARTS = (E.OP_RETIRED, E.OP_SPEC)
STALLS = (E.STALL, E.STALL_FRONTEND, E.STALL_BACKEND)
COUNTED = sorted({*CLOCK, *WORD_EVENTS, *EXCEPTION_EVENTS, *BY_RUN, *PARTS, *STALLS})
GROUPS = [COUNTED[n : n + COUNTERS] for n in range(0, len(COUNTED), COUNTERS)]
FILTERS = {0: 0, 1: PMEVTYPER.P.mask, 2: PMEVTYPER.U.mask}
"""Everything; EL0 alone; EL1 alone."""


def program(machine: Machine, events: Iterable[int], filter_: int = 0) -> None:
    """Have the first PE count ``events`` from now on, from 0, at 64 bits."""
    counting = machine.board.pes[0].counting
    counting.count_executed()
    state = counting.monitors.s
    for number, event in enumerate(events):
        counting.monitors.configure(number, event | filter_)
        state.values[number] = 0
    state.control = PMCR_EL0.of(E=1, LP=1).value
    state.enabled = (1 << COUNTERS) - 1
    state.noticed = state.overflowed = 0
    counting.changed()


def counted(machine: Machine) -> list[int]:
    counting = machine.board.pes[0].counting
    counting.count_executed()
    return counting.monitors.s.values[:COUNTERS]


def _is_store_exclusive(word: int) -> bool:
    instruction = decode(word)
    return instruction.exclusive and instruction.family is Family.STORE


class RetiredTrace(Trace):
    """Which operations of a trace did not retire, and which exceptions were taken."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.failed: set[int] = set()
        self.unstored: set[int] = set()
        """Store-exclusives that did not store."""
        self.exceptions = 0
        self.end = 0
        """Where the PE is after the last operation."""
        machine.board.cpu.exception_taken.connect(self._on_exception)

    def _on_operation(self, uc: Uc, address: int, size: int, data: object) -> None:
        if self.words and _is_store_exclusive(self.words[-1]):
            status = self.words[-1] >> 16 & 31
            if self._cpu.engine.x(status) & 1:
                self.unstored.add(len(self.words) - 1)
        super()._on_operation(uc, address, size, data)

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
                found.update(events_of(decode(word)) - self.left_out(number))
                found.update(self.of_the_run(number))
                found.update(PARTS)
        found[E.EXC_TAKEN] = self.exceptions
        return found

    def left_out(self, number: int) -> set[E]:
        """What an operation does not make, though its word says so."""
        return {E.ST_RETIRED} if number in self.unstored else set()

    def of_the_run(self, number: int) -> list[E]:
        """What an operation makes that its word alone does not say."""
        instruction = decode(self.words[number])
        if instruction.family is Family.BRANCH:
            following = (*self.pcs, self.end)[number + 1]
            jumps = not instruction.conditional or following != self.pcs[number] + 4
            return [E.PC_WRITE_RETIRED, E.PC_WRITE_SPEC] if jumps else []
        first, access = self.accesses.get(number + 1, [0])[0], instruction.access
        unaligned = access is not None and first % access.element
        return [E.UNALIGNED_LDST_RETIRED] if unaligned else []


@pytest.mark.sweep
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
            trace.end = machine.board.cpu.pc
            traced = trace.events()
    assert values[0] == values[1]
    known = {*CLOCK, *WORD_EVENTS, *BY_RUN, *PARTS, *STALLS, E.EXC_TAKEN} - {E.CNT_CYCLES}
    for event, value in zip(events, values[0], strict=False):
        if event in known:
            assert value == traced[event], E(event)


@pytest.mark.sweep(first=True)
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


def of_cycle(value: int, control: int, limit: int) -> int:
    """What PMEVTYPER<n>_EL0.TC and TH make of the events of one cycle."""
    met = (value != limit, value == limit, value >= limit, value < limit)[control >> 1]
    return met * (1 if control & 1 else value)


@pytest.mark.parametrize("seed", range(3))
def test_thresholds_count_cycles_as_a_trace_says(seed: int) -> None:
    """FEAT_PMUv3_TH: what an operation makes is compared in its cycle."""
    image = random_program(seed, settings_of(seed))
    random = Random(seed)
    chosen = [random.choice((E.LD_RETIRED, E.BR_RETIRED, E.CPU_CYCLES, E.STALL)) for _ in range(4)]
    controls = [random.randrange(8) for _ in chosen]
    limits = [random.randrange(1, 3) for _ in chosen]
    types = [
        PMEVTYPER.of(evtCount=e, TC=c, TH=n).value
        for e, c, n in zip(chosen, controls, limits, strict=True)
    ]
    values = []
    expected: list[int] = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, seed=seed, core=MAX)
        trace = RetiredTrace(machine) if runner is ReferenceRunner else None
        program(machine, types)
        run_in_pieces(machine, 700, Random(seed))
        values.append(counted(machine)[:4])
        if trace is not None:
            made = [
                {E.CPU_CYCLES, *(() if n in trace.failed else events_of(decode(word)))}
                for n, word in enumerate(trace.words)
            ]
            expected = [
                sum(of_cycle(event in found, control, limit) for found in made)
                for event, control, limit in zip(chosen, controls, limits, strict=True)
            ]
    assert values == [expected, expected]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_threshold_compares_all_that_one_operation_makes(limit: int) -> None:
    """Lines that each access touches, as both runners see them, against each operation's total."""
    image = random_program(1, settings_of(1))
    types = [PMEVTYPER.of(evtCount=E.L1D_CACHE, TC=c, TH=limit).value for c in (0b101, 0b100)]
    found = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, core=MAX, model="cache")
        program(machine, types)
        machine.run(600)
        found.append(counted(machine)[:2])
    machine = Machine(image, ram=RAM, core=MAX, model="cache")
    totals, made = machine.board.pes[0].counting.totals, [0]
    for _ in range(600):
        machine.board.run(1)
        made.append(totals.of(E.L1D_CACHE))
    each = [after - before for before, after in pairwise(made)]
    reached = [n for n in each if n >= limit]
    assert found[0] == found[1] == [len(reached), sum(reached)]


MODELLED = sorted(
    {
        *(E.BR_PRED, E.BR_MIS_PRED, E.BR_MIS_PRED_RETIRED, E.L1D_TLB, E.L1D_TLB_REFILL),
        *(E.DTLB_WALK, E.L1D_CACHE, E.L1D_CACHE_REFILL, E.L2D_CACHE, E.L2D_CACHE_REFILL),
        *(E.LL_CACHE, E.LL_CACHE_MISS),
    }
)


@pytest.mark.sweep(first=True)
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


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(8))
def test_overflows_at_random_places_freeze_the_others_at_the_same_operation(seed: int) -> None:
    """At 64 bits, with PMCR_EL0.FZO: the first overflow stops every counter but the cycles'."""
    image = random_program(seed, settings_of(seed))
    found = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, ram=RAM, seed=seed, core=MAX)
        random, values = Random(seed), []
        state = machine.board.pes[0].counting.monitors.s
        for _ in range(8):
            program(machine, random.sample(COUNTED, COUNTERS))
            state = machine.board.pes[0].counting.monitors.s
            state.control = PMCR_EL0.of(E=1, LP=1, FZO=1).value
            state.values[0] = (1 << 64) - random.randrange(1, 40)
            machine.board.pes[0].counting.changed()
            run_in_pieces(machine, random.randrange(1, 300), random)
            values.append((counted(machine), state.overflowed))
        found.append(values)
    assert found[0] == found[1]


@pytest.mark.sweep
def test_firmware_that_counts_passes_stepped_as_it_runs() -> None:
    fast, reference = (Machine("pmu_counts", runner=runner) for runner in (Runner, ReferenceRunner))
    assert fast.run().differences(reference.run()) == {}
    assert b"not ok" not in fast.console


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_nested_accesses_are_loads_and_stores(runner: type[Runner]) -> None:
    """MRS and MSR of HCR_EL2 by a guest hypervisor, each 50 times (Arm ARM D14.1.1)."""
    machine = guest_hypervisor(runner, period=None)
    program(
        machine, (E.ST_RETIRED, E.ST_SPEC, E.LD_RETIRED, E.MEM_ACCESS, E.LD_SPEC, E.INST_RETIRED)
    )
    machine.run(200)
    assert counted(machine) == [50, 50, 50, 100, 50, 200]
