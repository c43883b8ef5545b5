"""Samples by events: the operation that makes every N-th one, as a trace and a count by steps say.

Both runners record the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from unicorn import Uc

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord, ExceptionType
from spe_unicorn.cores.profile import Core
from spe_unicorn.decode import decode
from spe_unicorn.host.counting.modelled import AWAITED
from spe_unicorn.host.engine.engine import PSTATE
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.options import MachineOptions, OptionError, Sampling
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.words import STORED_EVENTS, WORD_EVENTS, events_of
from tests.support.machine_runs import Machine, Result
from tests.support.random_programs import RAM, random_program
from tests.support.random_runs import MAX, NEOVERSE, Trace, run_in_pieces, settings_of

OPERATIONS = 600
CALLS = (0x15, 0x16, 0x17)
BY_WORD = sorted(event.name for event in WORD_EVENTS - STORED_EVENTS)
BY_RUN = ("PC_WRITE_RETIRED", "ST_RETIRED", "UNALIGNED_LDST_RETIRED")
BY_MODEL = ("BR_MIS_PRED_RETIRED", "BR_PRED", "L1D_CACHE", "L1D_CACHE_REFILL", "L1D_TLB_REFILL")


class Seen(Trace):
    """A trace that knows the Exception level of each operation, and which did not retire."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.levels: list[int] = []
        self.failed: set[int] = set()
        self.exceptions: list[tuple[int, int]] = []
        """The operation that each belongs to, and its Exception level."""
        machine.board.cpu.exception_taken.connect(self._on_exception)

    def _on_operation(self, uc: Uc, address: int, size: int, data: object) -> None:
        super()._on_operation(uc, address, size, data)
        self.levels.append(uc.reg_read(PSTATE) >> 2 & 3)

    def _on_exception(self, record: ExceptionRecord, entry: ExceptionEntry) -> None:
        ec = None if record.syndrome is None else record.syndrome.ec
        if record.kind is ExceptionType.SYNC and self.pcs and entry.elr == self.pcs[-1]:
            self.failed.add(len(self.pcs) - 1)
        called = ec in CALLS and self.pcs and entry.elr == self.pcs[-1] + 4
        self.exceptions.append((entry.elr - 4 if called else entry.elr, entry.spsr >> 2 & 3))

    def that_make(self, event: E, levels: set[int]) -> list[int]:
        """The addresses of the operations that make an event which words decide."""
        return [
            pc
            for number, (pc, word) in enumerate(zip(self.pcs, self.words, strict=True))
            if (event is E.CPU_CYCLES or number not in self.failed)
            and (event in (E.CPU_CYCLES, E.INST_RETIRED) or event in events_of(decode(word)))
            and self.levels[number] in levels
        ]


def traced(seed: int) -> Seen:
    machine = Machine(
        random_program(seed, settings_of(seed)),
        runner=ReferenceRunner,
        ram=RAM,
        seed=seed,
        core=MAX,
    )
    seen = Seen(machine)
    machine.run(OPERATIONS)
    return seen


def sampled(seed: int, event: str, period: int, **options: object) -> tuple[Machine, Result]:
    """A run by the fast runner, of which the reference's is no different."""
    image = random_program(seed, settings_of(seed))
    chosen = {"ram": RAM, "seed": seed, "core": MAX, "event": event, "period": period, **options}
    machine = Machine(image, **chosen)
    result = run_in_pieces(machine, OPERATIONS, Random(seed))
    stepped = Machine(image, runner=ReferenceRunner, **chosen).run(OPERATIONS)
    assert result.differences(stepped, ignoring=["ending"]) == {}
    return machine, result


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(5))
def test_words_and_clocks_choose_the_operations_that_a_trace_says(seed: int) -> None:
    seen = traced(seed)
    random = Random(seed)
    for name in (("CPU_CYCLES", "INST_RETIRED")[seed % 2], *random.sample(BY_WORD, 2)):
        levels, suffix = random.choice([({0, 1, 2, 3}, ""), ({0}, ":u"), ({1}, ":k")])
        period = random.randrange(1, 30)
        machine, _ = sampled(seed, name.lower() + suffix, period)
        made = seen.that_make(E[name], levels)
        assert [s.pc for s in machine.sampled] == made[period - 1 :: period], (name, suffix)
        assert machine.board.pes[0].unit.statistics.population == len(made)


@pytest.mark.parametrize("seed", [2, 5])
def test_exceptions_choose_what_they_belong_to(seed: int) -> None:
    seen = traced(seed)
    for levels, suffix in (({0, 1, 2, 3}, ""), ({0}, ":u")):
        places = [pc for pc, el in seen.exceptions if el in levels]
        machine, _ = sampled(seed, "exc_taken" + suffix, 2)
        assert [s.pc for s in machine.sampled] == places[1::2]
        assert all(operation.exception for operation in machine.operations)


def by_steps(seed: int, event: E, period: int) -> list[int]:
    """Where operations lie of which the totals before and after say that they make an N-th event.

    No sampler has a part in it.
    """
    machine = Machine(
        random_program(seed, settings_of(seed)), ram=RAM, seed=seed, core=MAX, model="cache"
    )
    pe = machine.board.pes[0]
    pe.counting.keep(event)
    chosen, before = [], 0
    for _ in range(OPERATIONS):
        pc = pe.cpu.pc
        machine.board.run(1)
        pe.counting.count_executed()
        after = pe.counting.totals.of(event)
        if after // period != before // period:
            chosen.append(pc)
        before = after
    return chosen


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", [*BY_MODEL, *BY_RUN])
def test_what_the_run_decides_chooses_the_operation_that_made_it(name: str) -> None:
    seed, period = 1, 1 + 4 * len(name) % 3
    machine, _ = sampled(seed, name, period, model="cache")
    assert machine.sampled
    assert [s.pc for s in machine.sampled] == by_steps(seed, E[name], period)


@pytest.mark.parametrize("name", sorted(E(event).name for event in AWAITED))
def test_an_awaited_event_chooses_what_steps_choose(name: str) -> None:
    """The engine stops in the midst of blocks; whole programs give the reference's records."""
    found = 0
    for seed in range(4):
        machine, _ = sampled(seed, name, 1 + 3 * seed, model="cache")
        found += len(machine.sampled)
    assert found >= 2


def test_stalls_never_happen() -> None:
    """Each cycle begins an operation, so no operation is looked at."""
    machine, _ = sampled(1, "stall", 1)
    assert machine.sampled == []


@pytest.mark.parametrize("period", [1, 5])
def test_ticks_of_the_counter_choose_the_operation_during_which_they_came(period: int) -> None:
    machine, result = sampled(2, "cnt_cycles", period)
    rate = machine.board.cpu.rate
    crossing = [
        n
        for n in range(1, result.operations + 1)
        if rate.ticks(n) // period != rate.ticks(n - 1) // period
    ]
    assert [s.operation for s in machine.sampled] == crossing


@pytest.mark.parametrize("core", [MAX, NEOVERSE], ids=["instructions", "micro-operations"])
def test_micro_operations_are_counted_where_the_core_has_some(core: Core) -> None:
    machine, _ = sampled(1, "op_retired", 3, core=core)
    stepped = Machine(
        random_program(1, settings_of(1)), ram=RAM, seed=1, core=core, event="op_retired", period=1
    )
    stepped.run(OPERATIONS)
    places = [
        (s.pc, o.instruction.part) for s, o in zip(stepped.sampled, stepped.operations, strict=True)
    ]
    assert [s.pc for s in machine.sampled] == [pc for pc, _ in places[2::3]]
    assert any(part for _, part in places) == (core is NEOVERSE)


def test_filters_come_after_the_choice() -> None:
    found: list[Callable[[], int]] = []
    for kinds in ((), ("store",)):
        options = MachineOptions(
            core=MAX, ram=RAM, sampling=Sampling(3, kinds, event="mem_access", jitter=False)
        )
        board = Board(options)
        board.load(random_program(1, settings_of(1)))
        board.run(OPERATIONS)
        statistics = board.pes[0].unit.statistics
        found.append((statistics.selected, statistics.filtered, statistics.written))
    (selected, _, all_written), (again, filtered, stores) = found
    assert selected == again == all_written
    assert filtered + stores == selected
    assert 0 < stores < selected


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("br_retird", "`event`: 'br_retird' is no event; near it are BR_RETIRED"),
        ("cycles:x", "`event`: cycles:x: after the colon stand u, k and h"),
        ("cycles,branches", "`event`: 'cycles,branches' are 2 events"),
    ],
)
def test_a_name_that_is_no_event_is_refused(event: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Sampling(10, event=event)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("event", "why"), [("branch-misses", "--model cache alone"), ("sample_pop", "no SPE beside")]
)
def test_an_event_that_the_machine_cannot_know_is_refused(event: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        Board(MachineOptions(sampling=Sampling(10, event=event)))


def test_a_period_that_compiled_code_cannot_count_is_refused() -> None:
    with pytest.raises(OptionError, match="`period` is at most 1152921504606846976"):
        Sampling((1 << 60) + 1, event="branches")
