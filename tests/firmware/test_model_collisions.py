"""Collisions that the cache model makes: an operation whose data is far occupies the unit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from spe_unicorn.arch.registers import spe
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.spe.packets import CounterIndex
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA, BUFFER = RAM_BASE, RAM_BASE + 0x100_0000, RAM_BASE + 0x20_0000
STRIDE = 0x1040
"""Bytes from load to load: each goes to another page and another line."""
WINDOW = 22
"""Bits of the memory that is walked through: twice the last level of the core."""
START = [*a.mov64(1, DATA), a.movz(2, 0), a.movz(9, STRIDE)]
LOOP = [a.ldr_reg(3, 1, 2), a.add(2, 2, 9), a.and_low_bits(2, 2, 0, WINDOW), a.b(-12)]
PMBSR_EL1 = (3, 0, 9, 10, 3)
INTERVAL = 257


def core(memory: int) -> Core:
    """The core ``generic`` with memory that is ``memory`` cycles away."""
    base = load_core("generic")
    return replace(base, numbers=replace(base.numbers, memory=memory))


def profiled(core: Core, runner: type[Runner] = Runner) -> Machine:
    """The loop is profiled from its start on, each 257th operation."""
    machine = Machine(image_of({CODE: a.code([*START, *LOOP])}, CODE), runner=runner, core=core,
                      model="cache")  # fmt: skip
    registers = machine.board.cpu.registers
    for register, value in (
        (spe.PMBPTR_EL1, BUFFER),
        (spe.PMBLIMITR_EL1, BUFFER + 0x10_0000 | 1),
        (spe.PMBSR_EL1, 0),
        (spe.PMSFCR_EL1, 0),
        (spe.PMSIRR_EL1, 1 << 8),
        (spe.PMSICR_EL1, 0),
        (spe.PMSCR_EL1, 0b10),
    ):
        registers.write(register, value)
    return machine


def totals(machine: Machine) -> list[int]:
    """The total latency of each record, in cycles."""
    found = []
    for sampled in machine.sampled:
        placed = read_record(sampled.record, 0)
        assert isinstance(placed, PlacedRecord)
        total = placed.record.counter(CounterIndex.TOTAL)
        assert total is not None
        found.append(total)
    return found


@pytest.mark.parametrize("memory", [700, 200])
def test_loads_from_far_away_collide_with_the_selections_that_follow(memory: int) -> None:
    machine = profiled(core(memory))
    machine.run(300_000)
    latencies = totals(machine)
    assert (max(latencies) > INTERVAL) == (memory == 700)
    # one operation is a cycle, so a sample that takes T cycles has the next selections collide
    # that come less than T operations after it
    places = [sampled.operation for sampled in machine.sampled]
    gaps = [after - before for before, after in pairwise(places)]
    assert gaps == [-(-total // INTERVAL) * INTERVAL for total in latencies[:-1]]
    selections = 300_000 // INTERVAL
    counts = machine.board.pes[0].events.counts
    statistics = machine.board.unit.statistics
    assert statistics.collisions == selections - len(latencies)
    assert counts.get(SampleEvent.COLLISION, 0) == statistics.collisions
    assert (statistics.collisions > 100) == (memory == 700)
    collided = bool(machine.board.cpu.registers.read(spe.PMBSR_EL1).COLL)
    assert collided == (memory == 700)


def test_collisions_are_the_same_where_each_operation_is_stepped() -> None:
    fast, stepped = (profiled(core(700), runner) for runner in (Runner, ReferenceRunner))
    assert fast.run(12_000).differences(stepped.run(12_000)) == {}
    assert fast.board.unit.statistics.collisions > 0


def test_guest_reads_that_there_was_a_collision() -> None:
    machine = profiled(core(700))
    loop = [*LOOP[:-1], a.mrs(10, PMBSR_EL1), a.ISB, a.b(-20)]
    machine.board.memory.fill(CODE, a.code([*START, *loop]))
    machine.run(60_000)
    assert machine.board.unit.statistics.collisions > 0
    assert machine.board.cpu.engine.x(10) == spe.PMBSR_EL1.COLL.mask


def test_micro_operations_collide_as_well() -> None:
    machine = profiled(load_core("neoverse-n1"))
    machine.run(400_000)
    assert max(totals(machine)) > INTERVAL
    assert machine.board.unit.statistics.collisions > 0
