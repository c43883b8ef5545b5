"""Every countable event on the shipped programs: the fast runner counts what stepping counts.

Events are counted from outside, at each Exception level, with and without a model of caches; the
guests' own counters go on beside that, and have to agree as well. A program is looked at in windows
of operations, the last of which reaches up to its end. Short programs are looked at from their
first operation to the last, and programs of several PEs on all of these.
"""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.host.counting.outside import OutsideCounts
from spe_unicorn.host.native.state.block_table import LANES
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.countable import STEPPED, countable
from spe_unicorn.pmu.words import JUMP_EVENTS, PART_EVENTS, WORD_EVENTS
from spe_unicorn.spe.feed import SampleEvent
from tests.firmware.differences import NAMES
from tests.firmware.programs import firmware_machine
from tests.support.machine_runs import Machine

slow = pytest.mark.slow
WINDOW = 700
MOST = 400_000
"""Operations of a program beyond which nothing is looked at."""
PLACES = (0.0, 0.6, 0.8, 1.0)
IN_SHORT = {
    # what each adds: calls and interrupts, EL2, sampling, the guest's own counters
    ("exceptions", "none"),
    ("priv_vhe", "cache"),
    ("spe_branches", "cache"),
    ("pmu_overflow", "none"),
}
"""What is looked at in the fast suite."""
IN_LANES = sorted(WORD_EVENTS | JUMP_EVENTS | PART_EVENTS)
GROUPS = [frozenset(IN_LANES[n : n + LANES]) for n in range(0, len(IN_LANES), LANES)]


def places(name: str, **options: Any) -> list[int]:
    """Where windows begin."""
    machine = firmware_machine(name, core="max", **options)
    machine.board.run(MOST)
    last = max(0, machine.board.executed - WINDOW)
    return sorted({int(last * place) for place in PLACES})


def counted(machine: Machine, events: frozenset[int]) -> dict[int, list[int]]:
    """What happens of ``events`` in the next window, by Exception level."""
    counting = machine.board.pes[0].counting
    counting.count_executed()
    outside = OutsideCounts(counting.totals, sorted(events), by_level=True)
    counting.observe(outside)
    machine.board.run(WINDOW)
    counting.count_executed()
    counting.outside = None
    counting.changed()
    return outside.s.counts


def groups(model: str) -> list[frozenset[int]]:
    """All events that are counted with a model, in as many groups as compiled code needs."""
    known = countable(with_model=model == "cache")
    everywhere = frozenset({*known, *SampleEvent}) - {*IN_LANES, *STEPPED}
    return [everywhere | group for group in (*GROUPS, STEPPED)]


def differing(name: str, **options: Any) -> dict[str, Any]:
    """The first window in which counts differ, and those; empty if they agree in all."""
    chosen = groups(options.get("model", "none"))
    everything = frozenset().union(*chosen)
    machines = [firmware_machine(name, core="max", **options) for _ in (*chosen, None)]
    *fast, reference = machines
    for begin in places(name, **options):
        for machine in machines:
            machine.board.run(max(0, begin - machine.board.executed))
        reference.go_on_with(ReferenceRunner)
        expected = counted(reference, everything)
        values = own_counters(reference)
        for machine, events in zip(fast, chosen, strict=True):
            found = counted(machine, events)
            wrong = {e: (n, expected[e]) for e, n in found.items() if n != expected[e]}
            if wrong or own_counters(machine) != values:
                return {"begin": begin, "events": wrong, "own": (own_counters(machine), values)}
        reference.go_on_with(Runner)
    return {}


def own_counters(machine: Machine, pe: int = 0) -> tuple[Any, ...]:
    counting = machine.board.pes[pe].counting
    counting.count_executed()
    state = counting.monitors.s
    return tuple(state.values), state.overflowed, state.pending


def from_the_start(machine: Machine, events: frozenset[int], most: int) -> list[Any]:
    """Of each PE, what happens of ``events`` from its reset on, and its own counters then."""
    counts = []
    for pe in machine.board.pes:
        pe.counting.count_executed()
        outside = OutsideCounts(pe.counting.totals, sorted(events), by_level=True)
        pe.counting.observe(outside)
        counts.append(outside)
    machine.board.run(most)
    own = [own_counters(machine, n) for n in range(len(counts))]
    executed = [pe.cpu.executed for pe in machine.board.pes]
    return [*zip((outside.s.counts for outside in counts), own, executed, strict=True)]


def differing_from_the_start(name: str, most: int, **options: Any) -> dict[str, Any]:
    """What differs after that many operations, or at the program's end; empty if nothing."""
    chosen = groups(options.get("model", "none"))
    everything = frozenset().union(*chosen)
    machine = firmware_machine(name, core="max", runner=ReferenceRunner, **options)
    reference = from_the_start(machine, everything, most)
    for events in chosen:
        found = from_the_start(firmware_machine(name, core="max", **options), events, most)
        for n, ((mine, *state), (all_of_it, *expected)) in enumerate(
            zip(found, reference, strict=True)
        ):
            wrong = {e: (count, all_of_it[e]) for e, count in mine.items() if count != all_of_it[e]}
            if wrong or state != expected:
                return {"pe": n, "events": wrong, "state": (state, expected)}
    return {}


RUNS = [(name, model) for name in NAMES for model in ("none", "cache")]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "model"),
    [pytest.param(*run, marks=() if run in IN_SHORT else slow, id="-".join(run)) for run in RUNS],
)
def test_every_event_is_counted_as_by_stepping(name: str, model: str) -> None:
    assert differing(name, model=model) == {}


WHOLE = (
    *("hello", "virtio_console", "virtio_blk", "pl061", "psci_calls", "fw_cfg"),
    *("priv_gic_secure", "fp_trap", "priv_el2", "pmu_basic", "debug_break", "priv_align"),
    *("priv_gic", "irq_latency", "debug_step", "debug_watch", "smc_pingpong", "priv_el3"),
    *("pmu_overflow", "beyond_qemu", "exceptions", "pmu_counts"),
)
"""Programs with few enough operations to be stepped to their end, the longest 112,000."""


@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize(
    "name", [n if n == "hello" else pytest.param(n, marks=slow) for n in WHOLE]
)
def test_every_event_of_a_whole_program_is_counted_as_by_stepping(name: str, model: str) -> None:
    assert differing_from_the_start(name, MOST, model=model) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize(
    ("name", "smp", "most"),
    [
        ("psci_calls", 2, MOST),
        pytest.param("ipi_pingpong", 2, 60_000, marks=slow),
        pytest.param("priv_smp", 4, 60_000, marks=slow),
        pytest.param("spe_smp", 4, 60_000, marks=slow),
    ],
)
def test_every_event_of_several_pes_is_counted_as_by_stepping(
    name: str, smp: int, most: int, model: str
) -> None:
    assert differing_from_the_start(name, most, model=model, smp=smp) == {}
